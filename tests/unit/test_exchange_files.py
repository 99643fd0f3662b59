"""Atomic files, metrics, heartbeats and the run directory."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

import pytest
from test_exchange_journal import file_size_limit

from rods.exchange import atomic, heartbeat, server_clock
from rods.exchange.atomic import CorruptFileError
from rods.exchange.heartbeat import Heartbeat, HeartbeatError
from rods.exchange.metrics import MetricsError, MetricsWriter, read_metrics
from rods.exchange.rundir import NotARunDirError, RunDir, RunDirError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_json_is_read_back_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "tracker.json"
    for value in ({"ä": [1, 2.5, None]}, {"other": True}):
        atomic.write_json(path, value)
        assert atomic.read_json(path) == value
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_replacement_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "tracker.json"
    atomic.write_json(path, {"n": 1})
    with pytest.raises(ValueError, match="JSON compliant"):
        atomic.write_json(path, {"n": float("nan")})
    with file_size_limit(100), pytest.raises(OSError, match="too large"):
        atomic.write_json(path, {"n": "x" * 1000})
    with pytest.raises(OSError, match="directory"):
        atomic.write_bytes(tmp_path, b"a folder is in the way")
    assert atomic.read_json(path) == {"n": 1}
    assert list(tmp_path.iterdir()) == [path]
    assert not [name for name in os.listdir(tmp_path.parent) if name.endswith(".tmp")]


def test_readers_never_see_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tracker.json"
    atomic.write_json(path, ["0"] * 20_000)

    def keep_writing() -> None:
        for number in range(20):
            atomic.write_json(path, [str(number)] * 20_000)

    writer = threading.Thread(target=keep_writing)
    writer.start()
    while writer.is_alive():
        value = atomic.read_json(path)
        assert len(value) == 20_000
        assert len(set(value)) == 1
    writer.join()


def test_damaged_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_bytes(b'{"half": ')
    with pytest.raises(CorruptFileError, match=r"bad\.json: expected JSON"):
        atomic.read_json(tmp_path / "bad.json")
    with pytest.raises(FileNotFoundError):
        atomic.read_json(tmp_path / "absent.json")


def test_folders_follow_the_umask_and_a_file_in_the_way_is_an_error(tmp_path: Path) -> None:
    for umask in (0o027, 0o007):
        before = os.umask(umask)
        try:
            atomic.make_dirs(tmp_path / f"{umask}" / "inner")
        finally:
            os.umask(before)
        assert mode(tmp_path / f"{umask}") == mode(tmp_path / f"{umask}" / "inner") == 0o777 & ~umask
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        atomic.make_dirs(tmp_path / "file")


def test_metrics_are_visible_at_once_and_nan_stays(tmp_path: Path) -> None:
    path = tmp_path / "metrics" / "train.jsonl"
    assert read_metrics(path) == []
    writer = MetricsWriter(path)
    writer.write({"step": 1, "text": "two\nlines"})
    assert read_metrics(path) == [{"step": 1, "text": "two\nlines"}]
    writer.write({"loss": float("nan")})
    assert str(read_metrics(path)[1]["loss"]) == "nan"
    with pytest.raises(MetricsError):
        writer.write({"x": object()})
    writer.close()
    writer.close()


def test_half_a_metrics_line_is_set_aside_and_swallows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(b'{"step": 1}\n{"ste')
    assert read_metrics(path) == [{"step": 1}]
    writer = MetricsWriter(path)
    with file_size_limit(path.stat().st_size + 20), pytest.raises(OSError, match="too large"):
        writer.write({"fill": "x" * 100})
    writer.write({"step": 2})
    assert read_metrics(path) == [{"step": 1}, {"step": 2}]
    assert writer.torn_file is not None
    assert writer.torn_file.read_bytes() == b'{"ste'


@pytest.mark.parametrize("line", [b"{bad}", b"[1]"])
def test_a_damaged_metrics_line_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "train.jsonl"
    path.write_bytes(b'{"step": 1}\n' + line + b'\n{"step": 3}\n')
    with pytest.raises(CorruptFileError, match=r"train\.jsonl, line 2"):
        read_metrics(path)


def test_beats_carry_phase_and_info_and_the_newest_counts(tmp_path: Path) -> None:
    train = Heartbeat(tmp_path / "heartbeats", "train")
    train.beat("rollout", step=3)
    Heartbeat(tmp_path / "heartbeats", "synthesis").finish(accepted=2)
    train.beat("update", step=4)
    beats = heartbeat.read_all(tmp_path / "heartbeats")
    assert set(beats) == {"train", "synthesis"}
    assert (beats["train"].phase, beats["train"].info, beats["train"].finished) == (
        "update",
        {"step": 4},
        False,
    )
    assert beats["train"].pid == os.getpid()
    assert beats["synthesis"].finished
    assert heartbeat.read_all(tmp_path / "absent") == {}


def test_the_age_of_a_beat_is_judged_by_the_file_server_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat = Heartbeat(tmp_path, "train")
    beat.beat("rollout")
    written = beat.path.stat().st_mtime
    os.utime(beat.path, (written - 500, written - 500))
    monkeypatch.setattr(time, "time", lambda: written + 36_000)
    assert 500 <= heartbeat.read_all(tmp_path)["train"].age_s < 1000


def test_a_strange_file_among_the_beats_is_named_and_hidden_ones_are_ignored(tmp_path: Path) -> None:
    (tmp_path / ".half.tmp.json").write_text("{")
    assert heartbeat.read_all(tmp_path) == {}
    (tmp_path / "train.json").write_text("[]")
    with pytest.raises(CorruptFileError, match=r"train\.json"):
        heartbeat.read_all(tmp_path)


@pytest.mark.parametrize("role", ["", "../train", ".train", "a b"])
def test_a_role_must_be_a_plain_name(tmp_path: Path, role: str) -> None:
    with pytest.raises(HeartbeatError):
        Heartbeat(tmp_path, role)


def test_the_probe_of_the_server_clock_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    written = (tmp_path / "file").stat().st_mtime
    assert server_clock.now(tmp_path) >= written
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_new_run_directory_is_complete_private_and_never_shared(tmp_path: Path) -> None:
    runs = [RunDir.create(tmp_path / "runs", "rods_tiny", "0123456789abcdef") for _ in range(3)]
    assert len({run.path for run in runs}) == 3
    run = runs[0]
    assert run.name.startswith("rods_tiny-01234567-")
    assert len(run.name.rsplit("-", 1)[1]) == 6
    assert mode(run.path) == 0o750
    for folder in (run.attempts, run.journal_dir, run.expanded, run.checkpoints, run.metrics, run.heartbeats):
        assert folder.is_dir()
    assert not run.stop_file.exists()
    assert RunDir.open(run.path) == run
    assert run.queue("seeds").put("k", {})
    assert run.queue("seeds").counts()["ready"] == 1
    assert run.queue("variants").counts()["ready"] == 0


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 101, "a\nb", "ä"])
def test_a_run_cannot_be_named_out_of_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunDirError):
        RunDir.create(tmp_path, name, "0123456789")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_run_directory_is_refused_in_one_sentence(tmp_path: Path) -> None:
    expected = r"not a RODS run directory: .*: expected manifest\.json"
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(NotARunDirError, match=expected):
            RunDir.open(path)
    for content in ("{", "[]"):
        (tmp_path / "manifest.json").write_text(content)
        with pytest.raises(NotARunDirError, match=expected):
            RunDir.open(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(NotARunDirError, match=expected):
        RunDir.open(tmp_path / "manifest.json")
    with pytest.raises(RunDirError, match="seeds, variants"):
        RunDir.open(tmp_path).queue("others")


def test_attempts_and_manifest_grow(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "tiny", "0123456789")
    assert run.last_attempt() == 0
    assert [run.next_attempt(), run.next_attempt()] == [1, 2]
    (run.attempts / "notes").mkdir()
    assert run.last_attempt() == 2
    assert run.next_attempt() == 3
    assert run.attempt_dir(3).is_dir()
    assert run.journal_file("train", 2).name == "train-0002.log"
    run.update_manifest(code="hash")
    manifest = RunDir.open(run.path).read_manifest()
    assert manifest == {"experiment": "tiny", "config_hash": "0123456789", "name": run.name, "code": "hash"}
