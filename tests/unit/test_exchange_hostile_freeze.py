"""A resume writes the configuration anew: killed at any point, the run can still be continued, and only as it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from faults import kill_at_every_point

from launchers import snapshot
from launchers.errors import SnapshotError
from rods.config import Config, LaunchConfig
from rods.exchange.rundir import RunDir

FIRST = Config(experiment="frozen")
SECOND = replace(FIRST, launch=LaunchConfig(heartbeat_timeout_s=77.0))


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = RunDir.create(tmp_path / "runs", "frozen", "0" * 64)
    made.code.mkdir()
    (made.code / "module.py").write_text("1")
    snapshot.freeze_config(made, FIRST)
    return made


def test_a_death_at_any_point_leaves_one_of_the_two_configurations(run: RunDir, tmp_path: Path) -> None:
    kept, seen = tmp_path / "kept", set()
    shutil.copytree(run.path, kept)

    def prepare() -> Callable[[], object]:
        shutil.rmtree(run.path)
        shutil.copytree(kept, run.path)
        return lambda: snapshot.freeze_config(run, SECOND)

    def check() -> None:
        seen.add(snapshot.verify(run).launch.heartbeat_timeout_s)
        snapshot.freeze_config(run, SECOND)
        assert snapshot.verify(run).launch == SECOND.launch

    assert kill_at_every_point(prepare, check, path=f"{run.path}/*", moments=["within"]) > 10
    assert seen == {FIRST.launch.heartbeat_timeout_s, 77.0}


@pytest.mark.parametrize("what", ["module.py was changed", "added.py was added", "module.py is missing"])
def test_it_does_not_bless_what_else_changed_meanwhile(run: RunDir, what: str) -> None:
    snapshot.verify(run)
    name, _, how = what.partition(" ")
    if "missing" in how:
        (run.code / name).unlink()
    else:
        (run.code / name).write_text("2")
    snapshot.freeze_config(run, SECOND)
    with pytest.raises(SnapshotError, match=what):
        snapshot.verify(run)


def test_a_configuration_that_neither_attempt_wrote_is_refused(run: RunDir) -> None:
    snapshot.freeze_config(run, SECOND)
    snapshot.freeze_config(run, FIRST)
    text = run.config_file.read_text()
    run.config_file.write_text(text.replace("120.0", "121.0") + "\n")
    with pytest.raises(SnapshotError, match=r"config\.yaml was changed"):
        snapshot.verify(run)
    run.config_file.unlink()
    with pytest.raises(SnapshotError, match=r"config\.yaml is missing"):
        snapshot.verify(run)
