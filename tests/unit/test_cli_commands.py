"""`rods` from another shell: it reads the run directory and answers at once."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from rods.cli import app, main
from rods.commands.common import UsageError, find_run
from rods.exchange import owner
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.metrics import MetricsWriter
from rods.exchange.rundir import NotARunDirError, RunDir
from rods.watch.progress import LineView
from rods.watch.render import duration, line
from rods.watch.state import eta_s, read_state

STEP = {
    "epoch": 2,
    "epochs_total": 5,
    "steps_total": 20,
    "reward_mean": 0.4375,
    "zones": {"hard": 3, "boundary": 7, "mastered": 2},
    "pool_active": 52,
    "pool_seeds": 48,
    "pool_variants": 4,
    "waiting": 1,
}


def make_run(tmp_path: Path) -> RunDir:
    """A run directory as it looks in the middle of a run."""
    run = RunDir.create(tmp_path / "runs", "watched", "0" * 64)
    folder = run.attempt_dir(run.next_attempt())
    (folder / "train.out").write_text("step 7 done\n")
    (folder / "train.err").write_text("a warning\n")
    writer = MetricsWriter(run.metrics / "train.jsonl")
    for step in range(5, 9):
        writer.write({**STEP, "step": step, "time": 1000.0 + 10 * step})
    writer.write({"event": "evaluation", "epoch": 1, "step": 4, "mode": "greedy", "mean": 0.5, "count": 48})
    MetricsWriter(run.metrics / "synthesis.jsonl").write(
        {"claimed": 9, "accepted": 6, "dropped": 2, "attempts": 11}
    )
    run.queue("seeds").put("s1", {"task": {}})
    Heartbeat(run.heartbeats, "train").beat("rollout")
    return run


def test_the_state_is_read_from_the_files(tmp_path: Path) -> None:
    state = read_state(make_run(tmp_path))
    assert (state.status, state.attempt) == ("running", 1)
    assert (state.epoch, state.step, state.steps_total, state.reward) == (2, 8, 20, 0.4375)
    assert state.zones == {"hard": 3, "boundary": 7, "mastered": 2}
    assert state.pool == {"active": 52, "seeds": 48, "variants": 4, "waiting": 1}
    assert state.queues["seeds"]["ready"] == 1
    assert state.synthesis == {"claimed": 9, "accepted": 6, "dropped": 2, "attempts": 11}
    assert state.eta_s == 12 * 10.0
    assert state.evaluations[0]["mean"] == 0.5
    assert state.roles["train"]["phase"] == "rollout"


def test_an_empty_run_has_a_state_too(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "empty", "0" * 64)
    state = read_state(run)
    assert state.status == "waiting"
    assert "no role has started" in line(state)


def test_the_pace_ignores_the_pause_of_a_restart() -> None:
    times = [(1, 10.0), (2, 20.0), (2, 5000.0), (3, 5010.0), (4, 5020.0)]
    assert eta_s([{"step": step, "time": time, "steps_total": 6} for step, time in times]) == 20.0


@pytest.mark.parametrize("steps", [[], [{"step": 1, "time": 1.0, "steps_total": 9}]])
def test_without_two_steps_there_is_no_eta(steps: list[dict[str, object]]) -> None:
    assert eta_s(steps) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (7.4, "7s"), (59.6, "1m00s"), (200, "3m20s"), (3720, "1h02m"), (90000, "25h00m")],
)
def test_durations_read_well(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_a_log_gets_one_line_in_its_time(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    console = Console(record=True, width=20, file=open(os.devnull, "w"))  # noqa: SIM115
    view = LineView(run, console, every_s=3600)
    view.tick()
    view.tick()
    lines = console.export_text().splitlines()
    assert len(lines) == 1
    for part in (
        "epoch 2/5",
        "step 8/20",
        "reward 0.438",
        "boundary 7",
        "6 accepted, 2 rejected",
        "eta 2m00s",
    ):
        assert part in lines[0]


def test_status_as_json_is_the_state(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    done = CliRunner().invoke(app, ["status", str(run.path), "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["step"] == 8


def test_status_shows_what_a_person_looks_for(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["status", str(make_run(tmp_path).path)])
    for part in (
        "8 of 20",
        "0.438",
        "hard 3 boundary 7 mastered 2",
        "52 (48 seeds, 4 variants), 1 waiting",
        "0.500",
    ):
        assert part in done.stdout


def beat_of_a_dead_process(run: RunDir, role: str) -> None:
    """A heartbeat whose writer has ended without saying so."""
    code = (
        "import sys; from pathlib import Path; from rods.exchange.heartbeat import Heartbeat; "
        "Heartbeat(Path(sys.argv[1]), sys.argv[2]).beat('following')"
    )
    subprocess.run([sys.executable, "-c", code, str(run.heartbeats), role], check=True)


def test_a_run_whose_processes_are_gone_has_stopped(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    beat_of_a_dead_process(run, "supervisor")
    assert read_state(run).status == "running", "the trainer still lives"
    beat_of_a_dead_process(run, "train")
    state = read_state(run)
    assert state.status == "stopped"
    assert state.sentence.startswith("supervisor gone")
    done = CliRunner().invoke(app, ["status", str(run.path), "--watch"])
    assert "supervisor gone" in done.stdout


def test_an_owner_that_starts_the_roles_keeps_the_run_running(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    beat_of_a_dead_process(run, "train")
    owner.take(run, 300)
    assert read_state(run).status == "running"
    owner.release(run)
    assert read_state(run).status == "stopped"


def test_a_job_between_two_starts_waits(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    beat_of_a_dead_process(run, "train")
    run.update_manifest(slurm_job="4711")
    state = read_state(run)
    assert (state.status, "squeue -j 4711" in state.sentence) == ("waiting", True)


def test_status_watch_ends_with_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    outcome = {"status": "failed", "exit_code": 1, "sentence": "the role train was killed by SIGKILL"}
    (run.attempt_dir(1) / "outcome.json").write_text(json.dumps(outcome))
    done = CliRunner().invoke(app, ["status", str(run.path), "--watch"])
    assert done.exit_code == 0
    assert "the role train was killed by SIGKILL" in done.stdout


def test_logs_are_those_of_the_newest_attempt(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    (run.attempt_dir(run.next_attempt()) / "train.out").write_text("second attempt\n")
    done = CliRunner().invoke(app, ["logs", str(run.path), "train"])
    assert done.stdout == "second attempt\n"


def test_output_and_error_output_are_both_shown(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["logs", str(make_run(tmp_path).path), "train"])
    assert done.stdout == "step 7 done\na warning\n"


def test_an_unknown_role_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["logs", str(make_run(tmp_path).path), "critic"])
    assert isinstance(done.exception, UsageError)
    assert "there are: train" in str(done.exception)


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["status", str(tmp_path)])
    assert isinstance(done.exception, NotARunDirError)


def test_latest_is_the_newest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="found none"):
        find_run("latest")
    runs = [RunDir.create(Path("runs"), "same", "0" * 64) for _ in range(3)]
    assert find_run("latest").resolve() == runs[-1].path
    assert find_run("runs/other") == Path("runs/other")


def rods(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    code = "import sys; from rods.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_a_refusal_is_a_message_with_status_2(tmp_path: Path) -> None:
    done = rods("status", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("rods: not a RODS run directory")
    assert "Traceback" not in done.stderr


def damage(run: RunDir, what: str) -> None:
    """Make one file of a run something else."""
    if what == "outcome":
        (run.attempt_dir(1) / "outcome.json").write_text("{}")
    elif what == "heartbeat":
        beat = {"role": ["train"], "phase": "rollout", "pid": 1, "host": "a", "info": {}}
        (run.heartbeats / "train.json").write_text(json.dumps(beat))
    elif what == "metrics":
        MetricsWriter(run.metrics / "train.jsonl").write({**STEP, "step": 9, "time": 1100.0, "zones": 3})
    elif what == "reward":
        MetricsWriter(run.metrics / "train.jsonl").write({**STEP, "step": 9, "time": 1.0, "reward_mean": "a"})
    else:
        shutil.rmtree(run.path / "queues")
        (run.path / "queues").write_text("no folder")


@pytest.mark.parametrize("what", ["outcome", "heartbeat", "metrics", "reward", "queues"])
def test_status_of_a_damaged_run_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    run = make_run(tmp_path)
    damage(run, what)
    monkeypatch.setattr(sys, "argv", ["rods", "status", str(run.path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("rods: ")
    assert str(run.path) in told


@pytest.mark.parametrize("content", ["", "a: [", "- a\n", "17"])
def test_report_of_a_run_with_a_damaged_configuration_is_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    run = make_run(tmp_path)
    run.config_file.write_text(content)
    monkeypatch.setattr(sys, "argv", ["rods", "report", str(run.path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("rods: ")


def test_a_name_longer_than_a_file_name_may_be_is_a_message(tmp_path: Path) -> None:
    done = rods("status", "x" * 300, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("rods: ")
    assert "Traceback" not in done.stderr


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    assert re.fullmatch(r"rods \d+\.\d+\.\d+\n", rods("--version", cwd=tmp_path).stdout)


def test_status_imports_nothing_heavy(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    code = (
        "import sys\nfrom typer.testing import CliRunner\nfrom rods.cli import app\n"
        f"assert CliRunner().invoke(app, ['status', {str(run.path)!r}]).exit_code == 0\n"
        "print([m for m in ('torch', 'transformers', 'hydra', 'matplotlib', 'submitit', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
