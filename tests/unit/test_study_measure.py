"""A run directory's summary, number by number; and the tasks that the study is made of."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from analysis_examples import evaluation, event, make_run

from analysis.load import load
from benchmarks.study import world
from benchmarks.study.measure import Clock, Made, UnfinishedError, _judged, _trained, measure, overlap
from benchmarks.study.summary import Identity, Stretch, Zone
from rods import tasks as task_sources
from rods.config import TasksConfig
from rods.exchange.lineage import digest
from rods.tasks import file as task_file
from rods.tasks.model import Call, Task, TaskType, Turn

IDENTITY = Identity("s", "p", "t", "h")
MADE = Made("abc", "a machine", 300.0, 2.5)
HELD = ("h1", "h2", "h3", "h4")


def task(name: str, call: str = "ls", query: str = "Look.") -> Task:
    return Task(name, TaskType.BASE, ("GorillaFileSystem",), {}, (Turn(query, (Call(call, {}),)),))


def evaluated(step: int, scores: tuple[float, ...], mode: str) -> dict[str, Any]:
    found: dict[str, Any] = evaluation(step, 1, mode, sum(scores) / 4, dict(zip(HELD, scores, strict=True)))
    return found


def events() -> list[dict[str, Any]]:
    """Two steps, a variant that is asked for, arrives, enters, is trained on and leaves."""
    seed = {"task_id": "a", "seed_id": "a", "type": "base", "mean": 0.5, "phi": 1.0, "key": "1-a"}
    arrived = {"task_id": "v", "seed_id": "a", "type": "base", "kind": "view", "key": "1-a", "index": 0}
    return [
        event("run_started", 0, 0, fingerprint="f", seed=0),
        evaluated(0, (1.0, 0.0, 0.0, 0.0), "sampled"),
        evaluated(0, (1.0, 0.5, 0.5, 0.0), "greedy"),
        event("epoch_started", 0, 1, active=2),
        event("group_observed", 1, 1, task_id="a", rewards=[0.0, 1.0]),
        event("group_observed", 1, 1, task_id="b", rewards=[1.0, 1.0]),
        event("seed_emitted", 1, 1, **seed),
        event("variant_arrived", 1, 1, content_id="x", **arrived),
        event("seed_closed", 1, 1, key="1-a", outcome="published", reason=""),
        event("epoch_finished", 1, 1),
        event("variant_injected", 1, 2, task_id="v"),
        event("epoch_started", 1, 2, active=3),
        event("group_observed", 2, 2, task_id="v", rewards=[0.5, 1.0]),
        event("task_retired", 2, 2, task_id="v", reason="drift_mastered", mean=0.75),
        event("epoch_finished", 2, 2),
        evaluated(2, (1.0, 1.0, 0.3333333333, 0.0), "sampled"),
        evaluated(2, (1.0, 1.0, 0.5, 0.5), "greedy"),
        event("run_finished", 2, 2),
    ]


def lines(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


STEPS = [
    {"event": "evaluation", "step": 0, "cpu_seconds": 5.0},
    {"step": 1, "time": 10.0, "cpu_seconds": 3.0, "generated_tokens": 100},
    {"step": 2, "time": 11.0, "cpu_seconds": 99.0, "generated_tokens": 999},  # lost in a crash, done again
    {"step": 2, "time": 20.0, "cpu_seconds": 4.0, "generated_tokens": 50},
    {"event": "epoch", "step": 2},
    {"event": "evaluation", "step": 2, "cpu_seconds": 6.0},
]
SYNTHESIS = [
    {"time": 9.0, "cpu_seconds": 0.5},
    {"time": 15.0, "cpu_seconds": 1.5},
    {"time": 21.0, "cpu_seconds": 2.0},
]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    held = tuple(task(name, f"cat{name}") for name in HELD)
    monkeypatch.setattr(world, "heldout", lambda: held)
    made = make_run(tmp_path, events())
    lines(made / "metrics" / "train.jsonl", STEPS)
    lines(made / "metrics" / "synthesis.jsonl", SYNTHESIS)
    lines(made / "expanded" / "expanded_epoch_0001.jsonl", [task("v", "cath2", "In other words.").to_json()])
    (made / "attempts" / "0001").mkdir(exist_ok=True)
    return made


def test_a_run_is_measured_from_its_journal_metrics_and_variants(run: Path) -> None:
    found = measure(run, "rods", 3, IDENTITY, MADE)
    assert (found.arm, found.seed, found.identity, found.commit, found.attempts) == (
        "rods",
        3,
        IDENTITY,
        "abc",
        1,
    )
    assert found.digest == digest([each for each in load(run).events if each["name"] != "run_started"])
    assert (found.start_sampled, found.start_greedy) == ([1.0, 0.0, 0.0, 0.0], [1.0, 0.5, 0.5, 0.0])
    start, end = found.curve
    assert (start.step, start.trajectories, start.tokens, start.cpu_seconds) == (0, 0, 0, 0.0)
    assert (end.step, end.trajectories, end.tokens, end.cpu_seconds) == (2, 6, 150, 3 + 4 + 1.5)
    assert (start.sampled, start.greedy, start.sampled_accuracy, start.greedy_accuracy) == (
        0.25,
        0.5,
        0.25,
        0.25,
    )
    assert (end.greedy, end.greedy_accuracy) == (0.75, 0.5)
    assert found.sampled == [1.0, 1.0, 0.3333, 0.0]
    assert found.greedy == [1.0, 1.0, 0.5, 0.5]
    assert found.by_kind == {"view": (0.25, 0.5, 0.5833, 0.75)}
    assert found.zero_variance == 0.3333
    assert (
        found.cost.load,
        found.cost.wall,
        found.cost.training,
        found.cost.synthesis,
        found.cost.evaluation,
    ) == (
        2.5,
        300,
        7,
        2,
        11,
    )


def test_the_mechanism_is_that_of_the_journal(run: Path) -> None:
    found = measure(run, "rods", 3, IDENTITY, MADE).mechanism
    assert found.zones == {"hard": Zone(0, 0.0), "boundary": Zone(2, 0.1562), "mastered": Zone(1, 0.0)}
    assert (found.first_means, found.band) == ([0.75], (0.2, 0.85))
    assert [(row.epoch, row.seeds, row.variants, row.retired) for row in found.pool] == [
        (1, 2, 0, 0),
        (2, 2, 1, 1),
    ]
    latency = found.latency
    assert (latency.variants, latency.synthesis, latency.staging, latency.waiting) == (1, 0.0, 0.0, 1.0)
    assert found.funnel["variants trained on"] == 1
    assert found.failures == {"vm_exec_failed": 1}


def test_what_was_trained_on_is_told_from_one_evaluation_to_the_next(tmp_path: Path) -> None:
    told = ("run_started", "group_observed", "variant_arrived")
    again = event("group_observed", 3, 2, task_id="b", rewards=[1.0, 0.75])
    data = load(make_run(tmp_path, [*(each for each in events() if each["name"] in told), again]))
    first, second = Stretch(1, 0.75, 0.5, 1.0, 0.75), Stretch(3, 0.8125, 0.0, 0.5, 0.875)
    assert _trained(data, [0, 1, 3]) == [first, second]
    assert _trained(data, [0, 3]) == [Stretch(3, 0.7812, 0.25, 0.75, 0.7917)]
    assert _trained(data, [1, 2]) == [Stretch(2, 0.75, 0.0, 1.0, None)]
    assert _trained(data, [3, 9]) == []


def test_an_interrupted_run_that_did_the_same_has_the_same_digest(run: Path, tmp_path: Path) -> None:
    start, *others = events()
    place = next(number for number, each in enumerate(others) if each["name"] == "seed_closed")
    twice = make_run(tmp_path / "twice", [start, *others[:place], {**start, "step": 1}, *others[place:]])
    once = measure(run, "rods", 3, IDENTITY, MADE)
    assert measure(twice, "rods", 3, IDENTITY, MADE).digest == once.digest
    less = make_run(tmp_path / "less", [start, *(each for each in others if each["name"] != "task_retired")])
    assert measure(less, "rods", 3, IDENTITY, MADE).digest != once.digest


def test_a_variant_with_a_held_out_tasks_solution_is_told(run: Path) -> None:
    found = measure(run, "rods", 3, IDENTITY, MADE).overlap
    assert (found.variants, found.content, found.calls) == (1, [], [1])


def test_content_and_solution_are_told_apart() -> None:
    held = [task("h1"), task("h2", "pwd"), task("h3", "cat")]
    variants = [task("v1"), task("v2", "pwd", "Where am I?")]
    found = overlap(variants, held)
    assert (found.content, found.calls) == ([0], [0, 1])


def test_an_unfinished_run_has_no_summary(run: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "other", events()[:-1])
    with pytest.raises(UnfinishedError, match="expected a finished run"):
        measure(other, "rods", 3, IDENTITY, MADE)


def test_groups_under_the_format_reward_have_no_zone(tmp_path: Path) -> None:
    started = {"types": [], "reason": ""}
    of_stages = [
        event("stage_started", 0, 0, stage=1, title="format", reward="format", **started),
        event("group_observed", 1, 1, task_id="a", rewards=[0.0, 2.0]),
        event("stage_started", 1, 1, stage=2, title="all", reward="progress", **started),
        *[each for each in events() if each["name"] == "group_observed" and each["step"] == 2],
    ]
    run = make_run(tmp_path, [*of_stages])
    assert [group.step for group in _judged(load(run))] == [2]
    assert [each.step for each in _trained(load(run), [0, 1, 2])] == [2]


def test_the_clock_is_empty_before_the_first_step(run: Path) -> None:
    clock = Clock(load(run), [])
    assert (clock.training(0), clock.synthesis(0), clock.tokens(0)) == (0.0, 0.0, 0)
    assert clock.totals() == (7.0, 0.0, 11.0)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study of few tasks and seeds."""
    for name, value in {
        "TRAIN_TASKS": 15,
        "HELDOUT_TASKS": 15,
        "_DRAWN": 30,
        "REPORTED": (0, 1),
        "CHECKING": (),
        "TUNING": (),
    }.items():
        monkeypatch.setattr(world, name, value)
    for cached in (world.training, world.heldout):
        monkeypatch.setattr(world, cached.__name__, cached.__wrapped__)


