"""A disk that fills up, goes read-only or stumbles: on a real small file system, with the real error codes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mounts
import pytest
from faults import Fault, injected

from rods.exchange import atomic, heartbeat, journal, pressure, server_clock, stop
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.journal import JournalWriter
from rods.exchange.metrics import MetricsWriter, read_metrics
from rods.exchange.pressure import DiskFullError, Pause, ReadOnlyError, UnreliableStorageError
from rods.exchange.queue import Queue
from rods.exchange.rundir import RunDir

LARGE = "x" * 20_000
WAIT_S = 30.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounts.tmpfs(tmp_path / "small disk ü") as folder:
        yield folder


@dataclass
class Watched:
    """A pause that a test can wait for."""

    paused: threading.Event = field(default_factory=threading.Event)
    stopped: threading.Event = field(default_factory=threading.Event)

    def policy(self) -> Pause:
        return Pause("train", self.stopped.is_set, lambda *_, **__: self.paused.set())


@dataclass(frozen=True)
class Case:
    """Something that writes: `prepare` on an empty disk gives the action, `look` what it left."""

    prepare: Callable[[Path], Callable[[], object]]
    look: Callable[[Path], object]


def _journal(folder: Path) -> Callable[[], object]:
    writer = JournalWriter(folder / "train-0001.log")
    writer.append({"n": 0})
    return lambda: [writer.append({"n": n, "text": LARGE}) for n in range(1, 4)]


def _journal_by_step(folder: Path) -> Callable[[], object]:
    writer = JournalWriter(folder / "train-0001.log", fsync="step")

    def act() -> None:
        writer.append_many([{"n": n, "text": LARGE} for n in range(3)])
        writer.sync()

    return act


def _tracker(folder: Path) -> Callable[[], object]:
    atomic.write_json(folder / "tracker.json", {"step": 1})
    return lambda: atomic.write_json(folder / "tracker.json", {"step": 2, "text": LARGE})


def _put(folder: Path) -> Callable[[], object]:
    queue = Queue(folder / "q")
    return lambda: [queue.put(f"k{n}", {"n": n, "text": LARGE}) for n in range(3)]


def _quarantine(folder: Path) -> Callable[[], object]:
    queue = Queue(folder / "q")
    queue.put("k", {})
    claim = queue.claim("w")
    assert claim is not None
    return lambda: claim.quarantine(LARGE[:6000])


def _metrics(folder: Path) -> Callable[[], object]:
    writer = MetricsWriter(folder / "train.jsonl")
    writer.write({"step": 1})
    return lambda: writer.write({"step": 2, "text": LARGE})


def _messages(folder: Path) -> object:
    queue = Queue(folder / "q")
    found = {state: queue.keys(state) for state in ("ready", "claimed", "done", "quarantine")}
    return found, [queue.read("ready", key) for key in found["ready"]], [queue.failures("k")]


def _records(folder: Path) -> object:
    return journal.read_all(folder), [path.name for path in folder.glob("*.torn")]


CASES = {
    "journal": Case(_journal, _records),
    "journal synced by step": Case(_journal_by_step, _records),
    "tracker": Case(_tracker, lambda folder: atomic.read_json(folder / "tracker.json")),
    "queue put": Case(_put, _messages),
    "quarantine": Case(_quarantine, _messages),
    "metrics": Case(_metrics, lambda folder: read_metrics(folder / "train.jsonl")),
}


@pytest.mark.parametrize("name", CASES)
def test_a_full_disk_pauses_and_the_result_is_as_if_it_had_not(
    name: str, small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case, watched = CASES[name], Watched()
    calm = tmp_path / "calm"
    calm.mkdir()
    case.prepare(calm)()
    act = case.prepare(small_disk)
    before = case.look(small_disk)
    ballast = mounts.fill(small_disk)
    with pressure.using(watched.policy()):
        acting = threading.Thread(target=act)
        acting.start()
        assert watched.paused.wait(WAIT_S)
        assert acting.is_alive()
        if name in ("tracker", "metrics"):
            assert case.look(small_disk) == before, "the last good state stays"
        ballast.unlink()
        acting.join(WAIT_S)
    assert not acting.is_alive()
    assert case.look(small_disk) == case.look(calm)
    told = capsys.readouterr().err
    assert told.count("paused") == told.count("going on") > 0
    assert str(small_disk) in told


@pytest.mark.parametrize("name", CASES)
def test_a_tool_is_told_at_once_and_can_try_again(name: str, small_disk: Path, tmp_path: Path) -> None:
    case = CASES[name]
    act = case.prepare(small_disk)
    ballast = mounts.fill(small_disk)
    with pytest.raises(DiskFullError, match="the disk is full") as caught:
        act()
    assert caught.value.errno == errno.ENOSPC
    ballast.unlink()
    calm = tmp_path / "calm"
    calm.mkdir()
    case.prepare(calm)()
    act()
    assert case.look(small_disk) == case.look(calm)


def test_a_stop_request_ends_the_wait(small_disk: Path) -> None:
    act, watched, raised = _tracker(small_disk), Watched(), []
    mounts.fill(small_disk)

    def acting() -> None:
        try:
            act()
        except DiskFullError as error:
            raised.append(error)

    with pressure.using(watched.policy()):
        thread = threading.Thread(target=acting)
        thread.start()
        assert watched.paused.wait(WAIT_S)
        watched.stopped.set()
        thread.join(WAIT_S)
    assert len(raised) == 1
    assert atomic.read_json(small_disk / "tracker.json") == {"step": 1}


def test_no_inodes_are_a_full_disk_too(tmp_path: Path) -> None:
    with mounts.tmpfs(tmp_path / "few", "size=1m,nr_inodes=8") as folder:
        spare = os.statvfs(folder).f_favail
        files = [folder / str(number) for number in range(spare)]
        for file in files:
            file.touch()
        with pytest.raises(DiskFullError, match="0 inodes free"):
            server_clock.now(folder)
        files[0].unlink()
        server_clock.now(folder)


def test_the_message_says_what_to_remove(small_disk: Path) -> None:
    run = RunDir.create(small_disk / "runs", "full", "0" * 64)
    for step, size in ((1, 40_000), (2, 90_000)):
        folder = run.checkpoints / f"step_{step:06d}"
        folder.mkdir()
        (folder / "weights").write_bytes(bytes(size))
    mounts.fill(small_disk)
    with pytest.raises(DiskFullError) as caught:
        atomic.write_json(run.tracker, {"text": LARGE})
    message = str(caught.value)
    for part in (
        str(run.tracker),
        "0 B free",
        "inodes free",
        "step_000002 (90.1 kB)",
        "step_000001 (41.0 kB)",
    ):
        assert part in message
    assert message.index("step_000002") < message.index("step_000001")


def test_a_heartbeat_on_a_full_disk_shows_the_pause_and_stays_young(
    small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beats = Heartbeat(small_disk / "heartbeats", "train")
    beats.beat("rollout", step=3)
    ballast = mounts.fill(small_disk)
    for _ in range(3):
        beats.beat("rollout", step=4)
    found = heartbeat.read_all(small_disk / "heartbeats")["train"]
    assert found.phase == pressure.PAUSED
    assert found.age_s < WAIT_S
    assert capsys.readouterr().err.count("heartbeat cannot be written") == 1
    ballast.unlink()
    beats.beat("rollout", step=4)
    assert heartbeat.read_all(small_disk / "heartbeats")["train"].info == {"step": 4}
    fill = mounts.fill(small_disk)
    beats.beat("rollout", step=5)
    assert heartbeat.read_all(small_disk / "heartbeats")["train"].phase == pressure.PAUSED
    assert capsys.readouterr().err.count("heartbeat cannot be written") == 1
    fill.unlink()


def test_a_run_can_be_asked_to_stop_on_a_full_disk(small_disk: Path) -> None:
    run = RunDir.create(small_disk / "runs", "full", "0" * 64)
    mounts.fill(small_disk)
    stop.request(run, 1, "enough")
    assert stop.is_requested(run, 1)
    assert not stop.is_finished(run)


def test_a_signal_is_obeyed_when_no_file_can_be_made(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "full", "0" * 64)
    with injected(Fault("raise", times=None, operations=("open",), path=f"{run.path}/*", error="EDQUOT")):
        with pytest.raises(DiskFullError):
            stop.request(run, 1, "enough")
        assert not stop.is_requested(run, 1)
        stop.request_by_signal(run, 1, "enough")
    assert stop.is_requested(run, 1)
    assert not stop.is_requested(run, 2)


def test_read_only_is_said_and_nothing_is_lost(small_disk: Path) -> None:
    run = RunDir.create(small_disk / "runs", "closed", "0" * 64)
    atomic.write_json(run.tracker, {"step": 1})
    queue = run.queue("seeds")
    queue.put("a", {"n": 1})
    beats = Heartbeat(run.heartbeats, "train")
    mounts.remount(small_disk, "ro")
    try:
        for act in (lambda: atomic.write_json(run.tracker, {}), lambda: queue.put("b", {})):
            with pytest.raises(ReadOnlyError, match="mounted read-only") as caught:
                act()
            assert caught.value.errno == errno.EROFS
        beats.beat("rollout")
        assert atomic.read_json(run.tracker) == {"step": 1}
        assert queue.keys("ready") == ["a"]
        assert heartbeat.read_all(run.heartbeats) == {}
    finally:
        mounts.remount(small_disk, "rw")
    assert queue.put("b", {})


PASSING = [
    (name, operation, error)
    for name in CASES
    for operation in ("write", "fsync")
    for error in ("EIO", "ESTALE")
]


@pytest.mark.parametrize(("name", "operation", "error"), PASSING)
def test_a_passing_error_changes_nothing(name: str, operation: str, error: str, tmp_path: Path) -> None:
    if name == "metrics" and operation == "fsync":
        pytest.skip("metrics are not synced")
    case = CASES[name]
    results: list[Any] = []
    for folder, times in (("calm", 0), ("shaken", 2)):
        (tmp_path / folder).mkdir()
        act = case.prepare(tmp_path / folder)
        with injected(
            Fault("raise", times=times, operations=(operation,), path=f"{tmp_path}/*", error=error)
        ):
            act()
        results.append(case.look(tmp_path / folder))
    assert results[0] == results[1]


def test_a_file_is_written_anew_after_a_failed_fsync(tmp_path: Path) -> None:
    """Its pages may be gone: syncing the same file again would report a success that is none."""
    synced: list[str] = []
    report = tmp_path / "report"
    watching = Fault("raise", times=2, operations=("fsync",), path=f"{tmp_path}/*.tmp", report=str(report))
    with injected(watching):
        atomic.write_json(tmp_path / "tracker.json", {"step": 1})
    synced = [json.loads(line)["path"] for line in report.read_text().splitlines()]
    assert len(set(synced)) == len(synced) == 2
    assert atomic.read_json(tmp_path / "tracker.json") == {"step": 1}
    assert not list(tmp_path.glob(".*.tmp"))


def test_an_error_that_stays_is_typed_and_the_old_state_whole(tmp_path: Path) -> None:
    path = tmp_path / "tracker.json"
    atomic.write_json(path, {"step": 1})
    for error in ("EIO", "ESTALE"):
        with (
            injected(Fault("raise", times=None, operations=("write",), path=f"{tmp_path}/*", error=error)),
            pytest.raises(UnreliableStorageError, match="after 3 more tries"),
        ):
            atomic.write_json(path, {"step": 2})
        assert atomic.read_json(path) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("error", ["EIO", "ESTALE"])
def test_a_rename_whose_reply_was_lost_is_looked_up(tmp_path: Path, moment: Any, error: str) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("content")
    with injected(Fault("raise", operations=("rename",), moment=moment, path=f"{tmp_path}/*", error=error)):
        atomic.rename(source, target)
    assert target.read_text() == "content"
    assert not source.exists()
    with pytest.raises(FileNotFoundError):
        atomic.rename(source, target)


def test_these_in_a_namespace_of_their_own() -> None:
    """Where this user is not root, the tests that mount run as root of a user namespace."""
    if mounts.can_mount() or not mounts.can_unshare():
        pytest.skip("not needed (this user can mount), or unshare -Urm is not allowed")
    command = ["unshare", "-Urm", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stdout
