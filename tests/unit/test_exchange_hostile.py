"""What a shared directory can do to a run besides filling up: other clocks, late listings, odd and planted names."""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from faults import Fault, injected, run_in_child

from rods.exchange import atomic, heartbeat, journal, owner, stop
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.journal import JournalWriter
from rods.exchange.queue import Queue
from rods.exchange.rundir import RunDir

MINUTES = 60.0
SHIFTS = [-10 * MINUTES, 10 * MINUTES]


def on_a_node_whose_clock_is_off(shift_s: float, action: Callable[[], object]) -> None:
    """Do something in a process that sees another time of day; an error there is one here."""
    real_time, real_ns = time.time, time.time_ns

    def shifted() -> None:
        time.time = lambda: real_time() + shift_s
        time.time_ns = lambda: real_ns() + int(shift_s * 1e9)
        action()

    assert run_in_child(shifted) == 0


@pytest.mark.parametrize("shift_s", SHIFTS)
def test_leases_hold_between_nodes_whose_clocks_differ(shift_s: float, tmp_path: Path) -> None:
    queue = Queue(tmp_path / "q", lease_s=30)
    for key in ("theirs", "ours"):
        queue.put(key, {})

    def claim_there() -> None:
        claim = Queue(tmp_path / "q", lease_s=30).claim("there")
        assert claim is not None
        claim.renew()

    on_a_node_whose_clock_is_off(shift_s, claim_there)
    assert queue.reap() == 0, "a live worker of another node keeps its claim"
    mine = queue.claim("here")
    assert mine is not None

    def reap_there() -> None:
        assert Queue(tmp_path / "q", lease_s=30).reap() == 0

    on_a_node_whose_clock_is_off(shift_s, reap_there)
    mine.commit()
    (left,) = (path for path in (tmp_path / "q" / "claimed").iterdir())
    os.utime(left, (time.time() - 60, time.time() - 60))

    def reap_the_dead() -> None:
        assert Queue(tmp_path / "q", lease_s=30).reap() == 1

    on_a_node_whose_clock_is_off(shift_s, reap_the_dead)
    assert queue.keys("ready") == ["theirs"] or queue.keys("ready") == ["ours"]


