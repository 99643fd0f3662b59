"""Variants of BFCL's train tasks by the scripted backend: acceptance by type, and every ground truth judged twice.

`python -m benchmarks.variants --json`. A variant is sound when its ground truth earns reward 1.0 on a fresh world
through the rollout's own session, and when BFCL's official checker passes it turn by turn. There is no peer: the
paper publishes no acceptance rates. The scripted backend is no language model; its rates say how much of the seeds'
variety the pipeline's checks let through, not what a model reaches.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.official import OfficialChecker, as_python
from rods.config import SynthesisConfig, TasksConfig
from rods.simulation.exposure import expose
from rods.synthesis import filters
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.scripted import build
from rods.tasks import load
from rods.tasks.model import Task, TaskType


@dataclass
class Report:
    """What came of a number of seeds.

    Attributes:
        seeds: worked on, by type.
        accepted: variants, by type.
        classes: how many variants have each class.
        failures: failed attempts, by kind.
        unsound: ids of accepted variants whose ground truth fails, by who says so ("session", "official").
    """

    seeds: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    classes: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    unsound: dict[str, list[str]] = field(default_factory=lambda: {"session": [], "official": []})

    def figures(self) -> dict[str, dict[str, Any]]:
        """Accepted variants per seed by type and in all, and the sound share of the accepted."""
        total = self.accepted.total()
        bad = len({name for names in self.unsound.values() for name in names})
        rates = {f"acceptance_{kind}": self.accepted[kind] / self.seeds[kind] for kind in self.seeds}
        rates["acceptance"] = total / self.seeds.total()
        return {
            **{name: _figure(rate, "accepted variants per seed") for name, rate in rates.items()},
            "variants": _figure(total, "accepted variants"),
            "classes": _figure(len(self.classes), "classes among the variants"),
            "sound": _figure((total - bad) / total if total else 0.0, "share of the accepted variants"),
        }


def run(per_type: int, seed: int = 0) -> Report:
    """Make a variant of the first `per_type` train tasks of each type and judge every ground truth."""
    loaded = load(TasksConfig(source="bfcl"))
    config = SynthesisConfig()
    pipeline = Pipeline(config, build(config), seed, (*loaded.train, *loaded.heldout))
    official, report = OfficialChecker(), Report()
    for kind in TaskType:
        for task in [task for task in loaded.train if task.type is kind][:per_type]:
            outcome = asyncio.run(pipeline.run(task, f"bench-{task.id}"))
            report.seeds[kind.value] += 1
            report.failures.update(outcome.errors)
            for variant in outcome.tasks:
                _judge(variant, official, report)
    official.forget()
    return report


def passes_official(task: Task, official: OfficialChecker) -> bool:
    """Whether the official checker passes a task's ground truth when a policy plays it turn by turn.

    The checker takes equal errors on both sides for a success, so every official result must be ours as well: none
    of those is an error.
    """
    truth = [[as_python(call) for call in turn.calls] for turn in task.turns]
    entry = {
        # The checker reads the type out of the id.
        "id": f"multi_turn_{task.type.value}_0",
        "initial_config": task.initial_state,
        "involved_classes": list(task.classes),
        "ground_truth": truth,
    }
    official.forget()
    executed = [official.execute(entry, calls) for calls in truth]
    results = [list(texts) for texts in expose(task).results]
    return (
        executed == results and official.check(entry, [(calls,) if calls else () for calls in truth]) is None
    )


def _judge(variant: Task, official: OfficialChecker, report: Report) -> None:
    report.accepted[variant.type.value] += 1
    report.classes.update(variant.classes)
    if filters.failed_turns(variant):
        report.unsound["session"].append(variant.id)
    if not passes_official(variant, official):
        report.unsound["official"].append(variant.id)


def _figure(value: float, unit: str) -> dict[str, Any]:
    return {"ours": round(value, 4), "peer": None, "peer_name": None, "unit": unit, "ratio": None}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 when an accepted variant is unsound."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.variants", description=__doc__)
    parser.add_argument("--per-type", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="figures only, as one object")
    chosen = parser.parse_args(arguments)
    report = run(chosen.per_type, chosen.seed)
    if chosen.json:
        print(json.dumps(report.figures()))
    else:
        print(json.dumps({**vars(report), "figures": report.figures()}, indent=1))
    return int(any(report.unsound.values()))


if __name__ == "__main__":
    sys.exit(main())
