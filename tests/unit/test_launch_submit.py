"""What is handed to sbatch, in which order, behind which jobs; and what stays when it refuses in the middle.

The real executor against stand-ins for Slurm's commands, which note how they were called.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from launchers import jobs, slurm
from launchers.errors import LaunchError
from launchers.resources import SYNTHESIS, TRAIN
from rods.config import ClusterConfig, Config, ContainerConfig, JobConfig, LaunchConfig
from rods.exchange.rundir import RunDir

HET = Config(
    cluster=ClusterConfig(
        kind="slurm", train=JobConfig(gpus_per_node=8), synthesis=JobConfig(gpus_per_node=4)
    )
)
PAIR = replace(HET, cluster=replace(HET.cluster, coschedule="pair"))


class Slurm:
    """Stand-ins in a folder at the front of PATH.

    Attributes:
        refuse_from: sbatch refuses from this call on.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.write("srun", "exit 1")
        self.write("scancel", f'echo "$@" >>{folder}/cancelled')
        self.accept()

    def write(self, name: str, body: str) -> None:
        (self.folder / name).write_text(f"#!/bin/bash\n{body}\n")
        (self.folder / name).chmod(0o755)

    def accept(self, calls: int = 1000) -> None:
        """sbatch gives jobs the numbers from 101, and refuses after so many."""
        self.write(
            "sbatch",
            f'echo "$@" >>{self.folder}/calls; env >{self.folder}/env; n=$(wc -l <{self.folder}/calls)\n'
            f'if [ "$n" -gt {calls} ]; then echo "sbatch: error: invalid partition specified: gpu" >&2; exit 1; fi\n'
            'echo "Submitted batch job $((100 + n))"',
        )

    def said(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def options(self) -> list[str]:
        """Each call's dependency, "" for none."""
        return [
            next((word.partition("=")[2] for word in call.split() if word.startswith("--dependency=")), "")
            for call in self.said("calls")
        ]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    found = Slurm(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{found.folder}:{os.environ['PATH']}")
    return found


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = RunDir.create(tmp_path / "runs of 'golden'", "x", "0" * 64)
    assert made.next_attempt() == 1
    return made


def test_a_heterogeneous_job_is_submitted_from_its_file_in_the_run_directory(
    cluster: Slurm, run: RunDir
) -> None:
    (job,) = slurm.submit(HET, run, 1)
    file = run.attempt_dir(1) / "het.sbatch"
    assert cluster.said("calls") == [str(file)]
    assert "#SBATCH hetjob" in file.read_text()
    assert (job.job_id, job.roles, job.coschedule) == ("101", (TRAIN, SYNTHESIS), "het")
    assert (job.attempt, job.gpus, job.replica) == (1, {TRAIN: 8, SYNTHESIS: 4}, None)
    assert jobs.read(run) == [job]


def test_of_a_pair_the_synthesis_starts_after_the_trainer(cluster: Slurm, run: RunDir) -> None:
    train, synthesis = slurm.submit(PAIR, run, 1)
    assert cluster.options() == ["", "after:101"]
    assert (train.roles, train.replica) == ((TRAIN,), None)
    assert (synthesis.roles, synthesis.replica, synthesis.gpus) == ((SYNTHESIS,), 0, {SYNTHESIS: 4})
    assert jobs.read(run) == [train, synthesis]


def test_a_chains_links_wait_each_for_its_like(cluster: Slurm, run: RunDir) -> None:
    slurm.submit(replace(HET, launch=LaunchConfig(chain=3)), run, 1)
    assert cluster.options() == ["", "afterany:101", "afterany:102"]
    assert "RODS_REQUEUE=0" in (run.attempt_dir(1) / "het.sbatch").read_text()


def test_a_chain_of_pairs(cluster: Slurm, run: RunDir) -> None:
    slurm.submit(replace(PAIR, launch=LaunchConfig(chain=2)), run, 1)
    assert cluster.options() == ["", "after:101", "afterany:101", "afterany:102,after:103"]


def test_a_run_waits_for_the_runs_before_it(cluster: Slurm, run: RunDir) -> None:
    slurm.submit(replace(PAIR, launch=LaunchConfig(chain=2)), run, 1, after=("7", "8"))
    assert cluster.options()[:3] == ["afterany:7,afterany:8", "after:101", "afterany:101"]


def test_what_was_submitted_before_a_refusal_is_cancelled(cluster: Slurm, run: RunDir) -> None:
    cluster.accept(calls=1)
    with pytest.raises(LaunchError, match=r"invalid partition specified: gpu; cancelled, .* 101"):
        slurm.submit(PAIR, run, 1)
    assert cluster.said("cancelled") == ["101"]
    assert jobs.read(run) == []


def test_jobs_that_cannot_be_listed_are_cancelled(cluster: Slurm, run: RunDir) -> None:
    jobs.file_of(run).mkdir()
    with pytest.raises(LaunchError, match=r"jobs\.jsonl.*; cancelled, .* 101, 102"):
        slurm.submit(PAIR, run, 1)
    assert cluster.said("cancelled") == ["101 102"]


def test_what_was_submitted_before_an_interrupt_is_cancelled_and_told(
    cluster: Slurm, run: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.accept(calls=1)
    # The second call of sbatch is where the person at the terminal loses patience.
    accepting = (cluster.folder / "sbatch").read_text()
    cluster.write("sbatch", accepting.replace("exit 1", "kill -INT $(ps -o ppid= $PPID); sleep 60"))
    with pytest.raises(KeyboardInterrupt):
        slurm.submit(PAIR, run, 1)
    assert cluster.said("cancelled") == ["101"]
    assert "interrupted; cancelled, since they belong together: 101" in capsys.readouterr().err
    assert jobs.read(run) == []


def test_what_cannot_be_cancelled_is_told(cluster: Slurm, run: RunDir) -> None:
    cluster.accept(calls=1)
    cluster.write("scancel", "exit 1")
    with pytest.raises(LaunchError, match="do it by hand: scancel 101"):
        slurm.submit(PAIR, run, 1)


def test_a_first_refusal_is_shown_and_cancels_nothing(cluster: Slurm, run: RunDir) -> None:
    cluster.accept(calls=0)
    with pytest.raises(LaunchError, match="invalid partition specified: gpu"):
        slurm.submit(HET, run, 1)
    assert cluster.said("cancelled") == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("echo nonsense", "Could not make sense"),
        ("exit 1", "no answer within"),
        ("sleep 60", "no answer within"),
    ],
)
def test_an_answer_that_is_none_is_a_refusal(
    cluster: Slurm, run: RunDir, body: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "_SBATCH_TIMEOUT_S", 1)
    cluster.write("sbatch", body)
    with pytest.raises(LaunchError, match=words):
        slurm.submit(HET, run, 1)


@pytest.mark.parametrize("name", ["a\nb", "a\rb", "a\x1bb"])
def test_a_path_that_would_break_its_line_is_refused(cluster: Slurm, tmp_path: Path, name: str) -> None:
    run = RunDir.create(tmp_path / name, "x", "0" * 64)
    with pytest.raises(LaunchError, match="control character"):
        slurm.submit(HET, run, run.next_attempt())
    assert cluster.said("calls") == []


@pytest.mark.parametrize("name", ["a:b", "a,b"])
def test_a_path_that_a_container_cannot_mount_is_refused(cluster: Slurm, tmp_path: Path, name: str) -> None:
    run = RunDir.create(tmp_path / name, "x", "0" * 64)
    inside = replace(HET, cluster=replace(HET.cluster, container=ContainerConfig("pyxis", "x")))
    with pytest.raises(LaunchError, match="separate mounts"):
        slurm.submit(inside, run, run.next_attempt())
    assert cluster.said("calls") == []
    slurm.submit(HET, run, 1)


def test_what_an_enclosing_job_left_does_not_reach_sbatch(
    cluster: Slurm, run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SBATCH_PARTITION", "SLURM_JOB_ID", "PMIX_RANK"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setenv("SLURM_CONF", "/site/slurm.conf")
    slurm.submit(HET, run, 1)
    seen = {line.split("=")[0] for line in cluster.said("env")}
    assert not seen & {"SBATCH_PARTITION", "SLURM_JOB_ID", "PMIX_RANK"}
    assert "SLURM_CONF" in seen
    assert os.environ["SLURM_JOB_ID"] == "7"


def test_a_plan_shows_each_jobs_text_under_its_command(tmp_path: Path) -> None:
    chained = replace(PAIR, launch=LaunchConfig(chain=2))
    text = slurm.describe(chained, tmp_path, 1)
    assert "# sbatch attempts/0001/train.sbatch\n#!/bin/bash" in text
    assert "# sbatch --dependency=after:TRAINER attempts/0001/synthesis.sbatch\n#!/bin/bash" in text
    assert "launch.chain=2" in text
    assert not list(tmp_path.iterdir())
