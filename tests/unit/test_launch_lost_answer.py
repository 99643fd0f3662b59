"""A submission that is killed between Slurm's answer and the run's list: its jobs are found by the run's name."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from watch_examples import submitted

from launchers import lost_answer, snapshot, started
from launchers.scheduler import Answer
from rods.config import Config, from_mapping
from rods.exchange.rundir import RunDir

ASKED: list[Sequence[str]] = []


def run_of(folder: Path, **cluster: object) -> RunDir:
    """A run on Slurm with both roles, in its second attempt."""
    config: Config = from_mapping({"cluster": {"kind": "slurm", "train": {"gpus_per_node": 8}, **cluster}})
    run = RunDir.create(folder, "lost", "0" * 64)
    snapshot.freeze_config(run, config)
    run.next_attempt()
    run.next_attempt()
    return run


def says(text: str, trouble: str = "") -> Callable[[Sequence[str]], Answer]:
    def ask(command: Sequence[str]) -> Answer:
        ASKED.append(command)
        return Answer(text, trouble)

    return ask


@pytest.fixture(autouse=True)
def nothing_asked() -> None:
    ASKED.clear()


def killed(run: RunDir) -> None:
    """As a submission that was killed in its middle leaves the run."""
    code = (
        "import os, signal, sys; from pathlib import Path; from launchers.lost_answer import marked; "
        "from rods.exchange.rundir import RunDir\n"
        "with marked(RunDir.open(Path(sys.argv[1]))): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(run.path)], check=False).returncode == -9


def test_the_jobs_of_a_killed_submission_are_found_by_the_runs_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(tmp_path)
    submitted(run, "3", "train", "synthesis")
    killed(run)
    name = run.path.name
    queue = f"12+0|{name}\n12+1|{name}\n3+0|{name}\n4|{name}x\n5|other\n13|{name}\nnonsense\n"
    squeue = tmp_path / "bin" / "squeue"
    squeue.parent.mkdir()
    squeue.write_text(f"#!/bin/sh\ncat <<END\n{queue}END\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(squeue.parent), prepend=os.pathsep)
    found = started.of_run(run)
    assert [job.job_id for job in found] == ["3", "12", "13"]
    assert (found[1].roles, found[1].coschedule, found[1].attempt) == (("train", "synthesis"), "het", 2)
    assert found[1].gpus == {"train": 8, "synthesis": 0}


def test_the_two_jobs_of_a_pair_and_a_further_daemon_are_told_apart(tmp_path: Path) -> None:
    run = run_of(tmp_path, coschedule="pair")
    killed(run)
    name = run.path.name
    queue = f"7|{name}\n8|{name}.synthesis\n9|{name}.synthesis-3\n10|{name}.synthesis-x\n11|{name}.train\n"
    found = [(job.job_id, job.roles, job.replica) for job in lost_answer.of_run(run, says(queue))]
    assert found == [("7", ("train",), None), ("8", ("synthesis",), 0), ("9", ("synthesis",), 3)]


def test_slurm_is_not_asked_where_nothing_can_be_lost(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    with lost_answer.marked(run):
        pass
    assert lost_answer.of_run(run, says(f"7|{run.path.name}\n")) == []
    assert ASKED == []


def test_a_submission_that_failed_leaves_no_mark(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    with pytest.raises(ValueError, match="refused"), lost_answer.marked(run):
        raise ValueError("refused")
    assert lost_answer.of_run(run, says(f"7|{run.path.name}\n")) == []


def test_without_an_answer_nothing_is_found(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    killed(run)
    assert lost_answer.of_run(run, says("", "no squeue on this machine")) == []
    assert len(ASKED) == 1
