"""The training room's figures in one object: `python -m benchmarks.training --json`.

`update`: one GRPO update beside TRL's (`benchmarks.training_update`). `rollout`: episodes on their own beside a turn
barrier, and `overhead`: the harness's own share of a step (both `benchmarks.training_rollout`). Each is measured in a
process of its own, one after the other, so that none finds another's memory or threads.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from rods.errors import RodsError

FIGURES = ("update", "rollout", "overhead")


class MeasurementError(RodsError):
    """A figure could not be measured."""


def command(figure: str, engine: str, repeats: int) -> list[str]:
    """The command that measures `figure`."""
    if figure == "update":
        return [sys.executable, "-m", "benchmarks.training_update", "--json", "--repeats", str(repeats)]
    options = ["--figure", figure, "--engine", engine, "--repeats", str(repeats)]
    return [sys.executable, "-m", "benchmarks.training_rollout", "--json", *options]


def measure(figure: str, engine: str, repeats: int) -> Any:
    """What that command prints.

    Raises:
        MeasurementError: it failed; its own words stand on standard error.
    """
    done = subprocess.run(command(figure, engine, repeats), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise MeasurementError(
            f"the figure {figure}: expected exit status 0, found {done.returncode}. Run it alone to see why: "
            f"python -m {' '.join(command(figure, engine, repeats)[2:])}"
        )
    return json.loads(done.stdout)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one line, without indentation")
    parser.add_argument("--figures", nargs="+", default=FIGURES, choices=FIGURES)
    parser.add_argument("--engine", default="hf", choices=("hf", "vllm"), help="of rollout and overhead")
    parser.add_argument("--repeats", type=int, default=3, help="of each side, or steps measured")
    chosen = parser.parse_args(arguments)
    report = {figure: measure(figure, chosen.engine, chosen.repeats) for figure in chosen.figures}
    print(json.dumps(report, indent=None if chosen.json else 1))


if __name__ == "__main__":
    main()
