"""An attempt that a newer one has followed changes nothing any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from rods.exchange import stop
from rods.exchange.attempt import Fence, OvertakenError
from rods.exchange.rundir import RunDir


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path, "fence", "0" * 64)


def test_the_newest_attempt_passes_and_an_older_one_is_told_who_runs(run: RunDir) -> None:
    first = Fence(run, run.next_attempt())
    first.check()
    second = Fence(run, run.next_attempt())
    second.check()
    with pytest.raises(OvertakenError, match=r"attempt 2 of this run was started.*attempt 1: it stops here"):
        first.check()


def test_an_attempt_without_a_folder_passes(run: RunDir) -> None:
    Fence(run, 1).check()


def test_an_older_attempts_request_leaves_a_newer_ones_end_alone(run: RunDir) -> None:
    stop.finish(run, 2)
    stop.request(run, 1, "a supervisor that woke up")
    assert stop.is_finished(run)
    assert not stop.is_requested(run, 1)


def test_a_newer_attempts_request_replaces_an_older_ones(run: RunDir) -> None:
    stop.request(run, 1, "old")
    stop.request(run, 2, "new")
    assert stop.is_requested(run, 2)
