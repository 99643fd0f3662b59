"""Checkpoints on disk: only whole ones of the run's own history count, the newest is found, old ones go."""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import shutil
import threading
from pathlib import Path

import pytest

from rods.exchange import marker
from rods.exchange.journal import JournalWriter
from rods.exchange.lineage import continuation
from rods.exchange.pressure import DiskFullError
from rods.exchange.rundir import RunDir
from rods.training import checkpoint, resharding
from rods.training.checkpoint import CheckpointError, Position


class Writer:
    """A learner of which only the files matter."""

    rank = 0

    def __init__(self, text: str = "weights") -> None:
        self.text = text

    def save(self, folder: Path) -> None:
        (folder / "model").mkdir(parents=True)
        (folder / "model" / "shard.pt").write_text(self.text)


class Dies(Writer):
    """Writes a part, then is killed."""

    def save(self, folder: Path) -> None:
        super().save(folder)
        raise KeyboardInterrupt


class Fails(Writer):
    """Writes a part, then fails once."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.errors = [error]

    def save(self, folder: Path) -> None:
        super().save(folder)
        if self.errors:
            raise self.errors.pop()


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    (tmp_path / "checkpoints").mkdir()
    return RunDir(tmp_path)


def save(run: RunDir, step: int, learner: Writer | None = None, keep: int = 2, **more: object) -> Path:
    """By attempt 1, with ten records of history a step."""
    position = Position(step, int(more.pop("attempt", 1)), int(more.pop("records", 10 * step)))
    return checkpoint.save(run, position, learner or Writer(), {"n": step}, keep, **more)


def begin_attempt(run: RunDir, attempt: int, keeps: int) -> None:
    with JournalWriter(run.journal_file("train", attempt)) as journal:
        journal.append(continuation(keeps))


def names(run: RunDir) -> list[str]:
    return sorted(path.name for path in run.checkpoints.iterdir())


def test_newest_complete_one_is_found_by_number(run: RunDir) -> None:
    for step in (2, 1_000_000, 10, 999_999):
        save(run, step, keep=9)
    newest = checkpoint.latest(run)
    assert newest == run.checkpoints / "step_1000000-0001"
    assert checkpoint.read_extra(newest) == {"n": 1_000_000}


def test_nothing_there(tmp_path: Path) -> None:
    assert checkpoint.latest(RunDir(tmp_path)) is None
    assert checkpoint.latest(RunDir(tmp_path / "missing")) is None


def test_the_marker_is_the_last_word_and_holds_size_and_hash_of_every_file(run: RunDir) -> None:
    seen: list[list[str]] = []

    def write_state(folder: Path) -> None:
        seen.append(sorted(path.name for path in folder.iterdir()))
        (folder / "tracker.json").write_text("{}")

    folder = save(run, 3, write_state=write_state)
    ((*written,),) = seen
    assert "COMPLETE" not in written
    body = json.loads((folder / "COMPLETE").read_text())
    assert (body["step"], body["attempt"], body["records"]) == (3, 1, 30)
    assert sorted(body["files"]) == ["extra.json", "model/shard.pt", "tracker.json"]
    shard = body["files"]["model/shard.pt"]
    assert shard == {"size": 7, "sha256": hashlib.sha256(b"weights").hexdigest()}


def test_an_interrupted_write_is_ignored_reported_and_replaced(
    run: RunDir, caplog: pytest.LogCaptureFixture
) -> None:
    first = save(run, 1)
    with pytest.raises(KeyboardInterrupt):
        save(run, 2, Dies())
    with caplog.at_level(logging.WARNING):
        assert checkpoint.latest(run) == first
    assert "step_000002-0001: no COMPLETE marker" in caplog.text
    with pytest.raises(CheckpointError, match="cut short"):
        checkpoint.read_extra(run.checkpoints / "step_000002-0001")
    assert save(run, 2) == checkpoint.latest(run) == run.checkpoints / "step_000002-0001"


@pytest.mark.parametrize("damage", ["truncate", "delete"])
def test_damage_after_the_marker_is_noticed(run: RunDir, damage: str) -> None:
    first = save(run, 1)
    shard = save(run, 2) / "model" / "shard.pt"
    if damage == "truncate":
        shard.write_text("wei")
    else:
        shard.unlink()
    assert checkpoint.latest(run) == first
    ((folder, reason),) = checkpoint.look(run).torn
    assert folder.name == "step_000002-0001"
    assert "model/shard.pt" in reason


def test_bytes_that_changed_are_noticed_before_they_are_trained_on(
    run: RunDir, caplog: pytest.LogCaptureFixture
) -> None:
    first = save(run, 1)
    (save(run, 2) / "model" / "shard.pt").write_text("weightz")
    assert checkpoint.latest(run) == first
    assert "damaged since: model/shard.pt" in caplog.text


def test_a_checkpoint_that_the_run_left_behind_is_never_continued_from(
    run: RunDir, caplog: pytest.LogCaptureFixture
) -> None:
    """Attempt 2 chose step 2 to go on from; attempt 1, frozen or lost until then, saves step 9 just before."""
    begin_attempt(run, 1, keeps=0)
    shared = save(run, 2)
    save(run, 9, attempt=1)
    begin_attempt(run, 2, keeps=20)
    assert checkpoint.latest(run) == shared
    assert "attempt 2 continued from record 20, this is attempt 1 at record 90" in caplog.text
    ahead = save(run, 3, attempt=2)
    assert checkpoint.latest(run) == ahead
    assert names(run) == [shared.name, ahead.name]


def test_the_stale_trainer_cannot_push_out_the_good_checkpoints(run: RunDir) -> None:
    shared = save(run, 2, keep=1)
    begin_attempt(run, 2, keeps=20)
    ahead = save(run, 3, attempt=2, keep=2)
    save(run, 9, attempt=1, keep=1)
    assert checkpoint.latest(run) == ahead
    assert ahead.exists()
    assert not (run.checkpoints / "step_000009-0001").exists()
    assert shared.exists() is False


def test_two_attempts_never_write_into_one_folder(run: RunDir) -> None:
    begin_attempt(run, 2, keeps=5)
    mine = save(run, 2, attempt=2)
    theirs = save(run, 2, Writer("stale"), attempt=1)
    assert mine != theirs
    assert (mine / "model" / "shard.pt").read_text() == "weights"
    assert checkpoint.latest(run) == mine


def test_only_the_newest_stay_and_torn_ones_are_left_alone(run: RunDir) -> None:
    for step in (1, 2):
        save(run, step)
    with pytest.raises(KeyboardInterrupt):
        save(run, 3, Dies())
    (run.checkpoints / "notes").mkdir()
    save(run, 4)
    assert names(run) == ["notes", "step_000002-0001", "step_000003-0001", "step_000004-0001"]
    assert checkpoint.prune(run, 0) == [run.checkpoints / "step_000002-0001"]
    assert checkpoint.latest(run) == run.checkpoints / "step_000004-0001"


def test_a_conversion_whose_process_died_goes_with_the_next_save(run: RunDir) -> None:
    (run.checkpoints / ".step_000001-0001.universal.tmp" / "model").mkdir(parents=True)
    assert [path.name for path in resharding.leftovers(run.checkpoints)] == [
        ".step_000001-0001.universal.tmp"
    ]
    save(run, 2)
    assert names(run) == ["step_000002-0001"]


def test_the_same_step_again_succeeds_the_old_one(run: RunDir) -> None:
    save(run, 1, Writer("old"), keep=1)
    folder = save(run, 1, Writer("newer"), keep=1)
    assert checkpoint.latest(run) == folder
    assert (folder / "model" / "shard.pt").read_text() == "newer"
    assert names(run) == [folder.name] == ["step_000001-0001.1"]


def test_a_failed_save_of_the_same_step_leaves_the_old_one(run: RunDir) -> None:
    old = save(run, 1, Writer("old"), keep=1)
    with pytest.raises(KeyboardInterrupt):
        save(run, 1, Dies("newer"), keep=1)
    assert checkpoint.latest(run) == old


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left"), OSError(errno.EDQUOT, "Quota"), RuntimeError("enforce fail")],
)
def test_a_failed_save_leaves_no_trace_and_can_be_repeated(run: RunDir, error: Exception) -> None:
    first = save(run, 1)
    learner = Fails(error)
    with pytest.raises(type(error)):
        save(run, 2, learner)
    assert names(run) == [first.name]
    assert checkpoint.latest(run) == first
    assert save(run, 2, learner) == checkpoint.latest(run)


def test_what_cannot_fit_is_not_begun(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    first = save(run, 1, Writer("x" * 5000))
    usage = shutil.disk_usage(run.checkpoints)._replace(free=4000)
    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DiskFullError, match=r"needs about 5\.\d kB.*step_000001-0001, is whole"):
        save(run, 2)
    assert names(run) == [first.name]


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"files": 3}', '{"step": 2, "files": {"a": 3}}'])
def test_a_damaged_marker_counts_as_torn(run: RunDir, text: str) -> None:
    first = save(run, 1)
    (save(run, 2) / "COMPLETE").write_text(text)
    assert checkpoint.latest(run) == first
    assert len(checkpoint.look(run).torn) == 1


def test_a_removal_cut_short_leaves_a_torn_checkpoint(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    save(run, 1, keep=1)

    def cut_short(folder: Path) -> None:
        raise OSError("killed")

    monkeypatch.setattr(checkpoint.shutil, "rmtree", cut_short)
    with pytest.raises(OSError, match="killed"):
        save(run, 1, Writer("newer"), keep=1)
    assert checkpoint.latest(run) == run.checkpoints / "step_000001-0001.1"
    assert [path.name for path, _ in checkpoint.look(run).torn] == ["step_000001-0001"]


def test_every_file_reaches_the_disk_before_the_marker(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    folder = save(run, 1)
    before_marker = synced[: synced.index(folder.name, synced.index("shard.pt"))]
    assert {"shard.pt", "extra.json"} <= set(before_marker)
    assert marker.damaged_files(checkpoint.look(run).complete[0]) == []


def test_what_else_belongs_to_it_is_written_while_the_learner_saves(run: RunDir) -> None:
    """Each waits for the other to have begun: one after the other they would never end."""
    begun, waited = threading.Event(), []

    class Waits(Writer):
        def save(self, folder: Path) -> None:
            waited.append(begun.wait(30))
            super().save(folder)

    def write_state(folder: Path) -> None:
        begun.set()
        (folder / "tracker.json").write_text("{}")

    folder = save(run, 1, Waits(), write_state=write_state)
    assert waited == [True]
    assert sorted(marker.read(folder).files) == ["extra.json", "model/shard.pt", "tracker.json"]


def test_without_what_else_belongs_to_it_there_is_no_checkpoint(run: RunDir) -> None:
    first = save(run, 1)

    def fails(folder: Path) -> None:
        raise OSError(errno.EACCES, "no")

    with pytest.raises(OSError, match="no"):
        save(run, 2, write_state=fails)
    assert names(run) == [first.name]
