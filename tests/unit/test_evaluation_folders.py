"""An evaluation's folder: the checkpoint that it began with, also when that is gone; file systems without locks."""

from __future__ import annotations

import errno
import fcntl
import json
import shutil
from pathlib import Path

import pytest
from evaluation_examples import made_run

from rods.evaluation import folders
from rods.evaluation.folders import EvaluationError, alone, began_with, pinned
from rods.exchange import marker
from rods.exchange.atomic import CorruptFileError, write_json
from rods.exchange.rundir import RunDir

PIN = {"given": "g", "folder": "/none", "run": "/none", "step": 7, "sha256": "0"}


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A run with a checkpoint that holds no weights."""
    found = made_run(tmp_path / "trained", Path("shipped/tiny"))
    _checkpoint(found, 7)
    return found


def _checkpoint(run: RunDir, step: int) -> None:
    folder = run.checkpoints / f"step_{step:06d}-0001"
    folder.mkdir(parents=True)
    marker.write(folder, step, 1, 0)


def _begun(run: RunDir, folder: Path) -> None:
    """Pinned, claimed, and its checkpoint removed before it was gathered."""
    assert pinned(str(run.path), folder).step == 7
    write_json(folder / "evaluation.json", {"policy": {"step": 7}})
    shutil.rmtree(run.checkpoints)


def test_a_checkpoint_that_is_gone_is_replaced_by_the_policy_that_its_run_ended_with(
    tmp_path: Path, run: RunDir
) -> None:
    _begun(run, tmp_path / "out")
    (run.path / "policy").mkdir()
    (run.path / "policy" / "config.json").write_text("{}")
    assert pinned(str(run.path), tmp_path / "out").step is None
    folders.claim(tmp_path / "out", {"policy": {"step": None, "given": ""}})
    assert began_with(tmp_path / "out") is None


def test_what_was_played_does_not_go_on_with_another_checkpoint(tmp_path: Path, run: RunDir) -> None:
    out = tmp_path / "out"
    _begun(run, out)
    _checkpoint(run, 9)
    (out / folders.TRAJECTORIES).write_text("{}\n")
    with pytest.raises(EvaluationError, match=f"began with, step 7 of {run.path}, or its weights"):
        pinned(str(run.path), out)
    assert (out / "evaluation.json").is_file()
    (out / folders.TRAJECTORIES).write_text("")
    assert pinned(str(run.path), out).step == 9


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '"x"',
        json.dumps({**PIN, "step": None}),
        json.dumps(PIN).replace("7", "1e999"),
        json.dumps({**PIN, "folder": 5}),
        json.dumps({**PIN, "folder": "a\0b"}),
    ],
)
def test_a_damaged_note_of_the_checkpoint_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "pinned.json").write_text(text)
    with pytest.raises(CorruptFileError, match=r"pinned\.json: expected"):
        began_with(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", '{"pid": 3}', "\0"])
def test_whoever_holds_a_folder_is_told_as_far_as_it_is_known(tmp_path: Path, text: str) -> None:
    with alone(tmp_path, pytest.fail):
        (tmp_path / ".holder.json").write_text(text)
        with pytest.raises(EvaluationError, match="another process plays"), alone(tmp_path, pytest.fail):
            pass


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_where_files_cannot_be_locked_it_is_said_and_nothing_stays_that_would_keep_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def absent(descriptor: int, operation: int) -> None:
        raise OSError(number, "no locks")

    said: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", absent)
        with alone(tmp_path, said.append), alone(tmp_path, said.append):
            pass
    assert (
        said
        == [f"note: {tmp_path}: no file locks here (no locks); do not start this evaluation twice at once"]
        * 2
    )
    with alone(tmp_path, pytest.fail):
        pass
