"""tracker.json: whole, true to its digest, written beside the step, newest wins, errors surface."""

import json
import threading

import pytest
from curriculum_examples import Run, seed_task

from rods.curriculum.state import CurriculumState
from rods.training.tracker import BackgroundWriter, Snapshot


def _snapshot(count: int = 1, records: int = 0) -> Snapshot:
    run = Run([seed_task(f"s{index}") for index in range(count)])
    run.open_epoch()
    run.emit(1, "s0")
    return Snapshot(run.state, records, {"train-0001.log": 7})


@pytest.mark.parametrize("count", [1, 256, 257, 600])
def test_a_tracker_holds_the_state_its_digest_and_positions(tmp_path, count):
    snapshot = _snapshot(count, 5)
    snapshot.write(tmp_path / "tracker.json")
    body = json.loads((tmp_path / "tracker.json").read_bytes())
    state = CurriculumState.from_json(body["state"])
    assert state == snapshot.state
    assert (body["records"], body["digest"]) == (5, state.digest())
    assert body["positions"] == {"train-0001.log": 7}


def test_a_slow_write_holds_nobody_up_and_of_those_waiting_the_newest_is_written():
    begun, go, written = threading.Event(), threading.Event(), []

    def write(snapshot: Snapshot) -> None:
        begun.set()
        assert go.wait(30)
        written.append(snapshot.records)

    writer = BackgroundWriter(write)
    writer.submit(_snapshot(records=1))
    assert begun.wait(30)
    for records in (2, 3, 4):
        writer.submit(_snapshot(records=records))
    assert written == []
    go.set()
    writer.close()
    assert written == [1, 4]


def test_a_failed_write_is_raised_at_the_next_call_once():
    def write(snapshot: Snapshot) -> None:
        if snapshot.records == 1:
            raise OSError("no room")

    writer = BackgroundWriter(write)
    writer.submit(_snapshot(records=1))
    with pytest.raises(OSError, match="no room"):
        writer.close()
    writer.submit(_snapshot(records=2))
    writer.close()
