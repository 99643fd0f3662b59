"""Checkpoints on disk: only whole ones count, the newest of them is found, old ones go."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rods.training import checkpoint
from rods.training.checkpoint import CheckpointError


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


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def test_newest_complete_one_is_found_by_number(tmp_path: Path) -> None:
    for step in (2, 1_000_000, 10, 999_999):
        checkpoint.save(tmp_path, step, Writer(), {"step": step}, keep=9)
    newest = checkpoint.latest(tmp_path)
    assert newest == tmp_path / "step_1000000"
    assert checkpoint.read_extra(newest) == {"step": 1_000_000}


def test_nothing_there(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path) is None
    assert checkpoint.latest(tmp_path / "missing") is None


def test_an_interrupted_write_is_ignored_reported_and_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint.save(tmp_path, 1, Writer(), {}, keep=2)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path, 2, Dies(), {}, keep=2)
    with caplog.at_level(logging.WARNING):
        assert checkpoint.latest(tmp_path) == tmp_path / "step_000001"
    assert "step_000002: no COMPLETE marker" in caplog.text
    with pytest.raises(CheckpointError, match="cut short"):
        checkpoint.read_extra(tmp_path / "step_000002")
    checkpoint.save(tmp_path, 2, Writer(), {"n": 2}, keep=2)
    assert checkpoint.latest(tmp_path) == tmp_path / "step_000002"


@pytest.mark.parametrize("damage", ["truncate", "delete"])
def test_damage_after_the_marker_is_noticed(tmp_path: Path, damage: str) -> None:
    checkpoint.save(tmp_path, 1, Writer(), {}, keep=2)
    checkpoint.save(tmp_path, 2, Writer(), {}, keep=2)
    shard = tmp_path / "step_000002" / "model" / "shard.pt"
    if damage == "truncate":
        shard.write_text("wei")
    else:
        shard.unlink()
    assert checkpoint.latest(tmp_path) == tmp_path / "step_000001"
    ((folder, reason),) = checkpoint.scan(tmp_path).torn
    assert folder.name == "step_000002"
    assert "model/shard.pt" in reason


def test_only_the_newest_stay_and_torn_ones_are_left_alone(tmp_path: Path) -> None:
    for step in (1, 2):
        checkpoint.save(tmp_path, step, Writer(), {}, keep=2)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path, 3, Dies(), {}, keep=2)
    (tmp_path / "notes").mkdir()
    checkpoint.save(tmp_path, 4, Writer(), {}, keep=2)
    assert names(tmp_path) == ["notes", "step_000002", "step_000003", "step_000004"]
    assert checkpoint.prune(tmp_path, 0) == [tmp_path / "step_000002"]
    assert checkpoint.latest(tmp_path) == tmp_path / "step_000004"


def test_the_same_step_again_succeeds_the_old_one(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, 1, Writer("old"), {"n": 1}, keep=1)
    folder = checkpoint.save(tmp_path, 1, Writer("newer"), {"n": 2}, keep=1)
    assert checkpoint.latest(tmp_path) == folder
    assert (folder / "model" / "shard.pt").read_text() == "newer"
    assert checkpoint.read_extra(folder) == {"n": 2}
    assert names(tmp_path) == [folder.name]


def test_a_failed_save_of_the_same_step_leaves_the_old_one(tmp_path: Path) -> None:
    old = checkpoint.save(tmp_path, 1, Writer("old"), {"n": 1}, keep=1)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path, 1, Dies("newer"), {"n": 2}, keep=1)
    assert checkpoint.latest(tmp_path) == old
    assert checkpoint.read_extra(old) == {"n": 1}


@pytest.mark.parametrize("marker", ["{", "{}", "[]", '{"files": 3}'])
def test_a_damaged_marker_counts_as_torn(tmp_path: Path, marker: str) -> None:
    checkpoint.save(tmp_path, 1, Writer(), {}, keep=2)
    newer = checkpoint.save(tmp_path, 2, Writer(), {}, keep=2)
    (newer / "COMPLETE").write_text(marker)
    assert checkpoint.latest(tmp_path) == tmp_path / "step_000001"


def test_a_removal_cut_short_leaves_a_torn_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save(tmp_path, 1, Writer(), {}, keep=1)

    def cut_short(folder: Path) -> None:
        raise OSError("killed")

    monkeypatch.setattr(checkpoint.shutil, "rmtree", cut_short)
    with pytest.raises(OSError, match="killed"):
        checkpoint.save(tmp_path, 1, Writer("newer"), {}, keep=1)
    assert checkpoint.latest(tmp_path) == tmp_path / "step_000001.1"
    assert [path.name for path, _ in checkpoint.scan(tmp_path).torn] == ["step_000001"]
