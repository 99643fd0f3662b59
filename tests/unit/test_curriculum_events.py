"""Events cross the journal's border: what is written is read back equal, anything else is refused."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods.curriculum import events
from rods.curriculum.errors import EventFormatError
from rods.curriculum.events import EVENTS, parse_event
from rods.tasks.model import TaskType

FINITE = st.floats(allow_nan=False, allow_infinity=False)
STEP = st.integers(0, 2**60)
TEXT = st.text(max_size=20)
ARGUMENTS = {
    "run_started": {"fingerprint": TEXT, "seed": STEP},
    "stage_started": {
        "stage": STEP,
        "title": TEXT,
        "types": st.lists(st.sampled_from(TaskType)).map(tuple),
        "reward": TEXT,
        "reason": TEXT,
    },
    "epoch_started": {"active": STEP},
    "group_observed": {"task_id": TEXT, "rewards": st.lists(FINITE).map(tuple)},
    "seed_emitted": {
        "task_id": TEXT,
        "seed_id": TEXT,
        "type": st.sampled_from(TaskType),
        "mean": FINITE,
        "phi": FINITE,
        "key": TEXT,
        "depth_shift": STEP,
    },
    "seed_closed": {"key": TEXT, "outcome": st.sampled_from(events.SeedOutcome), "reason": TEXT},
    "variant_arrived": {
        "task_id": TEXT,
        "seed_id": TEXT,
        "type": st.sampled_from(TaskType),
        "kind": TEXT,
        "key": TEXT,
        "index": STEP,
        "content_id": TEXT,
    },
    "variant_refused": {"task_id": TEXT, "key": TEXT, "reason": TEXT},
    "variant_injected": {"task_id": TEXT},
    "task_readmitted": {"task_id": TEXT},
    "task_retired": {
        "task_id": TEXT,
        "reason": st.sampled_from(events.RetirementReason),
        "mean": st.none() | FINITE,
    },
    "epoch_finished": {},
    "run_finished": {},
    "evaluation_done": {
        "split": TEXT,
        "mode": st.sampled_from(events.EvaluationMode),
        "mean": FINITE,
        "accuracy": FINITE,
        "by_kind": st.dictionaries(TEXT, FINITE),
        "by_type": st.dictionaries(TEXT, FINITE),
        "accuracy_by_type": st.dictionaries(TEXT, FINITE),
        "scores": st.dictionaries(TEXT, FINITE),
        "count": STEP,
    },
}
OBSERVED = {"name": "group_observed", "step": 4, "epoch": 2, "task_id": "t", "rewards": [0.0, 1.0]}
RETIRED = {"name": "task_retired", "step": 4, "epoch": 2, "task_id": "t", "reason": "stale", "mean": None}


@pytest.mark.parametrize("name", EVENTS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_every_event_survives_the_journal_exactly(name, data):
    strategies = {"step": STEP, "epoch": STEP, **ARGUMENTS[name]}
    event = EVENTS[name](**{key: data.draw(strategy) for key, strategy in strategies.items()})
    written = event.to_json()
    read = parse_event(json.loads(json.dumps(written)))
    assert read == event
    assert type(read) is type(event)
    assert read.to_json() == written
    assert (written["name"], written["step"], written["epoch"]) == (name, event.step, event.epoch)


def test_the_well_formed_examples_parse():
    assert parse_event(OBSERVED) == events.GroupObserved(4, 2, "t", (0.0, 1.0))
    assert parse_event(RETIRED) == events.TaskRetired(4, 2, "t", events.RetirementReason.STALE, None)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "seed_claimed"},
        {"name": None},
        {"name": ["group_observed"]},
        {"extra": 1},
        {"step": "4"},
        {"step": 4.5},
        {"step": True},
        {"step": None},
        {"task_id": 7},
        {"rewards": 0.5},
        {"rewards": ["0.5"]},
        {"rewards": [math.nan]},
        {"rewards": [math.inf]},
        {"rewards": None},
        {"rewards": {1, 2}},
    ],
)
def test_a_malformed_observation_is_refused(change):
    with pytest.raises(EventFormatError, match="curriculum event"):
        parse_event({**OBSERVED, **change})


@pytest.mark.parametrize("key", ["name", "step", "epoch", "task_id", "rewards"])
def test_a_missing_key_is_refused(key):
    with pytest.raises(EventFormatError):
        parse_event({name: value for name, value in OBSERVED.items() if name != key})


@pytest.mark.parametrize("reason", ["bored", "", None, "STALE"])
def test_an_unknown_retirement_reason_is_refused(reason):
    with pytest.raises(EventFormatError, match="burn_in"):
        parse_event({**RETIRED, "reason": reason})


@pytest.mark.parametrize("data", [None, [], "group_observed", 3])
def test_what_is_no_object_is_refused(data):
    with pytest.raises(EventFormatError, match="expected an object"):
        parse_event(data)


def test_seed_keys_sort_by_step():
    keys = [events.seed_key(step, "t") for step in (2, 10, 100, 99999, 100000)]
    assert keys == sorted(keys)
