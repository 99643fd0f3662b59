"""A multirun through launch.py with stub roles: on this machine, and with a stand-in for sbatch."""

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

from launchers import snapshot
from launchers.scheduler import JobInfo
from launchers.states import lookup
from launchers.sweep import Point
from launchers.sweep_table import Result, State, results
from rods.exchange import stop
from rods.exchange.rundir import RunDir
from rods.roles import launching, sweep_slurm

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


@pytest.fixture
def sbatch(tmp_path: Path) -> Path:
    """A folder with a stand-in for Slurm that numbers jobs from 101, notes its options and refuses the third."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "sbatch").write_text(
        "#!/bin/bash\n"
        f'echo "$@" >>{tools}/calls\n'
        f"number=$(wc -l <{tools}/calls)\n"
        '[ "$number" = 3 ] && { echo "sbatch: error: QOSMaxSubmitJobPerUserLimit" >&2; exit 1; }\n'
        'echo "Submitted batch job $((100 + number))"\n'
    )
    (tools / "srun").write_text("#!/bin/bash\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    return tools


def test_on_slurm_every_point_is_a_job_and_a_refusal_stops_no_other(tmp_path: Path, sbatch: Path) -> None:
    launch = source_tree(tmp_path, "finish", "until stopped")
    options = ("cluster=slurm_test", "launch.mode=submit", "launch.max_parallel=2")
    done = launched(launch, "seed=1,2,3,4,5", *options, path=str(sbatch))
    assert done.returncode == 1
    calls = (sbatch / "calls").read_text().splitlines()
    dependencies = [re.findall(r"--dependency=(\S+)", call) for call in calls]
    # Two chains; the refused third run leaves its place in the first one to the fourth.
    assert dependencies == [[], [], ["afterany:101"], ["afterany:101"], ["afterany:102"]]
    assert "5 runs: 4 submitted, 1 failed" in done.stdout
    assert "QOSMaxSubmitJobPerUserLimit" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r" +\d  submitted", line)]
    assert [(row[0], row[3]) for row in rows] == [("1", "101"), ("2", "102"), ("4", "104"), ("5", "105")]
    assert sorted(str(run) for run in runs_of(launch)) == sorted(row[2] for row in rows)
    (again,) = re.findall("again: (.*)", done.stdout)
    assert again.startswith("python launch.py +experiment=rods_tiny")
    assert again.endswith("seed=3 cluster=slurm_test launch.mode=submit launch.max_parallel=2")


def test_ctrl_c_between_submissions_loses_no_job_and_no_folder(tmp_path: Path, sbatch: Path) -> None:
    launch = source_tree(tmp_path, "finish", "until stopped")
    tool = sbatch / "sbatch"
    # Its parent is `timeout`, whose parent is the launch.
    interrupt = '[ "$number" = 2 ] && kill -INT "$(ps -o ppid= -p "$PPID" | tr -d " ")"\n'
    tool.write_text(tool.read_text().replace("[ ", f"{interrupt}[ ", 1))
    done = launched(launch, "seed=range(6)", "cluster=slurm_test", "launch.mode=submit", path=str(sbatch))
    assert done.returncode == 130, done.stdout + done.stderr
    assert "6 runs: 2 submitted, 4 not started" in done.stdout
    runs = runs_of(launch)
    assert len(runs) == 2
    assert all((run / "jobs.jsonl").exists() for run in runs)
    assert "Traceback" not in done.stderr


def test_without_m_one_run_is_submitted_and_nothing_runs_here(tmp_path: Path, sbatch: Path) -> None:
    launch = source_tree(tmp_path, "crash", "crash")
    arguments = [text for text in command(launch, "cluster=slurm_test", "launch.mode=submit") if text != "-m"]
    done = subprocess.run(
        arguments,
        cwd=tmp_path,
        env={"PATH": f"{sbatch}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (run,) = runs_of(launch)
    assert not list(run.glob("*.pid"))
    assert "101" in done.stdout


def test_a_launch_on_slurm_without_slurm_makes_nothing(tmp_path: Path) -> None:
    launch = source_tree(tmp_path, "finish", "finish")
    arguments = command(launch, "seed=1,2", "cluster=slurm_test", "launch.mode=submit")
    python = Path(arguments[0])
    done = subprocess.run(
        arguments, cwd=tmp_path, env={"PATH": str(python.parent)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "expected the commands sbatch and srun" in done.stderr
    assert not runs_of(launch)


def submitted(tmp_path: Path, *jobs: tuple[str, ...]) -> list[Result]:
    """Submitted runs of a sweep, with these jobs."""
    made = points("+experiment=rods_tiny", f"seed=range({len(jobs)})")
    found = []
    for point, ids in zip(made, jobs, strict=True):
        assert isinstance(point, Point)
        run = RunDir.create(tmp_path, "followed", point.plan.config_hash)
        run.next_attempt()
        found.append(Result(point, State.submitted, run.path, ids))
    return found


def test_following_waits_for_every_job_of_every_run(tmp_path: Path) -> None:
    found = submitted(tmp_path, ("1",), ("2", "3"), ("4",))
    states = {"1": "PENDING", "2": "COMPLETED", "3": "RUNNING", "4": ""}
    asked, steps = (
        [],
        iter([{"1": "RUNNING"}, {"1": "COMPLETED", "3": "OUT_OF_MEMORY"}, {"4": "CANCELLED by 0"}]),
    )

    def query(jobs: object) -> dict[str, JobInfo]:
        asked.append(list(jobs))  # type: ignore[call-overload]
        return {job: JobInfo(job, lookup(states[job])) for job in asked[-1]}

    def sleep(_seconds: float) -> None:
        states.update(next(steps))
        if states["1"] == "COMPLETED":
            stop.finish(RunDir(found[0].path), 1)  # type: ignore[arg-type]

    ended = sweep_slurm.follow(found, query, sleep)
    assert [one.state for one in ended] == [State.finished, State.failed, State.failed]
    assert "job 3: " in ended[1].reason
    assert "job 2: " not in ended[1].reason
    assert asked == [["1", "2", "3", "4"], ["1", "2", "3", "4"], ["1", "2", "3", "4"], ["4"]]


def test_a_job_that_slurm_puts_back_is_waited_for(tmp_path: Path) -> None:
    (one,) = submitted(tmp_path, ("1",))
    for state in ("REQUEUED", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "SUSPENDED", "NO_SUCH_STATE"):
        row = lookup(state)
        still = sweep_slurm.judge(one, [JobInfo("1", row)]) is one
        assert still == (row.returns or row.phase != "over"), state
    assert sweep_slurm.judge(one, [JobInfo("1", lookup("COMPLETED"))]).state is State.failed
    assert "before the end of the run" in sweep_slurm.judge(one, [JobInfo("1", lookup("COMPLETED"))]).reason


def test_the_last_table_names_every_run(tmp_path: Path) -> None:
    (one, two) = submitted(tmp_path, ("7", "8"), ("9",))
    shutil.rmtree(tmp_path / "none", ignore_errors=True)
    text = results([one, Result(two.point, State.failed, reason="no room")])
    assert f"submitted  {one.path}  7,8" in text
    assert "no room" in text
    assert "2 runs: 1 submitted, 1 failed" in text
    assert text.endswith("again: python launch.py +experiment=rods_tiny seed=1")
