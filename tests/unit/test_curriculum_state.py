"""The state as a value: strict snapshots, stable digests, and events that cannot have happened."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from curriculum_examples import Run, run_with_variants, seed_task, variant_task

from rods.config import BoundaryConfig, BufferConfig
from rods.curriculum import pool
from rods.curriculum.errors import CurriculumError, ImpossibleEventError, StateFormatError
from rods.curriculum.events import (
    EpochFinished,
    EpochStarted,
    EvaluationDone,
    EvaluationMode,
    Event,
    GroupObserved,
    RetirementReason,
    RunFinished,
    RunStarted,
    SeedClosed,
    SeedEmitted,
    SeedOutcome,
    TaskRetired,
    VariantArrived,
    VariantInjected,
)
from rods.curriculum.state import CurriculumState, apply, fold, initial
from rods.curriculum.summary import summary
from rods.tasks.model import TaskType

BASE = TaskType.BASE

EVALUATION = EvaluationDone(
    3,
    2,
    "heldout",
    EvaluationMode.GREEDY,
    0.5,
    0.0,
    {"family": 0.5},
    {"base": 0.5},
    {"base": 0.0},
    {"a": 0.5},
    1,
)


def _example() -> Run:
    """Epoch 2 of a run: variants v (active) and w (waiting), a request open and one closed, all at step 3."""
    run = run_with_variants(["v"], BufferConfig(injection_fraction=1.0))
    run.emit(3, "b")
    run.offer(variant_task("w", "b"), "000003-b")
    return run


# At step 3, epoch 2 of the example: what each event would contradict.
IMPOSSIBLE: list[tuple[str, Event]] = [
    ("a step not before 3", GroupObserved(2, 2, "c", (1.0,))),
    ("expected epoch 2, found 3", GroupObserved(4, 3, "c", (1.0,))),
    ("expected epoch 2, found 1", GroupObserved(4, 1, "c", (1.0,))),
    ("unknown id 'nobody'", GroupObserved(4, 2, "nobody", (1.0,))),
    ("'w' active, found waiting", GroupObserved(4, 2, "w", (1.0,))),
    ("one group of 'b' per step", GroupObserved(3, 2, "b", (1.0,))),
    ("finite rewards", GroupObserved(4, 2, "c", ())),
    ("finite rewards", GroupObserved(4, 2, "c", (math.nan,))),
    ("epoch 2 to be finished first", EpochStarted(3, 3, 6)),
    ("expected epoch 3, found 2", EpochStarted(3, 2, 6)),
    ("epoch 2 to be finished first", VariantInjected(3, 3, "w")),
    ("epoch 2 to be finished first", RunFinished(3, 2)),
    ("seed id, type and key", SeedEmitted(3, 2, "b", "a", BASE, 0.5, 1.0, "000003-b", 0)),
    ("seed id, type and key", SeedEmitted(3, 2, "b", "b", TaskType.MISS_FUNC, 0.5, 1.0, "000003-b", 0)),
    ("seed id, type and key", SeedEmitted(3, 2, "b", "b", BASE, 0.5, 1.0, "000001-b", 0)),
    ("exclusion window", SeedEmitted(3, 2, "b", "b", BASE, 0.5, 1.0, "000003-b", 0)),
    ("latest mean 0.5, found 0.25", SeedEmitted(3, 2, "b", "b", BASE, 0.25, 0.75, "000003-b", 0)),
    ("latest mean None, found 0.5", SeedEmitted(3, 2, "c", "c", BASE, 0.5, 1.0, "000003-c", 0)),
    ("unknown key", SeedClosed(3, 2, "000009-z", SeedOutcome.DROPPED, "")),
    ("open or expired, found published", SeedClosed(3, 2, "000001-a", SeedOutcome.DROPPED, "")),
    ("unknown key", VariantArrived(3, 2, "x", "b", BASE, "", "000009-z", 0, "new")),
    ("open or expired, found published", VariantArrived(3, 2, "x", "a", BASE, "", "000001-a", 0, "new")),
    ("root seed 'b', found c", VariantArrived(3, 2, "x", "c", BASE, "", "000003-b", 0, "new")),
    ("a new task id", VariantArrived(3, 2, "v", "b", BASE, "", "000003-b", 0, "new")),
    (
        "new content, found w",
        VariantArrived(3, 2, "x", "b", BASE, "", "000003-b", 0, variant_task("w", "b").content_id()),
    ),
    ("originals are never retired", TaskRetired(3, 2, "b", RetirementReason.CAPACITY, 0.5)),
    ("'w' active, found waiting", TaskRetired(3, 2, "w", RetirementReason.CAPACITY, None)),
    ("latest mean None", TaskRetired(3, 2, "v", RetirementReason.DRIFT_HARD, 0.1)),
    ("unknown id", TaskRetired(3, 2, "nobody", RetirementReason.STALE, None)),
]


@pytest.mark.parametrize(("message", "event"), IMPOSSIBLE)
def test_an_event_that_contradicts_the_state_is_refused_and_changes_nothing(message, event):
    run = _example()
    before = run.state.digest()
    with pytest.raises(ImpossibleEventError) as error:
        apply(run.state, event)
    assert message in str(error.value)
    assert event.name in str(error.value)
    assert run.state.digest() == before


def _between_epochs() -> Run:
    run = _example()
    run.close_epoch()
    return run


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ("expected 6 active tasks, found 7", EpochStarted(3, 3, 7)),
        ("an open epoch", GroupObserved(4, 2, "c", (1.0,))),
        ("an open epoch", EpochFinished(3, 2)),
        ("'v' waiting, found active", VariantInjected(3, 3, "v")),
        ("expected epoch 3, found 4", VariantInjected(3, 4, "w")),
    ],
)
def test_between_epochs_only_the_next_one_may_begin(message, event):
    with pytest.raises(ImpossibleEventError) as error:
        apply(_between_epochs().state, event)
    assert message in str(error.value)


def test_a_variant_retires_once():
    run = _example()
    gone = TaskRetired(3, 2, "v", RetirementReason.STALE, None)
    run.take([gone])
    with pytest.raises(ImpossibleEventError, match="found retired"):
        apply(run.state, gone)


def test_a_static_pool_takes_no_variant():
    run = Run([seed_task("a")], buffer_config=BufferConfig(capacity=0))
    run.open_epoch()
    key = run.emit(1, "a")
    with pytest.raises(ImpossibleEventError, match="static pool"):
        apply(run.state, VariantArrived(1, 1, "v", "a", BASE, "", key, 0, "new"))


def test_without_a_window_a_seed_is_still_emitted_once_per_step():
    run = Run([seed_task("a")], BoundaryConfig(quotas={"base": 1}, exclusion_steps=0))
    run.open_epoch()
    observed = run.observe(1, {"a": (1.0, 0.0)})
    (seed,) = run.select(observed)
    assert run.select(observed) == []
    with pytest.raises(ImpossibleEventError, match="exclusion window"):
        apply(run.state, seed)


def test_expired_is_not_recorded_twice():
    run = _example()
    run.close_seed("000003-b", SeedOutcome.EXPIRED)
    with pytest.raises(ImpossibleEventError, match="open or expired"):
        run.close_seed("000003-b", SeedOutcome.EXPIRED)


def test_a_run_is_continued_on_the_same_tasks_and_seed_only():
    run = _example()
    run.take([RunStarted(3, 2, "tasks", 7)])
    run.take([RunStarted(3, 2, "tasks", 7)])
    for other in (RunStarted(3, 2, "others", 7), RunStarted(3, 2, "tasks", 8)):
        with pytest.raises(ImpossibleEventError, match="the same tasks and seed"):
            apply(run.state, other)


def test_nothing_follows_the_end_of_a_run_but_its_continuation():
    run = _between_epochs()
    run.take([RunStarted(3, 2, "tasks", 7), RunFinished(3, 2)])
    with pytest.raises(ImpossibleEventError, match="run_finished"):
        apply(run.state, EVALUATION)
    run.take([RunStarted(3, 2, "tasks", 7)])
    run.open_epoch()
    assert run.state.epoch == 3


def test_an_evaluation_leaves_the_curriculum_as_it_is():
    state = _example().state
    assert apply(state, EVALUATION) == state


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ([], "at least one seed"),
        ([seed_task("a"), seed_task("a")], "twice"),
        ([variant_task("v", "a")], "original seed"),
        ([replace(seed_task("a"), seed_id="b")], "original seed"),
    ],
)
def test_a_pool_begins_with_original_seeds(seeds, message):
    with pytest.raises(CurriculumError, match=message):
        initial(seeds, BoundaryConfig(), BufferConfig())


def test_apply_leaves_the_old_state_as_it_was():
    run = _example()
    before = run.state.to_json()
    old = run.state
    run.observe(4, {"v": (1.0, 0.0), "c": (0.0, 0.0)})
    run.close_seed("000003-b")
    assert old.to_json() == before
    assert run.state != old


def test_summary_counts_what_there_is():
    run = _example()
    run.observe(4, {"v": (0.0, 0.0), "c": (1.0, 1.0)})
    run.take([TaskRetired(4, 2, "v", RetirementReason.BURN_IN, 0.0)])
    run.offer(variant_task("w", "b"), "000003-b")
    run.observe(5, {"d": (0.1, 0.1)})
    assert summary(run.state) == {
        "zones": {"hard": 1, "boundary": 2, "mastered": 1},
        "unobserved": 1,
        "active_seeds": 5,
        "active_variants": 0,
        "waiting": 1,
        "retired": {"burn_in": 1},
        "refused": {"duplicate_id": 1},
        "seeds_emitted": 2,
        "seeds_open": 1,
        "seeds_closed": {"published": 1},
    }


def _set(*path: str, to: object) -> Callable[[dict], None]:
    def change(data: dict) -> None:
        for key in path[:-1]:
            data = data[key]
        data[path[-1]] = to

    return change


def _delete(*path: str) -> Callable[[dict], None]:
    def change(data: dict) -> None:
        for key in path[:-1]:
            data = data[key]
        del data[path[-1]]

    return change


@pytest.mark.parametrize(
    "change",
    [
        _delete("tasks"),
        _delete("tasks", "v", "statistics"),
        _delete("tasks", "v", "injected_epoch"),
        _delete("requests", "000003-b", "outcome"),
        _set("extra", to=1),
        _set("tasks", "v", "extra", to=1),
        _set("boundary", "extra", to=1),
        _set("step", to="3"),
        _set("in_epoch", to=1),
        _set("boundary", "alpha_low", to="0.2"),
        _set("tasks", "v", "status", to="asleep"),
        _set("tasks", "a", "statistics", "mean", to=math.nan),
        _set("tasks", to=[]),
        _set("tasks", "a", "id", to="b"),
        _set("requests", "000003-b", "key", to="000003-c"),
        _delete("requests", "000001-a"),
        _set("boundary", "quotas", "base", to=1.5),
    ],
)
def test_a_snapshot_of_another_form_is_refused(change):
    data = json.loads(json.dumps(_example().state.to_json()))
    assert CurriculumState.from_json(data) == _example().state
    change(data)
    with pytest.raises(StateFormatError, match="curriculum state"):
        CurriculumState.from_json(data)


@pytest.mark.parametrize("data", [None, [], "state", 3, {}])
def test_what_is_no_snapshot_is_refused(data):
    with pytest.raises(StateFormatError):
        CurriculumState.from_json(data)


def test_digest_depends_on_content_not_on_the_order_of_entries():
    state = _example().state
    data = json.loads(json.dumps(state.to_json(), sort_keys=True))
    shuffled = CurriculumState.from_json({**data, "tasks": dict(reversed(data["tasks"].items()))})
    assert shuffled.digest() == state.digest()
    assert fold(shuffled, []).digest() == state.digest()
    assert apply(state, GroupObserved(4, 2, "c", (1.0, 0.0))).digest() != state.digest()


DIGEST_SCRIPT = """
from rods.curriculum import pool
from test_curriculum_state import _example
run = _example()
print(run.state.digest(), *pool.epoch_order(run.state, 3, 2))
"""


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
def test_digest_and_order_are_the_same_in_every_process(hash_seed, request):
    here = str(request.path.parent)
    root = str(request.config.rootpath)
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join([here, root])}
    result = subprocess.run(
        [sys.executable, "-c", DIGEST_SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    run = _example()
    assert result.stdout.split() == [run.state.digest(), *pool.epoch_order(run.state, 3, 2)]