@pytest.mark.parametrize("shift_s", SHIFTS)
def test_leases_hold_when_the_file_server_is_off(
    shift_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.utime

    def served(path: object, times: object = None, **options: object) -> None:
        now = time.time() + shift_s
        real(path, (now, now) if times is None else times, **options)  # type: ignore[arg-type,call-overload]

    monkeypatch.setattr(os, "utime", served)
    queue = Queue(tmp_path / "q", lease_s=30)
    queue.put("k", {})
    claim = queue.claim("w")
    assert claim is not None
    assert queue.reap() == 0
    claim.renew()
    assert queue.reap() == 0
    claim.commit()


@pytest.mark.parametrize("shift_s", SHIFTS)
def test_signs_of_life_and_owners_of_another_clock_are_believed(shift_s: float, tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "clocks", "0" * 64)

    def live_there() -> None:
        Heartbeat(run.heartbeats, "train").beat("rollout")

    on_a_node_whose_clock_is_off(shift_s, live_there)
    assert heartbeat.read_all(run.heartbeats)["train"].age_s < 30
    owner.take(run, timeout_s=30)

    def refused_there() -> None:
        with pytest.raises(owner.OwnedError):
            owner.take(run, timeout_s=30)

    on_a_node_whose_clock_is_off(shift_s, refused_there)


def test_a_rename_that_is_seen_late_loses_and_doubles_nothing(tmp_path: Path) -> None:
    queue, late = Queue(tmp_path / "q"), 0.4
    with injected(Fault("hide", times=None, operations=("listdir",), path=f"{tmp_path}/*", hide_s=late)):
        assert queue.put("k", {"n": 1})
        assert not queue.put("k", {"n": 2}), "a key is known before its message can be seen"
        assert queue.claim("early") is None
        deadline = time.monotonic() + 20
        while (claim := queue.claim("patient")) is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert claim is not None
        assert claim.message == {"n": 1}
        claim.commit()
        assert queue.claim("again") is None
    assert queue.keys("done") == ["k"]


def test_a_journal_that_is_seen_late_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "train-0001.log"
    with JournalWriter(path) as writer:
        writer.append({"n": 1})
    with injected(Fault("hide", times=None, operations=("listdir",), path=f"{tmp_path}*", hide_s=0.4)):
        records, _ = journal.read(path, appear_within_s=20)
    assert records == [{"n": 1}]


ODD = (
    "..",
    ".",
    "../../outside",
    "/etc/passwd",
    "a/b",
    "new\nline",
    "ü €",
    "-rf",
    "%2e%2e",
    "\u202eflip",
    "*",
    "~",
)


def test_keys_with_odd_characters_stay_inside_and_come_back(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    queue = Queue(inside / "q")
    for key in ODD:
        assert queue.put(key, {"key": key})
    assert sorted(queue.keys("ready")) == sorted(ODD)
    while (claim := queue.claim("w/../x")) is not None:
        assert claim.message == {"key": claim.key}
        assert claim.owner == "w/../x"
        claim.commit()
    assert queue.keys("done") == sorted(ODD)
    assert list(tmp_path.iterdir()) == [inside]


@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder"])
def test_what_is_planted_in_place_of_a_message_is_set_aside(kind: str, tmp_path: Path) -> None:
    """Neither followed nor waited for: a reader of a FIFO would hang for ever."""
    queue = Queue(tmp_path / "q")
    secret = tmp_path / "secret"
    secret.write_text('{"key": "k", "priority": 0.0, "message": {"stolen": true}}')
    queue.put("k", {})
    queue.put("good", {"n": 1}, priority=-1.0)
    (planted,) = (path for path in (tmp_path / "q" / "ready").iterdir() if "good" not in path.name)
    planted.unlink()
    if kind == "symlink":
        planted.symlink_to(secret)
    elif kind == "fifo":
        os.mkfifo(planted)
    else:
        planted.mkdir()
    claim = queue.claim("w")
    assert claim is not None
    assert claim.key == "good"
    assert queue.keys("quarantine") == ["k"]
    assert "link, a folder or a device" in queue.failures("k")[0].reason
    assert "stolen" in secret.read_text()


def test_a_file_name_that_leads_elsewhere_is_no_message(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "q")
    queue.put("k", {})
    (path,) = (tmp_path / "q" / "ready").iterdir()
    for name in ("..%2f..%2fescape", f"{path.name}.bak", f"{path.name}~", "x" * 200):
        (path.parent / name).write_bytes(path.read_bytes())
    assert queue.keys("ready") == ["k"]
    claim = queue.claim("w")
    assert claim is not None
    assert claim.key == "k"
    assert queue.claim("w") is None


@pytest.mark.parametrize("name", ["with spaces", "ünï €", "new\nline", "'quoted\"", "$(touch x)", "-rf"])
def test_a_run_lives_at_any_path(name: str, tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / name, "odd", "0" * 64)
    assert RunDir.open(run.path) == run
    assert run.next_attempt() == 1
    owner.take(run, 30)
    Heartbeat(run.heartbeats, "train").beat("rollout")
    assert set(heartbeat.read_all(run.heartbeats)) == {"train"}
    run.queue("seeds").put("k", {})
    assert run.queue("seeds").keys("ready") == ["k"]
    with JournalWriter(run.journal_file("train", 1)) as writer:
        writer.append({"n": 1})
    assert journal.read_all(run.journal_dir, "train") == [{"n": 1}]
    stop.request(run, 1, "enough")
    assert stop.is_requested(run, 1)
    assert stat.S_ISDIR(run.path.lstat().st_mode)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_planted_temporary_is_not_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    monkeypatch.setattr(secrets, "token_hex", lambda *_: "guessed")
    (tmp_path / ".guessed.tmp").symlink_to(victim)
    with pytest.raises(FileExistsError):
        atomic.write_json(tmp_path / "tracker.json", {})
    assert victim.read_text() == "untouched"