@pytest.mark.usefixtures("small")
def test_no_held_out_task_repeats_a_training_task_of_any_seed_or_another_held_out_one() -> None:
    held = [world.traits(task) for task in world.heldout()]
    taken = [world.traits(task) for seed in (0, 1) for task in world.training(seed)]
    assert len(held) == 15
    for name in ("content", "calls"):
        mine, theirs = ([getattr(each, name) for each in side] for side in (held, taken))
        assert not set(mine) & set(theirs)
        assert len(set(mine)) == len(mine)


@pytest.mark.usefixtures("small")
def test_a_held_out_task_that_a_seed_trains_on_is_not_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    first = world.heldout()[0]
    again = replace(first, id="again", turns=tuple(replace(turn, query="Otherwise.") for turn in first.turns))
    drawn = {seed: world.training(seed) for seed in (0, 1)}
    monkeypatch.setattr(world, "training", lambda seed: (again, *drawn[1]) if seed == 1 else drawn[seed])
    assert world.traits(first).calls not in {world.traits(task).calls for task in world.heldout()}


@pytest.mark.usefixtures("small")
def test_too_few_held_out_tasks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world, "HELDOUT_TASKS", 31)
    with pytest.raises(world.WorldError, match="expected 31"):
        world.heldout()


@pytest.mark.usefixtures("small")
def test_a_seeds_data_set_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    folder = world.write(tmp_path, 1)
    found = task_sources.load(TasksConfig(source="file", path=str(folder)))
    assert found.train == world.training(1)
    assert found.heldout == world.heldout() == task_file.read(folder / task_file.HELDOUT)
    assert world.training(0) != world.training(1)
