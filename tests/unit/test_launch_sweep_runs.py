"""A multirun on this machine, through launch.py with stub roles."""

from __future__ import annotations

import errno
import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sweep_examples import command, launched, points, runs_of, source_tree
from watch_examples import make_run

from launchers import snapshot
from launchers.sweep import Point
from launchers.sweep_table import State
from rods.exchange import stop
from rods.exchange.rundir import RunDir
from rods.roles import launching, sweep_local

# Notes which runs of the sweep lie frozen beside it, then does as `finish`.
NOTE = """    beside = [p.parent.name for p in run.path.parent.glob("*/config.yaml")]
    (run.path / "beside").write_text(" ".join(sorted(beside)))
    (Path(run.path.parent.parent) / "source/conf/config.yaml").write_text("edited: meanwhile")
    return 0"""


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.1)


def manifest(run: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((run / "manifest.json").read_text())
    return found


def test_every_run_is_frozen_before_the_first_starts_and_all_finish(tmp_path: Path) -> None:
    launch = source_tree(tmp_path, "finish", "until stopped")
    train = launch.parent / "rods" / "roles" / "train.py"
    train.write_text(train.read_text().replace("    return 0", NOTE))
    done = launched(launch, "+ablation=blind_retry,random_seeds")
    assert done.returncode == 0, done.stdout + done.stderr
    runs = runs_of(launch)
    assert [re.sub(r"-\w{8}-\w{6}$", "", run.name) for run in runs] == [
        "rods_tiny-blind_retry",
        "rods_tiny-random_seeds",
    ]
    for number, run in enumerate(runs, 1):
        assert stop.is_finished(RunDir(run))
        # The first run edits the source tree; the second is what was launched all the same.
        assert (run / "beside").read_text().split() == [run.name for run in runs]
        assert snapshot.verify(RunDir(run)).experiment == "rods_tiny"
        assert manifest(run)["sweep"] == {"id": manifest(runs[0])["sweep"]["id"], "run": number, "of": 2}  # type: ignore[index]
        assert (run / "code/rods/errors.py").samefile(runs[0] / "code/rods/errors.py")
    assert manifest(runs[1])["overrides"] == [
        "+experiment=rods_tiny",
        "+ablation=random_seeds",
        "model.path=model",
        "tracking.wandb=disabled",
    ]
    assert "2 runs: 2 finished" in done.stdout
    told = done.stdout.index("2 runs:\n")
    assert told < done.stdout.index("started")


def test_a_run_that_fails_keeps_no_other_from_running(tmp_path: Path) -> None:
    launch = source_tree(tmp_path, "finish", "until stopped")
    train = launch.parent / "rods" / "roles" / "train.py"
    train.write_text(
        train.read_text().replace(
            "    return 0", "    return 7 if '\\nseed: 1\\n' in run.config_file.read_text() else 0"
        )
    )
    done = launched(launch, "seed=1,2", "launch.max_parallel=2")
    assert done.returncode == 1
    assert "2 runs: 1 finished, 1 failed" in done.stdout
    assert "the role train ended with exit code 7" in done.stdout
    (failed,) = (run for run in runs_of(launch) if "seed=1" in manifest(run)["overrides"])  # type: ignore[operator]
    assert re.findall("go on: rods resume (.*)", done.stdout) == [str(failed)]


def test_ctrl_c_stops_the_running_ones_and_starts_no_more(tmp_path: Path) -> None:
    launch = source_tree(tmp_path, "until stopped", "until stopped")
    arguments = command(launch, "seed=1,2,3", "launch.max_parallel=2")
    process = subprocess.Popen(arguments, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    until(lambda: len(list(tmp_path.glob("runs/*/train-1.pid"))) == 2)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "3 runs: 2 stopped, 1 not started" in output
    assert len(list(tmp_path.glob("runs/*/train-1.stopped"))) == 2


def test_how_far_the_running_ones_are_is_told_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, odd = make_run(tmp_path), make_run(tmp_path)
    odd.manifest.write_text("{")
    sweep = sweep_local.Line([run, odd], 2)
    waiting = subprocess.Popen(["sleep", "60"])
    sweep._running = {each.name: (each, 1, waiting) for each in (run, odd)}
    sweep._tell()
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(sweep_local, "_TELL_EVERY_S", 0.0)
    sweep._tell()
    waiting.kill()
    waiting.wait()
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(run.name)
    assert "step 8/20 | reward 0.438" in first
    assert second.startswith(odd.name)


@pytest.mark.parametrize(("status", "state"), [(-2, State.stopped), (1, State.failed), (-9, State.failed)])
def test_a_supervisor_without_a_record_is_judged_by_its_end(
    tmp_path: Path, status: int, state: State
) -> None:
    run = RunDir.create(tmp_path, "early", "0" * 64)
    ended = sweep_local._how_it_went(run, run.next_attempt(), status)
    assert ended.state is state
    assert ended.sentence


def test_in_the_background_the_runs_go_on_one_after_another(tmp_path: Path) -> None:
    launch = source_tree(tmp_path, "finish", "until stopped")
    done = launched(launch, "seed=1,2", "launch.mode=submit")
    assert done.returncode == 0, done.stderr
    assert "2 runs: 2 queued" in done.stdout
    assert "rods status --watch RUN" in done.stdout
    until(lambda: all(stop.is_finished(RunDir(run)) for run in runs_of(launch)))
    (log,) = tmp_path.glob("runs/*/sweep.out")
    until(lambda: log.read_text().count("finished") == 2)


@pytest.mark.parametrize("links", ["given", "refused"])
def test_the_runs_of_a_sweep_share_their_codes_files_where_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: str
) -> None:
    first, second = (
        point for point in points("+experiment=rods_tiny", "seed=1,2") if isinstance(point, Point)
    )

    def create(point: Point, like: RunDir | None) -> RunDir:
        config = replace(point.config, launch=replace(point.config.launch, runs_dir=str(tmp_path)))
        return launching.create(config, point.plan, list(point.overrides), like)

    original = create(first, None)
    if links == "refused":
        monkeypatch.setattr(
            snapshot.os, "link", lambda *_: (_ for _ in ()).throw(PermissionError("no links"))
        )
        monkeypatch.setattr("rods.exchange.owner.take", lambda *_: None)  # it needs links
    run = create(second, original)
    shared = (run.code / "rods/errors.py").samefile(original.code / "rods/errors.py")
    assert shared == (links == "given")
    assert snapshot.verify(run).seed == 2
    shutil.rmtree(original.path)
    assert snapshot.verify(run).seed == 2
    (run.code / "rods/errors.py").write_text("pass\n")
    with pytest.raises(snapshot.SnapshotError, match=r"errors\.py was changed"):
        snapshot.verify(run)


def test_a_run_directory_that_cannot_be_frozen_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (point,) = (point for point in points("+experiment=rods_tiny") if isinstance(point, Point))
    config = replace(point.config, launch=replace(point.config.launch, runs_dir=str(tmp_path)))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(snapshot, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        launching.create(config, point.plan, [])
    assert not list(tmp_path.iterdir())
