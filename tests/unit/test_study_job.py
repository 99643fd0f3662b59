"""A run's place on disk, with a stand-in for launch.py, and which code it is said to be made by."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.study import job, world
from benchmarks.study.arms import get
from benchmarks.study.job import Job, Site, StudyError
from benchmarks.study.summary import Identity
from rods.exchange import stop
from rods.exchange.marker import MARKER
from rods.exchange.rundir import RunDir

LAUNCH = """
import json, os, sys
from pathlib import Path
held = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
Path(os.environ["SEEN"]).write_text(json.dumps(sys.argv[1:] + held))
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    (folder / "launch.py").write_text(LAUNCH)
    monkeypatch.setattr(job, "ROOT", folder)
    monkeypatch.setattr(job, "commit", lambda: "abc")
    monkeypatch.setattr(world, "write", lambda data, seed: data / f"seed_{seed}")
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    return folder


def site(tmp_path: Path, settings: str = "s") -> Site:
    identity = Identity(settings, "p", "t", "h")
    return Site(tmp_path / "study", tmp_path / "results", Job(get("rods"), 3, identity))


def started(one: Site, tmp_path: Path) -> str:
    with (tmp_path / "held").open("w") as held:
        assert one.start(held.fileno()).wait() in (0, 1, 2)
    return (tmp_path / "seen").read_text() if (tmp_path / "seen").exists() else ""


def begun(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path / "study" / "rods" / "seed_3", "rods_tiny", "0123456789")


def test_a_new_run_is_launched_with_its_arm_seed_and_data(root: Path, tmp_path: Path) -> None:
    seen = started(site(tmp_path), tmp_path)
    place = tmp_path / "study" / "rods" / "seed_3"
    lock = str(tmp_path / "held")
    for text in (
        "+experiment=rods_tiny",
        "training=study",
        "seed=3",
        f"launch.runs_dir={place}",
        "seed_3",
        lock,
    ):
        assert text in seen


def test_a_run_with_a_checkpoint_is_resumed_and_one_without_begins_anew(root: Path, tmp_path: Path) -> None:
    started(site(tmp_path), tmp_path)
    bare = begun(tmp_path)
    (tmp_path / "seen").unlink()
    assert "training=study" in started(site(tmp_path), tmp_path)
    assert not bare.path.exists()
    (tmp_path / "seen").unlink()
    run = begun(tmp_path)
    (run.checkpoints / "step_000004").mkdir(parents=True)
    (run.checkpoints / "step_000004" / MARKER).touch()
    assert started(site(tmp_path), tmp_path) == "", "rods resume was called, not launch.py"
    assert run.path.exists()


def test_a_run_that_was_begun_as_another_is_thrown_away(root: Path, tmp_path: Path) -> None:
    started(site(tmp_path, "old"), tmp_path)
    run = begun(tmp_path)
    stop.finish(run, 1)
    assert site(tmp_path, "old").finished
    assert not site(tmp_path, "new").finished
    started(site(tmp_path, "new"), tmp_path)
    assert not run.path.exists()


def test_the_seconds_of_all_attempts_add_up(root: Path, tmp_path: Path) -> None:
    one = site(tmp_path)
    started(one, tmp_path)
    one.took(2.0, 1.0)
    one.took(3.5, 3.0)
    assert site(tmp_path)._noted() == {
        "identity": {"settings": "s", "policy": "p", "training": "t", "heldout": "h"},
        "commit": "abc",
        "seconds": 5.5,
        "load_seconds": 12.5,
    }


def test_there_is_nothing_to_keep_of_a_run_that_is_not_there(root: Path, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="found none"):
        site(tmp_path).keep()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of two files, one of which the study writes."""
    for name in ("code.py", "docs/study.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("committed")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr(job, "ROOT", tmp_path)
    return tmp_path


def test_code_that_was_changed_since_its_commit_is_told_from_it(clone: Path) -> None:
    head = job.commit()
    assert len(head) == 12
    (clone / "docs/study.md").write_text("written by the study")
    assert job.commit() == head
    (clone / "code.py").write_text("changed")
    assert job.commit() == f"{head}+"


def test_outside_of_git_the_commit_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert job.commit() == "unknown"
