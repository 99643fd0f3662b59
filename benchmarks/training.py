"""The training room's figures in one object: `python -m benchmarks.training --json`.

`update`: one GRPO update beside TRL's (`benchmarks.training_update`). `rollout`: episodes on their own beside a turn
barrier, and `overhead`: the harness's own share of a step (both `benchmarks.training_rollout`). Each is measured in a
process of its own on one thread, one after the other, so that none finds another's memory or threads. A figure that
fails stands in the object as its `error`, and the exit status is 1. `--small` measures next to nothing: it shows within
minutes that all of it runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FIGURES = ("update", "rollout", "overhead")


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes:
        repeats: of each side, or steps.
        updates: in each repeat of `update`.
        tasks: of a step, in `rollout` and `overhead`.
        group: rollouts of a task, likewise.
    """

    repeats: int
    updates: int
    tasks: int
    group: int


FULL, SMALL = Scale(3, 3, 32, 16), Scale(1, 1, 4, 4)


def command(figure: str, engine: str, scale: Scale) -> list[str]:
    """The command that measures `figure`."""
    module, options = "training_update", {"updates": scale.updates}
    if figure != "update":
        module, options = "training_rollout", {"tasks": scale.tasks, "group": scale.group}
    words = [sys.executable, "-m", f"benchmarks.{module}", "--json", "--repeats", str(scale.repeats)]
    words += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return words if figure == "update" else [*words, "--figure", figure, "--engine", engine]


def measure(figure: str, engine: str, scale: Scale) -> Any:
    """What that command prints last, or `{"error": …}`; its own words stand on standard error."""
    words = command(figure, engine, scale)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    if done.returncode:
        return {"error": f"exit status {done.returncode} of python {' '.join(words[1:])}"}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": f"no JSON at the end of what python {' '.join(words[1:])} prints"}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; 1 when a figure could not be measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one line, without indentation")
    parser.add_argument("--figures", nargs="+", default=FIGURES, choices=FIGURES)
    parser.add_argument("--engine", default="hf", choices=("hf", "vllm"), help="of rollout and overhead")
    parser.add_argument("--repeats", type=int, help="of each side, or steps measured (default: 3)")
    parser.add_argument(
        "--small", action="store_true", help="4 tasks × 4 rollouts, once: to see that it runs"
    )
    chosen = parser.parse_args(arguments)
    size = SMALL if chosen.small else FULL
    scale = Scale(chosen.repeats or size.repeats, size.updates, size.tasks, size.group)
    report: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0]}
    report |= {figure: measure(figure, chosen.engine, scale) for figure in chosen.figures}
    report["load_after"] = os.getloadavg()[0]
    print(json.dumps(report, indent=None if chosen.json else 1))
    return int(any("error" in report[figure] for figure in chosen.figures))


if __name__ == "__main__":
    sys.exit(main())
