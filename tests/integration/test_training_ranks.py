"""A run whose trainer is two ranks: it ends as with one, and when either rank is lost nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rods.exchange.lineage import history
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import RunDir
from rods.roles.ranks import log_stem

ROOT = Path(__file__).parents[2]
SETTINGS = [
    "+experiment=rods_tiny",
    "rollout.engine=hf",
    "training.tasks_per_step=4",
    "training.group_size=4",
    "tasks.train_count=8",
    "tasks.heldout_count=2",
    "tracking.wandb=disabled",
]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def launch(runs: Path, ranks: int, *overrides: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "launch.py",
            *SETTINGS,
            f"training.ranks_per_node={ranks}",
            f"launch.runs_dir={runs}",
            *overrides,
        ],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def only(runs: Path) -> RunDir:
    (path,) = [path for path in runs.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return RunDir.open(path)


def finished(runs: Path, ranks: int, *overrides: str) -> RunDir:
    process = launch(runs, ranks, *overrides)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0, said[-3000:]
    return only(runs)


def processes(run: RunDir) -> dict[int, str]:
    """The living processes of the run's roles, by what they call themselves."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            title = (folder / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace")
        except OSError:
            continue
        if title.startswith("rods-") and title.endswith(f":{run.path.name}"):
            found[int(folder.name)] = title.partition(":")[0]
    return found


def lose(runs: Path, title: str) -> tuple[RunDir, str]:
    """Kill one process of a long run of two ranks after its first step; the run and its last words."""
    process = launch(runs, 2, "training.epochs=200")
    try:
        deadline = time.monotonic() + 200
        while not [*runs.glob("*/rollouts/step_000001.jsonl")] and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        run = only(runs)
        (victim,) = [pid for pid, name in processes(run).items() if name == title]
        os.kill(victim, signal.SIGKILL)
        said, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 1, said[-3000:]
    return run, said


def test_two_ranks_make_the_run_that_one_makes(tmp_path: Path) -> None:
    two, one = (finished(tmp_path / str(ranks), ranks, "training.epochs=2") for ranks in (2, 1))
    # Sums over ranks round otherwise than sums over one batch: equal here, as no draw lies that near to a border.
    assert history(two.journal_dir, "train") == history(one.journal_dir, "train")
    assert history(two.journal_dir, "train")[-1]["name"] == "run_finished"
    told = [[set(line) for line in read_metrics(run.metrics / "train.jsonl")] for run in (one, two)]
    assert told[0] == told[1]
    assert [len([*run.checkpoints.glob("*/rng_rank1.pt")]) > 0 for run in (one, two)] == [False, True]
    assert [log_stem(run.attempt_dir(1), 1).with_suffix(".err").exists() for run in (one, two)] == [
        False,
        True,
    ]
    assert not processes(two)


def test_a_lost_rank_ends_the_run_with_its_name(tmp_path: Path) -> None:
    run, said = lose(tmp_path, "rods-train-rank")
    assert "rank 1 of 2 ended by SIGKILL before the run did" in said
    assert "Traceback" not in said
    assert not processes(run)


def test_a_lost_rank_0_takes_the_others_along(tmp_path: Path) -> None:
    run, _ = lose(tmp_path, "rods-train")
    assert not processes(run)


def test_a_stop_in_the_middle_of_a_step_is_continued_by_both_ranks(tmp_path: Path) -> None:
    at_once = "launch.stop_deadline_s=0"  # what is under way is left, by both
    process = launch(tmp_path, 2, "training.epochs=3", at_once)
    deadline = time.monotonic() + 200
    while not [*tmp_path.glob("*/rollouts/step_000001.jsonl")]:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    run = only(tmp_path)
    assert not processes(run)
    assert [*run.checkpoints.glob("*/COMPLETE")]
    again = launch(tmp_path, 2, "training.epochs=3", at_once, f"launch.resume={run.path}")
    said, _ = again.communicate(timeout=300)
    assert again.returncode == 0, said[-3000:]
    assert history(run.journal_dir, "train")[-1]["name"] == "run_finished"
