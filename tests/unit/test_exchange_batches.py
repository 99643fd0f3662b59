"""Batches: several messages in one file, one delivery; split when they do not all end well; depth; crashes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods.exchange.queue import (
    DONE,
    HANDED_BACK,
    Ending,
    Fate,
    LeaseLostError,
    Message,
    Queue,
    QueueError,
)

sys.path.insert(0, str(Path(__file__).parents[1]))
from faults import Fault, SimulatedCrash, injected

FAILED = Ending(Fate.FAILED, "no luck")


def batch(keys: str = "abcd") -> list[Message]:
    """Messages of falling priority."""
    return [Message(key, {"from": key}, -float(index)) for index, key in enumerate(keys)]


def files(queue: Queue, state: str) -> int:
    return len(list((queue.root / state).iterdir()))


def expire(queue: Queue) -> None:
    for path in (queue.root / "claimed").iterdir():
        os.utime(path, (1, 1))


def where(queue: Queue) -> dict[str, list[str]]:
    """The states of every key; also asks `counts` and `read`."""
    found: dict[str, list[str]] = {}
    for state, count in queue.counts().items():
        keys = queue.keys(state)
        assert len(keys) == count
        for key in keys:
            assert queue.known(key)
            assert queue.read(state, key) == {"from": key}
            found.setdefault(key, []).append(state)
    return found


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    return Queue(tmp_path / "q")


def test_a_batch_is_one_file_and_one_delivery(queue: Queue) -> None:
    assert queue.put_many(reversed(batch()), per_file=4) == set("abcd")
    assert files(queue, "ready") == 1
    assert queue.keys("ready") == list("abcd")
    assert [key for key, _ in queue.iter_ready()] == list("abcd")
    claim = queue.claim("w")
    assert claim is not None
    assert [(one.key, one.content) for one in claim.messages] == [(key, {"from": key}) for key in "abcd"]
    assert where(queue) == {key: ["claimed"] for key in "abcd"}
    with pytest.raises(QueueError, match="use `messages`"):
        _ = claim.key
    claim.commit()
    assert (files(queue, "done"), where(queue)) == (1, {key: ["done"] for key in "abcd"})
    assert not queue.put_many(batch(), per_file=2)


def test_batches_come_by_their_best_message_and_hold_neighbours(queue: Queue) -> None:
    queue.put_many([Message(key, {"from": key}, ord(key)) for key in "adbc"], per_file=2)
    claims = queue.claim_many("w", 3)
    assert [[one.key for one in claim.messages] for claim in claims] == [["d", "c"], ["b", "a"]]
    assert queue.claim_many("w", 1) == []


def test_each_message_of_a_batch_may_end_in_its_own_way(queue: Queue) -> None:
    queue.put_many(batch("abcde"), per_file=5)
    claim = queue.claim("w")
    assert claim is not None
    with pytest.raises(QueueError, match="an ending for each"):
        claim.settle({"a": DONE})
    bad, dropped = Ending(Fate.QUARANTINED, "poison"), Ending(Fate.DROPPED, "too many")
    claim.settle({"a": DONE, "b": FAILED, "c": bad, "d": dropped, "e": HANDED_BACK})
    states = {"a": ["done"], "b": ["ready"], "c": ["quarantine"], "d": ["dropped"], "e": ["ready"]}
    assert where(queue) == states
    reasons = [[failure.reason for failure in queue.failures(key)] for key in "abcde"]
    assert reasons == [[], ["no luck"], ["poison"], ["too many"], []]
    again = queue.claim_many("w", 9)
    assert [(one.key, one.deliveries) for one in again] == [("b", 2), ("e", 1)]
    assert files(queue, "tmp") == 0
    with pytest.raises(LeaseLostError, match="a batch of 5"):
        claim.settle(dict.fromkeys("abcde", FAILED))
    assert len(queue.failures("b")) == 1


def test_a_batch_whose_worker_died_comes_back_one_by_one(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "q", max_deliveries=2)
    queue.put_many(batch(), per_file=4)
    frozen = queue.claim("frozen")
    assert frozen is not None
    expire(queue)
    assert queue.reap() == 1
    for late in (frozen.commit, frozen.renew, frozen.hand_back):
        with pytest.raises(LeaseLostError):
            late()
    assert where(queue) == {key: ["ready"] for key in "abcd"}
    for claim in queue.claim_many("w", 3):
        claim.commit()
    queue.claim("killed by it")
    expire(queue)
    queue.reap()
    assert (queue.keys("done"), queue.keys("quarantine")) == (list("abc"), ["d"])


def test_keys_that_another_producer_took_are_not_in_the_batch(queue: Queue, tmp_path: Path) -> None:
    other = Queue(queue.root)
    known = other.known
    queue.known = lambda key: known(key) and key != "b"  # type: ignore[method-assign]
    assert other.put("b", {"from": "b"})
    # As if "b" had been put between the look and the link.
    assert queue.put_many(batch(), per_file=4) == set("acd")
    assert where(other) == {key: ["ready"] for key in "abcd"}
    assert files(queue, "tmp") == 0


@pytest.mark.parametrize("kind", ["half", "link", "replaced"])
def test_an_unreadable_batch_is_set_aside_under_each_of_its_keys(queue: Queue, kind: str) -> None:
    queue.put_many(batch(), per_file=4)
    (path,) = (queue.root / "ready").iterdir()
    if kind == "half":
        path.write_bytes(path.read_bytes()[:50])
    else:
        path.unlink()
        path.symlink_to("/etc/passwd") if kind == "link" else path.write_text("{}")
    assert queue.claim("w") is None
    assert queue.keys("quarantine") == list("abcd")
    assert queue.failures("c")[0].reason.startswith("unreadable")


@pytest.mark.parametrize("key", ["..", "../../evil", "/etc/passwd", "=0123456789abcdef=0002", "ключ", "a\0b"])
def test_hostile_keys_stay_inside_in_batches_too(queue: Queue, key: str) -> None:
    queue.put_many([Message(key, {"from": key}, 1.0), *batch("ab")], per_file=3)
    claim = queue.claim("w")
    assert claim is not None
    claim.settle({key: FAILED, "a": DONE, "b": HANDED_BACK})
    assert where(queue) == {key: ["ready"], "a": ["done"], "b": ["ready"]}
    assert {path.name for path in queue.root.parent.iterdir()} == {"q"}


def test_a_copied_run_is_read_as_the_original(queue: Queue, tmp_path: Path) -> None:
    queue.put_many(batch(), per_file=4)
    for folder in queue.root.iterdir():
        (tmp_path / "copy" / folder.name).mkdir(parents=True)
        for path in folder.iterdir():
            (tmp_path / "copy" / folder.name / path.name).write_bytes(path.read_bytes())
    copy = Queue(tmp_path / "copy")
    claim = copy.claim("w")
    assert claim is not None
    claim.commit()
    assert where(copy) == {key: ["done"] for key in "abcd"}


def test_above_the_limit_the_lowest_priority_goes_old_or_new(queue: Queue) -> None:
    queue.put_many([Message("old-low", {"from": "old-low"}, -9.0), *batch("ab")], per_file=2)
    queue.put("same", {"from": "same"}, priority=-1.0)
    assert queue.shed(4, "train") == 0
    queue.put_many([Message("new", {"from": "new"}, 5.0)])
    assert queue.shed(3, "train") == 2
    assert queue.keys("ready") == ["new", "a", "b"]
    assert queue.keys("dropped") == ["old-low", "same"]
    assert "5 messages were waiting, 3 are allowed" in queue.failures("same")[0].reason
    assert not queue.put("same", {})
    claim = queue.claim("w")
    assert claim is not None
    assert claim.deliveries == 1


@settings(max_examples=30, deadline=None)
@given(data=st.data(), at=st.integers(1, 40), moment=st.sampled_from(["before", "after"]))
def test_a_crash_between_any_two_file_operations_loses_and_doubles_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, at: int, moment: str
) -> None:
    root = tmp_path_factory.mktemp("crash") / "q"
    queue = Queue(root)
    fates = data.draw(st.lists(st.sampled_from([DONE, FAILED, HANDED_BACK]), min_size=4, max_size=4))
    limit = data.draw(st.integers(0, 4))

    def life() -> None:
        queue.put_many(batch(), per_file=4)
        claim = queue.claim("w")
        assert claim is not None
        claim.settle(dict(zip("abcd", fates, strict=True)))
        queue.shed(limit, "train")

    try:
        with injected(Fault("crash", at=at, moment=moment, path=f"{root}/*")):
            life()
    except SimulatedCrash:
        pass
    heir = Queue(root)
    heir.put_many(batch(), per_file=4)
    expire(heir)
    heir.reap()
    found = where(heir)
    assert sorted(found) == list("abcd")
    assert all(len(states) == 1 for states in found.values())
    while claims := heir.claim_many("heir", 9):
        for claim in claims:
            claim.commit()
    ends = where(heir)
    assert {state for states in ends.values() for state in states} <= {"done", "dropped"}


def test_an_end_is_on_the_disk_before_it_is_told(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.put("a", {"from": "a"})
    claim = queue.claim("w")
    assert claim is not None
    synced: list[str] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    claim.commit()
    assert synced == ["done"]


def test_a_batch_being_taken_apart_counts_as_young_however_long_it_was_held(queue: Queue) -> None:
    """Or a sweep could take it away before its parts are in their places."""
    queue.put_many(batch(), per_file=4)
    claim = queue.claim("w")
    assert claim is not None
    expire(queue)
    with injected(Fault("crash", operations=("rename",), path="*.part")), pytest.raises(SimulatedCrash):
        claim.settle(dict.fromkeys("abcd", FAILED))
    (settling,) = (queue.root / "tmp").glob("*.settle")
    assert settling.stat().st_mtime > 1
