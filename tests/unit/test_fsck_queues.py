"""`rods fsck` and what a queue keeps besides single messages: dropped ones, batches that are half put or half split."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fsck_examples import bytes_of, codes, copied, make_quickly

from rods.exchange import names, settlement
from rods.exchange.lease import Claim
from rods.exchange.names import PartName, PutName, ReadyName
from rods.exchange.queue import DONE, HANDED_BACK, Message
from rods.exchange.rundir import RunDir
from rods.fsck.check import fsck


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return make_quickly(tmp_path_factory.mktemp("made"))


@pytest.fixture
def run(made: RunDir, tmp_path: Path) -> Iterator[RunDir]:
    with copied(made, tmp_path) as found:
        yield found


def test_a_seed_that_was_dropped_above_the_depth_limit_is_accounted_for(run: RunDir) -> None:
    queue = run.queue("seeds")
    dropped = queue.shed(1, "trainer")
    assert dropped == queue.counts()["dropped"] > 0
    before = bytes_of(run)
    assert codes(fsck(run)) == []
    assert fsck(run, repair=True).repairs == ()
    assert bytes_of(run) == before


def batch(keys: list[str], run: RunDir) -> Path:
    """A file of several messages in the queue of seeds, of keys that the journal does not know."""
    folder = run.path / "queues" / "seeds" / "ready"
    before = set(folder.iterdir())
    run.queue("seeds").put_many([Message(key, {"key": key}) for key in keys], per_file=len(keys))
    (path,) = set(folder.iterdir()) - before
    return path


def claimed(keys: list[str], run: RunDir) -> Claim:
    """The claim of that batch, among those of all that is ready."""
    claims = run.queue("seeds").claim_many("w", 99)
    return next(claim for claim in claims if [message.key for message in claim.messages] == keys)


def test_a_batch_whose_producer_died_before_it_was_ready_is_finished(run: RunDir) -> None:
    path = batch(["b1", "b2"], run)
    label = ReadyName.parse(path.name).label
    path.rename(path.parent.parent / "tmp" / str(PutName(names.rank(0.0), label, names.token())))
    assert codes(fsck(run)) == ["put-unfinished"]
    assert codes(fsck(run, repair=True)) == []
    assert {"b1", "b2"} <= set(run.queue("seeds").keys("ready"))


def test_a_batch_that_was_being_taken_apart_is_finished(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash behind the fence: parts and the batch lie in tmp/, and its messages are in no state."""
    batch(["b1", "b2"], run)
    with monkeypatch.context() as crash:
        crash.setattr(settlement, "_finish", lambda spool, parts: None)
        crash.setattr(settlement, "_remove", lambda path: None)
        claim = claimed(["b1", "b2"], run)
        claim.settle({"b1": DONE, "b2": HANDED_BACK})
    run.queue("seeds").hand_back("w")
    assert "split-unfinished" in codes(fsck(run))
    report = fsck(run, repair=True)
    assert codes(report) == []
    assert "b1" in run.queue("seeds").keys("done")
    assert "b2" in run.queue("seeds").keys("ready")


def test_a_batch_that_was_taken_apart_and_then_forgotten_is_moved_away(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash between the last part's move and the batch's removal: every message is in its place."""
    batch(["b1", "b2"], run)
    with monkeypatch.context() as crash:
        crash.setattr(settlement, "_remove", lambda path: None)
        claim = claimed(["b1", "b2"], run)
        claim.settle({"b1": DONE, "b2": HANDED_BACK})
    run.queue("seeds").hand_back("w")
    (left,) = (run.path / "queues" / "seeds" / "tmp").iterdir()
    before = run.queue("seeds").counts()
    assert codes(fsck(run)) == ["split-forgotten"]
    report = fsck(run, repair=True)
    assert codes(report) == []
    assert [left.name in repair for repair in report.repairs] == [True]
    assert not left.exists()
    assert list((run.path / "lost+found").rglob(left.name))
    assert run.queue("seeds").counts() == before
    assert "b1" in run.queue("seeds").keys("done")
    assert "b2" in run.queue("seeds").keys("ready")


def test_parts_of_a_batch_that_was_never_taken_apart_are_moved_away(run: RunDir) -> None:
    part = run.path / "queues" / "seeds" / "tmp" / str(PartName(names.token(), "done", names.stored("b1")))
    part.write_text("{}")
    assert codes(fsck(run)) == ["split-abandoned"]
    assert codes(fsck(run, repair=True)) == []
    assert not part.exists()
