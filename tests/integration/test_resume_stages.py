"""A run of stages with the real policy, cut at, before and after a stage's border, is the straight run bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from test_stages import Impatient

from rods import tasks as task_sources
from rods.config import Config
from rods.config.compose import compose
from rods.exchange.lineage import history
from rods.exchange.rundir import RunDir
from rods.roles.train import assemble, build_stepper
from rods.training import checkpoint
from rods.training.loop import Loop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SETTINGS = [
    "+experiment=stages_tiny",
    "rollout.engine=hf",
    "training.threads=1",
    "training.tasks_per_step=2",
    "training.group_size=2",
    "tasks.train_count=4",
    "tasks.heldout_count=1",
    "synthesis.enabled=false",
    "tracking.wandb=disabled",
]
BORDER = "the stage's border"  # between the checkpoint at a stage's end and the first event of the next one


class Cut(BaseException):
    """The process is gone."""


class Attempt(Impatient):
    """A watcher that ends the attempt after so many steps, or at the first border."""

    def __init__(self, end: int | str | None) -> None:
        super().__init__(end if isinstance(end, int) else None)
        self.at_border = end == BORDER


def play(folder: Path, ends: Sequence[int | str | None], in_background: bool) -> tuple[Any, Any, Any]:
    """The run in as many attempts as `ends` has: what it did, and its policy and optimizer at its end."""
    config = compose(SETTINGS)
    config = replace(config, training=replace(config.training, async_checkpoint=in_background))
    run = RunDir.create(folder, "stages", "0" * 64)
    assert [attempt(run, number, config, end) for number, end in enumerate(ends, 1)][-1]
    newest = checkpoint.latest(run)
    assert newest is not None
    deeds = [record for record in history(run.journal_dir, "train") if record["name"] != "run_started"]
    weights = load_file(run.path / "policy" / "model.safetensors")
    state = torch.load(newest / "model" / "mp_rank_00_model_states.pt", weights_only=True)
    return deeds, weights, state["optimizer"]["state"]


def attempt(run: RunDir, number: int, config: Config, end: int | str | None) -> bool:
    """Whether the run finished."""
    run.attempt_dir(number).mkdir(parents=True, exist_ok=True)
    tasks = task_sources.load(config.tasks)
    watcher = Attempt(end)
    stepper = build_stepper(run.attempt_dir(number), config, tasks)
    parts = assemble(run, number, config, tasks, stepper, watcher)  # type: ignore[arg-type]
    loop = Loop(parts)
    if watcher.at_border:
        cut_at_border(loop)
    try:
        return loop.run()
    except Cut:
        return False
    finally:
        parts.ledger.close()
        stepper.close()


def cut_at_border(loop: Loop) -> None:
    """The second question whether to proceed to a stage is never answered."""
    course = loop._course
    proceed = course.proceed

    def cut(step: int) -> bool:
        if course.stage_over and step:
            raise Cut
        return proceed(step)

    course.proceed = cut  # type: ignore[method-assign]


def equal(one: Any, other: Any) -> bool:
    """Whether two nests of tensors are the same, bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return bool(one == other)


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Any]:
    return play(tmp_path_factory.mktemp("straight"), [None], False)


@pytest.mark.parametrize(
    ("ends", "in_background"),
    [([1, 1, 2, 3, None], True), ([BORDER, 1, BORDER, None], False)],
    ids=["stopped in steps and in front of a stage's first step", "killed at the borders"],
)
def test_a_cut_run_equals_the_straight_one(
    straight: tuple[Any, Any, Any], ends: Sequence[int | str | None], in_background: bool, tmp_path: Path
) -> None:
    deeds, weights, optimizer = play(tmp_path, ends, in_background)
    assert [deed for deed in deeds if deed["name"] == "stage_started"][-1]["stage"] == 3
    assert deeds == straight[0]
    assert equal(weights, straight[1])
    assert equal(optimizer, straight[2])
