"""The queue in one process: order, idempotence, leases, quarantine, hostile names and files."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_exchange_journal import file_size_limit

from rods.exchange import atomic, names, puts, queue
from rods.exchange.atomic import CorruptFileError
from rods.exchange.queue import (
    Ending,
    Fate,
    InvalidKeyError,
    LeaseLostError,
    MessageMissingError,
    Queue,
    QueueError,
)


def expire_all(opened: Queue) -> None:
    """As if every owner had been silent for ten minutes."""
    for path in (opened.root / "claimed").iterdir():
        old = path.stat().st_mtime - 600
        os.utime(path, (old, old))


def claim(opened: Queue, owner: str = "w") -> queue.Claim:
    claimed = opened.claim(owner)
    assert claimed is not None
    return claimed


@pytest.fixture
def opened(tmp_path: Path) -> Queue:
    return Queue(tmp_path / "seeds")


def test_messages_come_by_priority_then_age(opened: Queue) -> None:
    for key, priority in [
        ("a", 0.5),
        ("b", 1.0),
        ("c", 0.5),
        ("d", -2.0),
        ("e", 1.0),
        ("f", 0.0),
        ("g", -0.5),
    ]:
        assert opened.put(key, {"from": key}, priority=priority)
    order = ["b", "e", "a", "c", "f", "g", "d"]
    assert opened.keys("ready") == order
    assert [key for key, _ in opened.iter_ready()] == order
    claims = [claim(opened) for _ in order]
    assert [(one.key, one.message) for one in claims] == [(key, {"from": key}) for key in order]
    assert opened.claim("w") is None
    assert len({one.token for one in claims}) == len(claims)


def test_a_coarse_server_clock_keeps_the_order_of_one_producer(
    opened: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_in_the_same_second(path: Path, data: bytes) -> os.stat_result:
        path.write_bytes(data)
        os.utime(path, (1_700_000_000, 1_700_000_000))
        return path.stat()

    monkeypatch.setattr(puts, "write_new", write_in_the_same_second)
    order = ["c", "a", "d", "b"]
    for key in order:
        opened.put(key, {})
    assert opened.keys("ready") == order


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
@example(0.0, -0.0)
def test_ranks_sort_as_priorities_fall(one: float, other: float) -> None:
    assert (names.rank(one) < names.rank(other)) == (one > other)
    assert (names.rank(one) == names.rank(other)) == (one == other)


@given(st.text(min_size=1, max_size=30))
def test_any_key_becomes_a_safe_name_and_back(key: str) -> None:
    try:
        encoded = names.encode(key)
    except InvalidKeyError:
        assert len(key.encode(errors="replace")) * 3 > names.MAX_KEY_BYTES or any(
            "\ud800" <= c <= "\udfff" for c in key
        )
        return
    assert names.decode(encoded) == key
    assert set(encoded) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-%")


@pytest.mark.parametrize(
    "key",
    [
        "..",
        ".",
        "../../evil",
        "/etc/passwd",
        ".hidden",
        "a+b.lease",
        "x.json",
        "a\nb",
        "\0",
        "%2E",
        "ключ",
        " ",
    ],
)
def test_hostile_keys_stay_inside_and_pass_every_state(opened: Queue, key: str) -> None:
    assert opened.put(key, {"n": 1})
    assert not opened.put(key, {"n": 2})
    claim(opened).release("once more")
    assert opened.keys("ready") == [key]
    claimed = claim(opened)
    assert (claimed.key, claimed.deliveries) == (key, 2)
    assert opened.read("claimed", key) == {"n": 1}
    claimed.commit()
    assert opened.keys("done") == [key]
    assert opened.read("done", key) == {"n": 1}
    assert {path.name for path in opened.root.parent.iterdir()} == {"seeds"}


@pytest.mark.parametrize("key", ["", "x" * 121, "é" * 30, "\ud800"])
def test_keys_that_cannot_be_names_are_refused(opened: Queue, key: str) -> None:
    for use in (lambda: opened.put(key, {}), lambda: opened.known(key), lambda: opened.claim(key)):
        with pytest.raises(InvalidKeyError):
            use()
    assert opened.counts() == {"ready": 0, "claimed": 0, "done": 0, "quarantine": 0, "dropped": 0}


@pytest.mark.parametrize(
    ("message", "priority"),
    [({"x": object()}, 0.0), ({"x": float("nan")}, 0.0), ({}, float("nan")), ({}, float("inf"))],
)
def test_a_message_that_cannot_be_stored_does_not_use_up_its_key(
    opened: Queue, message: dict, priority: float
) -> None:
    with pytest.raises(QueueError):
        opened.put("k", message, priority=priority)
    assert opened.put("k", {})


def test_a_key_is_accepted_once_whatever_became_of_it(opened: Queue) -> None:
    for key in ("ready", "claimed", "done", "quarantine", "dropped"):
        assert opened.put(key, {})
    by_key = {one.key: one for one in (claim(opened) for _ in range(5))}
    by_key["ready"].hand_back()
    by_key["done"].commit()
    by_key["quarantine"].quarantine("bad")
    by_key["dropped"].settle({"dropped": Ending(Fate.DROPPED, "too many")})
    for state, count in opened.counts().items():
        assert count == 1
        assert opened.keys(state) == [state]
        assert not opened.put(state, {"again": True})
        assert opened.read(state, state) == {}
    assert opened.counts() == {"ready": 1, "claimed": 1, "done": 1, "quarantine": 1, "dropped": 1}


def test_reading_what_is_not_there_is_an_error(opened: Queue) -> None:
    with pytest.raises(MessageMissingError, match="no message 'k' in done"):
        opened.read("done", "k")
    with pytest.raises(QueueError, match="ready, claimed, done, quarantine"):
        opened.keys("lost")


def test_an_expired_claim_goes_to_another_and_its_owner_is_fenced_off(opened: Queue) -> None:
    opened.put("k", {})
    frozen = claim(opened, "frozen")
    assert opened.reap() == 0
    expire_all(opened)
    assert opened.reap() == 1
    assert opened.reap() == 0
    second = claim(opened, "second")
    assert second.deliveries == 2
    for late in (
        frozen.renew,
        frozen.commit,
        frozen.hand_back,
        lambda: frozen.release("x"),
        lambda: frozen.quarantine("x"),
    ):
        with pytest.raises(LeaseLostError, match="frozen no longer holds the lease on 'k'"):
            late()
    assert [(one.delivery, one.owner) for one in opened.failures("k")] == [(1, "frozen")]
    second.commit()
    assert opened.counts() == {"ready": 0, "claimed": 0, "done": 1, "quarantine": 0, "dropped": 0}
    with pytest.raises(LeaseLostError):
        second.commit()


def test_an_expired_claim_that_nobody_took_can_still_commit(opened: Queue) -> None:
    opened.put("k", {})
    slow = claim(opened)
    expire_all(opened)
    slow.commit()
    assert opened.reap() == 0
    assert opened.keys("done") == ["k"]


def test_renewal_keeps_a_lease(opened: Queue) -> None:
    for key in ("kept", "lost"):
        opened.put(key, {})
    claims = {one.key: one for one in (claim(opened), claim(opened))}
    expire_all(opened)
    claims["kept"].renew()
    assert opened.reap() == 1
    assert opened.keys("ready") == ["lost"]
    claims["kept"].commit()


def test_a_message_that_waited_long_has_a_fresh_lease(opened: Queue) -> None:
    opened.put("k", {})
    for path in (opened.root / "ready").iterdir():
        os.utime(path, (1, 1))
    claimed = claim(opened)
    assert opened.reap() == 0
    claimed.commit()


@pytest.mark.parametrize("skew", [-600, 600])
def test_a_node_with_a_wrong_clock_does_not_break_leases(
    opened: Queue, monkeypatch: pytest.MonkeyPatch, skew: int
) -> None:
    true_time, true_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: true_time() + skew)
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + skew * 10**9)
    opened.put("k", {})
    claimed = claim(opened)
    assert opened.reap() == 0
    expire_all(opened)
    assert opened.reap() == 1
    with pytest.raises(LeaseLostError):
        claimed.commit()


def test_poison_is_set_aside_with_all_its_reasons(tmp_path: Path) -> None:
    opened = Queue(tmp_path / "q", max_deliveries=3)
    opened.put("poison", {})
    claim(opened, "w/1").release("first")
    claim(opened, "w2")
    expire_all(opened)
    opened.reap()
    claim(opened, "w3").release("third")
    assert opened.counts() == {"ready": 0, "claimed": 0, "done": 0, "quarantine": 1, "dropped": 0}
    failures = opened.failures("poison")
    assert [(one.delivery, one.owner) for one in failures] == [(1, "w/1"), (2, "w2"), (3, "w3")]
    assert (failures[0].reason, failures[2].reason) == ("first", "third")
    assert "expired" in failures[1].reason
    assert opened.failures("other") == []


def test_leases_that_keep_running_out_end_in_quarantine(tmp_path: Path) -> None:
    opened = Queue(tmp_path / "q", max_deliveries=2)
    opened.put("killer", {})
    for _ in range(2):
        claim(opened)
        expire_all(opened)
        assert opened.reap() == 1
    assert opened.keys("quarantine") == ["killer"]


def test_a_clean_stop_is_not_counted_and_keeps_the_place(tmp_path: Path) -> None:
    opened = Queue(tmp_path / "q", max_deliveries=1)
    opened.put("old", {})
    opened.put("new", {})
    for _ in range(5):
        claimed = claim(opened)
        assert (claimed.key, claimed.deliveries) == ("old", 1)
        claimed.hand_back()
    assert opened.failures("old") == []


def damage(opened: Queue, kind: str) -> None:
    """Put something that is no message in the place of the one that is ready."""
    (path,) = (opened.root / "ready").iterdir()
    body = path.read_bytes()
    path.unlink()
    if kind == "link":
        secret = opened.root.parent / "secret.json"
        secret.write_bytes(body)
        path.symlink_to(secret)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes({"half": body[:-3], "list": b"[]", "other key": body.replace(b"bad", b"odd")}[kind])


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "half", "list", "other key"])
def test_what_is_no_message_is_set_aside_and_the_next_is_taken(opened: Queue, kind: str) -> None:
    opened.put("bad", {}, priority=1)
    damage(opened, kind)
    opened.put("good", {})
    assert claim(opened).key == "good"
    assert opened.keys("quarantine") == ["bad"]
    (failure,) = opened.failures("bad")
    assert failure.reason.startswith("unreadable: ")
    if kind != "other key":
        with pytest.raises(CorruptFileError):
            opened.read("quarantine", "bad")


def test_foreign_files_are_left_alone(opened: Queue) -> None:
    for folder in ("tmp", "ready", "claimed", "done", "quarantine"):
        (opened.root / folder / ".nfs0001").touch()
        (opened.root / folder / "README").touch()
    opened.put("k", {})
    assert opened.counts() == {"ready": 1, "claimed": 0, "done": 0, "quarantine": 0, "dropped": 0}
    expire_all(opened)
    assert opened.reap() == 0
    assert claim(opened).key == "k"


def die_before_publishing(opened: Queue, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that is killed after it took the key and before the message is ready."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            opened.put(key, {"n": 1}, priority=0.5)
    assert opened.counts()["ready"] == 0


def test_the_put_of_a_dead_producer_is_finished_once_by_a_reaper(
    opened: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_before_publishing(opened, "k", monkeypatch)
    opened.put("low", {})
    opened.reap()
    assert opened.keys("ready") == ["k", "low"]
    claim(opened).commit()
    opened.reap()
    assert not opened.put("k", {})
    assert (opened.keys("ready"), opened.keys("done")) == (["low"], ["k"])
    assert list((opened.root / "tmp").iterdir()) == []


def test_the_put_of_a_dead_producer_is_finished_by_the_same_put_again(
    opened: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    die_before_publishing(opened, "k", monkeypatch)
    assert not opened.put("k", {"n": 2})
    assert opened.read("ready", "k") == {"n": 1}


def test_a_producer_whose_put_another_finished_does_not_repeat_it(
    opened: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = atomic.rename

    def overtaken(source: Path, target: Path) -> None:
        patch.setattr(atomic, "rename", rename)
        Queue(opened.root).reap()
        claim(Queue(opened.root)).commit()
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "rename", overtaken)
        assert opened.put("k", {})
    assert opened.counts() == {"ready": 0, "claimed": 0, "done": 1, "quarantine": 0, "dropped": 0}


def test_leftovers_of_puts_that_never_happened_are_swept_when_old(opened: Queue) -> None:
    left = [opened.root / "tmp" / str(names.PutName(names.rank(0), "k", token * 16)) for token in "ab"]
    for path in left:
        path.write_text("{")
    os.utime(left[0], (1, 1))
    opened.reap()
    assert list((opened.root / "tmp").iterdir()) == [left[1]]
    assert opened.put("k", {})


def test_a_put_on_a_full_disk_fails_cleanly_and_may_be_repeated(opened: Queue) -> None:
    with file_size_limit(100), pytest.raises(OSError, match="too large"):
        opened.put("k", {"fill": "x" * 1000})
    assert list((opened.root / "tmp").iterdir()) == []
    assert opened.put("k", {})


def test_folders_and_messages_are_closed_to_others(opened: Queue) -> None:
    opened.put("k", {})
    modes = {stat.S_IMODE(path.stat().st_mode) for path in opened.root.iterdir()}
    assert modes == {0o750}
    (message,) = (opened.root / "ready").iterdir()
    assert stat.S_IMODE(message.stat().st_mode) & 0o037 == 0


@pytest.mark.parametrize(("lease_s", "max_deliveries"), [(0, 3), (-1, 3), (60, 0), (60, 10_000)])
def test_settings_that_cannot_work_are_refused(tmp_path: Path, lease_s: float, max_deliveries: int) -> None:
    with pytest.raises(QueueError, match="expected lease_s"):
        Queue(tmp_path, lease_s=lease_s, max_deliveries=max_deliveries)
