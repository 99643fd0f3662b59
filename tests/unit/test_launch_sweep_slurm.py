"""A multirun on Slurm through launch.py with a stand-in for sbatch, and how its jobs are followed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from sweep_examples import command, launched, points, runs_of, source_tree

from launchers.scheduler import JobInfo
from launchers.states import lookup
from launchers.sweep import Point
from launchers.sweep_table import Result, State, results
from rods.exchange import stop
from rods.exchange.rundir import RunDir
from rods.roles import sweep_slurm


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
    assert "QOSMaxSubmitJobPerUserLimit" not in done.stderr  # sbatch's own lines are not shown beside it
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r" +\d  submitted", line)]
    assert [(row[0], row[3]) for row in rows] == [("1", "101"), ("2", "102"), ("4", "104"), ("5", "105")]
    assert sorted(str(run) for run in runs_of(launch)) == sorted(row[2] for row in rows)
    (again,) = re.findall("again: (.*)", done.stdout)
    assert re.match(r"\S*python\S* \S*launch\.py \+experiment=rods_tiny", again)
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


def test_a_reason_that_several_runs_share_is_told_once(tmp_path: Path) -> None:
    (one, two, three) = submitted(tmp_path, ("7",), ("8",), ("9",))
    found = [Result(run.point, State.failed, reason="no controller") for run in (one, two)]
    text = results([*found, three])
    assert text.count("no controller") == 1
    assert text.count("as run 1") == 1


def test_the_last_table_names_every_run(tmp_path: Path) -> None:
    (one, two) = submitted(tmp_path, ("7", "8"), ("9",))
    text = results([one, Result(two.point, State.failed, reason="no room")])
    assert f"submitted  {one.path}  7,8" in text
    assert "no room" in text
    assert "2 runs: 1 submitted, 1 failed" in text
    assert re.search(r"again: \S*python\S* \S*launch\.py \+experiment=rods_tiny seed=1$", text)
