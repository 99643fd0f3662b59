"""Random runs under random configurations: what must hold at every point of every run."""

import json
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise
from random import Random

from curriculum_examples import Run, seed_task, variant_task
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rods.config import BoundaryConfig, BufferConfig
from rods.curriculum import pool, retirement
from rods.curriculum.events import (
    EpochStarted,
    SeedEmitted,
    SeedOutcome,
    TaskRetired,
    VariantArrived,
    VariantInjected,
    parse_event,
)
from rods.curriculum.state import CurriculumState, fold
from rods.curriculum.zones import Zone, zone
from rods.tasks.model import Origin, TaskType

BOUNDARIES = st.builds(
    BoundaryConfig,
    alpha_low=st.sampled_from([0.1, 0.2, 0.4]),
    alpha_high=st.sampled_from([0.6, 0.85]),
    max_seeds=st.integers(0, 4),
    quotas=st.dictionaries(st.sampled_from([kind.value for kind in TaskType]), st.integers(0, 3)),
    exclusion_steps=st.integers(0, 4),
)
BUFFERS = st.builds(
    BufferConfig,
    capacity=st.integers(0, 4),
    injection_fraction=st.sampled_from([0.1, 0.2, 0.5, 1.0]),
    burn_in=st.integers(0, 2),
    stale_epochs=st.integers(1, 2),
    retire=st.booleans(),
)
REWARDS = (0.0, 0.25, 1 / 3, 0.5, 2 / 3, 1.0)


def _epoch(run: Run, random: Random) -> None:
    run.open_epoch()
    order = pool.epoch_order(run.state, 0, run.state.epoch)
    for task_id in order:
        if random.random() < 0.6:
            _step(run, random, [task_id, *random.sample(order, min(2, len(order)))])
    for key in [key for key, request in run.state.requests.items() if request.outcome is None]:
        if random.random() < 0.3:
            run.close_seed(key, SeedOutcome.EXPIRED)
    run.take(retirement.at_epoch_end(run.state, run.state.step, run.state.epoch))
    live = sum(record.live_variant for record in run.state.tasks.values())
    assert live <= run.state.buffer.capacity
    run.close_epoch()


def _step(run: Run, random: Random, task_ids: list[str]) -> None:
    alive = [name for name in dict.fromkeys(task_ids) if run.state.tasks[name].status == "active"]
    groups = {name: tuple(random.choices(REWARDS, k=3)) for name in alive}
    observed = run.observe(run.state.step + 1, groups)
    seeds = run.select(observed)
    run.take(retirement.after_step(run.state, observed, run.state.step, run.state.epoch))
    for key, request in list(run.state.requests.items()):
        if request.outcome in (None, SeedOutcome.EXPIRED) and random.random() < 0.4:
            for index in range(random.randrange(3)):
                content = f"content {random.randrange(12)}"
                run.offer(variant_task(f"{key}~{index}", request.seed_id, content), key, index)
            run.close_seed(key, random.choice([SeedOutcome.PUBLISHED, SeedOutcome.DROPPED]))
    _check_selection(run, seeds)


def _check_selection(run: Run, seeds: list[SeedEmitted]) -> None:
    config = run.state.boundary
    assert len(seeds) <= config.max_seeds
    assert all(count <= config.quotas.get(kind, 0) for kind, count in Counter(s.type for s in seeds).items())
    assert all(zone(seed.mean, config) is Zone.BOUNDARY for seed in seeds)
    assert [seed.phi for seed in seeds] == sorted((seed.phi for seed in seeds), reverse=True)


def _run(boundary: BoundaryConfig, buffer: BufferConfig, chance: int) -> Run:
    random = Random(chance)
    kinds = list(TaskType)
    run = Run([seed_task(f"s{index}", random.choice(kinds)) for index in range(5)], boundary, buffer)
    for _ in range(4):
        _epoch(run, random)
    return run


RUNS = st.builds(_run, BOUNDARIES, BUFFERS, st.integers(0, 2**32))
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SETTINGS
@given(RUNS)
def test_originals_stay_active_and_only_variants_move(run):
    originals = [record for record in run.state.tasks.values() if record.origin is Origin.SEED]
    assert len(originals) == 5
    assert all(record.status == "active" and record.reason is None for record in originals)
    reasons = {event.reason.value for event in run.events if isinstance(event, TaskRetired)}
    assert run.state.buffer.retire or reasons <= {"capacity"}


@SETTINGS
@given(RUNS)
def test_injection_keeps_to_beta_staging_and_order_of_epochs(run):
    arrived = {event.task_id: event.epoch for event in run.events if isinstance(event, VariantArrived)}
    injected: dict[int, list[str]] = defaultdict(list)
    for event in run.events:
        if isinstance(event, VariantInjected):
            injected[event.epoch].append(event.task_id)
        if isinstance(event, EpochStarted):
            before = event.active - len(injected[event.epoch])
            assert len(injected[event.epoch]) <= Fraction(str(run.state.buffer.injection_fraction)) * before
    epochs = [arrived[name] for names in injected.values() for name in names]
    assert epochs == sorted(epochs)
    assert all(arrived[name] < epoch for epoch, names in injected.items() for name in names)


@SETTINGS
@given(RUNS)
def test_a_root_seed_is_not_emitted_within_its_window(run):
    steps: dict[str, list[int]] = defaultdict(list)
    for event in run.events:
        if isinstance(event, SeedEmitted):
            steps[event.seed_id].append(event.step)
    window = max(run.state.boundary.exclusion_steps, 1)
    assert all(b - a >= window for line in steps.values() for a, b in pairwise(line))


@SETTINGS
@given(RUNS, st.data())
def test_snapshot_plus_replay_is_the_whole_run_bit_for_bit(run, data):
    journal = [json.loads(json.dumps(event.to_json())) for event in run.events]
    cut = data.draw(st.integers(0, len(journal)))
    prefix = fold(run.start, map(parse_event, journal[:cut]))
    snapshot = json.loads(json.dumps(prefix.to_json(), sort_keys=True))
    restored = CurriculumState.from_json(snapshot)
    assert restored == prefix
    replayed = fold(restored, map(parse_event, journal[cut:]))
    assert replayed == run.state
    assert replayed.digest() == run.state.digest()


@SETTINGS
@given(RUNS)
def test_decisions_do_not_depend_on_the_order_a_snapshot_was_stored_in(run):
    stored = json.loads(json.dumps(run.state.to_json(), sort_keys=True))
    restored = CurriculumState.from_json({**stored, "tasks": dict(reversed(stored["tasks"].items()))})
    step, epoch = run.state.step, run.state.epoch
    assert pool.inject(restored, step, epoch + 1) == pool.inject(run.state, step, epoch + 1)
    assert pool.epoch_order(restored, 1, epoch) == pool.epoch_order(run.state, 1, epoch)
    assert retirement.at_epoch_end(restored, step, epoch) == retirement.at_epoch_end(run.state, step, epoch)
