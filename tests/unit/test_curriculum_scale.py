"""What the fold keeps beside the entries, index and digest, against a look at all entries."""

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise

import pytest
from curriculum_examples import Run, run_with_variants, variant_task
from hypothesis import given, settings
from hypothesis import strategies as st
from test_curriculum_properties import RUNS, SETTINGS

from rods.config import BufferConfig
from rods.curriculum import pool, retirement
from rods.curriculum.events import RetirementReason
from rods.curriculum.records import TaskRecord, TaskStatus
from rods.curriculum.shuffle import shuffled
from rods.curriculum.state import CurriculumState, apply, fold
from rods.curriculum.zones import phi, zone


def _prefix(run: Run, cut: float) -> CurriculumState:
    return fold(run.start, run.events[: round(cut * len(run.events))])


PREFIXES = st.builds(_prefix, RUNS, st.floats(0, 1))


@SETTINGS
@given(PREFIXES)
def test_digest_and_index_are_those_made_from_scratch(state):
    rebuilt = CurriculumState.from_json(state.to_json())
    assert rebuilt.digest() == state.digest()
    assert rebuilt.index == state.index


@SETTINGS
@given(RUNS)
def test_event_by_event_keeps_what_one_fold_keeps(run):
    state = run.start
    for event in run.events:
        state = apply(state, event)
    assert state.index == run.state.index
    assert state.digest() == run.state.digest()


@SETTINGS
@given(RUNS)
def test_no_two_states_of_a_run_share_a_digest(run):
    states = [run.start]
    for event in run.events:
        states.append(apply(states[-1], event))
    assert all(before != after for before, after in pairwise(states))
    assert len({state.digest() for state in states}) == len(states)


@SETTINGS
@given(PREFIXES)
def test_sets_and_counts_are_what_a_look_at_all_entries_finds(state):
    records = list(state.tasks.values())
    assert set(state.index.waiting) == {one.id for one in records if one.status is TaskStatus.WAITING}
    assert set(state.index.live) == {one.id for one in records if one.live_variant}
    assert pool.open_requests(state) == sorted(
        key for key, request in state.requests.items() if request.outcome is None
    )
    assert pool.active_count(state) == len(pool.active(state))
    arrivals = defaultdict(set)
    for one in records:
        if one.request:
            arrivals[one.arrived_epoch].add(one.id)
    assert {epoch: set(ids) for epoch, ids in state.index.arrived.items()} == arrivals
    assert dict(state.index.counts) == _counts(state)


@SETTINGS
@given(PREFIXES)
def test_injection_finds_what_a_scan_of_all_tasks_finds(state):
    epoch = state.epoch + 1
    waiting = [
        (one.arrived_epoch, state.requests[one.request].step, one.request, one.index, one.id)
        for one in state.tasks.values()
        if one.status is TaskStatus.WAITING and one.arrived_epoch < epoch
    ]
    active = sum(one.status is TaskStatus.ACTIVE for one in state.tasks.values())
    budget = int(Fraction(str(state.buffer.injection_fraction)) * active)
    injected = [event.task_id for event in pool.inject(state, state.step, epoch)]
    assert injected == [entry[-1] for entry in sorted(waiting)[:budget]]


@SETTINGS
@given(PREFIXES)
def test_the_end_of_an_epoch_leaves_the_best_of_what_a_scan_finds(state):
    live = {one.id: one for one in state.tasks.values() if one.live_variant}
    retired = retirement.at_epoch_end(state, state.step, state.epoch)
    gone = {event.task_id for event in retired}
    pruned = {event.task_id for event in retired if event.reason is RetirementReason.CAPACITY}
    kept = live.keys() - gone
    assert gone <= live.keys()
    assert len(kept) <= state.buffer.capacity
    assert not pruned or len(kept) == state.buffer.capacity
    assert all(_worth(live[worse]) <= _worth(live[better]) for worse in pruned for better in kept)


@given(st.sets(st.text(max_size=9), max_size=40), st.integers(0, 2**63), st.integers(0, 9), st.randoms())
@settings(deadline=None)
def test_an_epochs_order_depends_on_the_ids_and_nothing_else(ids, seed, epoch, random):
    given_order = sorted(ids)
    random.shuffle(given_order)
    order = shuffled(given_order, seed, epoch)
    assert order == shuffled(sorted(ids), seed, epoch)
    assert sorted(order) == sorted(ids)
    assert shuffled(order[1:], seed, epoch) == order[1:]


def test_a_state_stays_as_it_is_when_it_is_folded_on():
    run = run_with_variants(["v1"], BufferConfig(capacity=4))
    before, digest, stored = run.state, run.state.digest(), run.state.to_json()
    run.observe(2, {"a": (1.0, 0.0), "v1": (0.0, 0.0)})
    assert run.state.digest() != digest
    assert (before.digest(), before.to_json()) == (digest, stored)


@pytest.mark.parametrize("table", ["tasks", "contents", "requests", "last_emitted", "refused"])
def test_every_table_counts_in_the_digest(table):
    run = run_with_variants(["v1"], BufferConfig(capacity=4))
    key = run.emit(2, "b")
    run.offer(variant_task("w1", "a"), key)  # refused: answers a seed of b
    stored = run.state.to_json()
    stored["tasks"] = {name: record for name, record in stored["tasks"].items() if name != "v1"}
    full = CurriculumState.from_json(stored)
    fewer = CurriculumState.from_json({**stored, table: dict(list(stored[table].items())[1:])})
    assert fewer.digest() != full.digest()


def _counts(state: CurriculumState) -> dict[tuple[str, ...], int]:
    counts: Counter[tuple[str, ...]] = Counter()
    for record in state.tasks.values():
        counts["status", record.status, record.origin] += 1
        if record.reason is not None:
            counts["retired", record.reason] += 1
        elif record.status is TaskStatus.ACTIVE:
            mean = record.statistics.mean
            counts["zone", "unobserved" if mean is None else zone(mean, state.boundary)] += 1
    for request in state.requests.values():
        if request.outcome is not None:
            counts["closed", request.outcome] += 1
    return dict(counts)


def _worth(record: TaskRecord) -> float:
    mean = record.statistics.mean
    return retirement.UNOBSERVED_PHI if mean is None else phi(mean)
