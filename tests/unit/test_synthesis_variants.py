"""Scripted variants of BFCL's seeds, judged by our session and by BFCL's own checker.

`python -m benchmarks.variants` makes the full form of it: a variant of each of the 400 train tasks.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("bfcl_eval")

from benchmarks import variants
from benchmarks.official import OfficialChecker
from rods.config import TasksConfig
from rods.tasks import load
from rods.tasks.bfcl_package import CLASSES
from rods.tasks.model import Call, TaskType

PER_TYPE = 12


@pytest.fixture(scope="module")
def report() -> variants.Report:
    return variants.run(PER_TYPE)


def test_every_accepted_ground_truth_is_sound_on_a_fresh_world_and_officially(
    report: variants.Report,
) -> None:
    assert report.unsound == {"session": [], "official": []}
    assert report.figures()["sound"]["ours"] == 1


def test_variants_are_of_all_types_and_classes(report: variants.Report) -> None:
    assert report.seeds == {kind.value: PER_TYPE for kind in TaskType}
    assert min(report.accepted[kind.value] for kind in TaskType) >= PER_TYPE // 3
    assert set(report.classes) == set(CLASSES)


def test_the_official_judgement_would_tell() -> None:
    loaded = load(TasksConfig(source="bfcl")).train
    task = next(task for task in loaded if task.classes == ("VehicleControlAPI",))
    official = OfficialChecker()
    assert variants.passes_official(task, official)
    assert variants.passes_official(task, official)
    broken = replace(task.turns[0], calls=(Call("no_such_function", {}),))
    assert not variants.passes_official(replace(task, turns=(broken, *task.turns[1:])), official)
