"""Who may read a run: the mode and the group of its folder reach everything that is made in it."""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults import run_in_child

from launchers import snapshot
from rods.config import Config
from rods.exchange import permissions
from rods.exchange.atomic import make_dirs, write_json
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.journal import JournalWriter
from rods.exchange.metrics import MetricsWriter
from rods.exchange.permissions import PermissionsError
from rods.exchange.rundir import RunDir


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """As a login shell has it: without care, everybody could read everything."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(root: Path) -> tuple[set[int], set[int]]:
    """Modes of the folders and of the files below `root`, itself included."""
    found = [path for path in (root, *root.rglob("*")) if not path.is_symlink()]
    folders = {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_dir()}
    return folders, {stat.S_IMODE(path.stat().st_mode) for path in found if path.is_file()}


def make_run(tmp_path: Path, mode: str, group: str = "") -> RunDir:
    permissions.adopt(mode)
    run = RunDir.create(tmp_path / "runs", "closed", "0" * 64, mode=mode, group=group)
    snapshot.freeze(run, Config(), [])
    run.queue("seeds").put("k", {})
    Heartbeat(run.heartbeats, "train").beat("rollout")
    MetricsWriter(run.metrics / "train.jsonl").write({"step": 1})
    with JournalWriter(run.journal_file("train", 1)) as writer:
        writer.append({"n": 1})
    write_json(run.tracker, {})
    (run.attempt_dir(run.next_attempt()) / "train.out").write_text("what a library or a shell writes")
    return run


@pytest.mark.parametrize(("mode", "file_mode"), [("0750", 0o640), ("0700", 0o600), ("0755", 0o644)])
def test_everything_in_a_run_has_its_mode(mode: str, file_mode: int, tmp_path: Path) -> None:
    folders, files = modes(make_run(tmp_path, mode).path)
    assert folders == {int(mode, 8)}
    assert files == {file_mode}


def test_a_process_that_joins_takes_the_mode_from_the_folder(tmp_path: Path) -> None:
    run = make_run(tmp_path, "0750")
    os.umask(0o022)
    permissions.adopt_from(run.path)
    make_dirs(run.path / "more" / "inside")
    (run.path / "more" / "file").touch()
    assert modes(run.path) == ({0o750}, {0o640})


def other_group() -> str:
    """A group that this user can give and that is not the default one."""
    ids = [entry.gr_gid for entry in grp.getgrall()] if os.geteuid() == 0 else os.getgroups()
    names = [grp.getgrgid(number).gr_name for number in ids if number != os.getegid()]
    if not names:
        pytest.skip("this user is in one group only")
    return names[0]


@pytest.mark.parametrize("mode", ["2770", "0770"])
def test_a_group_is_handed_down(mode: str, tmp_path: Path) -> None:
    group = other_group()
    run = make_run(tmp_path, mode, group)
    folders, files = modes(run.path)
    assert folders == {0o2770}
    assert files == {0o660}
    assert {grp.getgrgid(path.stat().st_gid).gr_name for path in (run.path, *run.path.rglob("*"))} == {group}


def test_an_unknown_group_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(PermissionsError, match=r"no-such-group.*Yours are"):
        RunDir.create(tmp_path / "runs", "closed", "0" * 64, group="no-such-group")
    assert list(tmp_path.iterdir()) == []


def test_a_group_that_one_is_not_in_is_refused() -> None:
    if os.geteuid():
        pytest.skip("only root can become somebody who is in no group")

    def as_nobody() -> None:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        with pytest.raises(PermissionsError, match="you are not"):
            permissions.group_id(next(e.gr_name for e in grp.getgrall() if e.gr_gid != 65534))

    assert run_in_child(as_nobody) == 0
