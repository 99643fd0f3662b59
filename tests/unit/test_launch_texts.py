"""What a batch text does when bash runs it: attempts, roles, logs, containers; and what hostile values become."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from launch_stubs import write_srun

from launchers.batches import Batch, batches, daemons
from launchers.resources import SYNTHESIS, Resources
from launchers.texts import batch_text
from rods.config import (
    ClusterConfig,
    Config,
    ContainerConfig,
    JobConfig,
    LaunchConfig,
    SynthesisConfig,
)
from rods.exchange import stop
from rods.exchange.rundir import RunDir

RUN = Path("/lustre/runs/golden-0a1b2c3d-x1y2z3")
CLUSTER = ClusterConfig(
    kind="slurm", train=JobConfig(gpus_per_node=8), synthesis=JobConfig(nodes=2, gpus_per_node=4)
)
PAIR = Config(cluster=replace(CLUSTER, coschedule="pair"))
CHAIN = replace(PAIR, launch=LaunchConfig(chain=2))
# What stands in for the roles' interpreter: says what it was given, and where.
SAYS = '#!/bin/bash\nprintenv RODS_ROLE RODS_REPLICA RODS_ATTEMPT PYTHONPATH RODS_RUN_DIR; echo "$@"\n'


class Cluster:
    """A folder with a stand-in for srun, and a run directory with a hostile name."""

    def __init__(self, tmp_path: Path, name: str = "run of 'golden' $HOME 100%j") -> None:
        self.bin, self.run = tmp_path / "bin", RunDir(tmp_path / name)
        self.bin.mkdir()
        write_srun(self.bin)
        self.python = self.bin / "says"
        self.python.write_text(SAYS)
        self.python.chmod(0o755)

    def text(self, batch: Batch, config: Config, attempt: int = 1) -> str:
        container = ContainerConfig(kind="pyxis", image="x", python=str(self.python))
        config = replace(config, cluster=replace(config.cluster, container=container))
        return batch_text(batch, config, self.run.path, attempt)

    def start(self, text: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{self.bin}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", **variables}
        return subprocess.run(
            ["bash"], input=text, text=True, capture_output=True, check=False, env=environment
        )

    def said(self, log: str) -> list[str]:
        return (self.run.path / "attempts" / log).read_text().splitlines()


def test_each_task_learns_its_role_and_number_and_logs_under_them(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    (batch,) = batches(Config(cluster=CLUSTER))
    done = cluster.start(cluster.text(batch, Config(cluster=CLUSTER)))
    assert (done.returncode, done.stderr) == (0, "")
    run = str(cluster.run.path)
    entry = f"-u -m rods.roles.entry {run}"
    assert cluster.said("0001/train.out") == ["train", "0", "1", f"{run}/code", run, entry]
    assert cluster.said("0001/synthesis.out")[:3] == ["synthesis", "0", "1"]
    assert cluster.said("0001/synthesis-1.out")[:3] == ["synthesis", "1", "1"]
    assert cluster.said("0001/start") == ["7.0"]


def test_a_disk_that_takes_files_but_no_text_ends_the_start_and_leaves_the_number_free(
    tmp_path: Path,
) -> None:
    cluster = Cluster(tmp_path)
    (batch,) = batches(Config(cluster=CLUSTER))
    (cluster.run.path / "attempts" / "0001").mkdir(parents=True)
    text = cluster.text(batch, Config(cluster=CLUSTER))
    # The text comes through a pipe; from here on no file may grow.
    full = cluster.start(f"trap '' XFSZ; ulimit -f 0; ulimit -t 5\n{text}")
    assert (full.returncode, full.stdout) == (1, "")
    assert f"cannot write {cluster.run.path}/attempts/0001" in full.stderr
    assert [str(path.relative_to(cluster.run.path)) for path in cluster.run.path.rglob("*")] == [
        "attempts",
        "attempts/0001",
    ]
    assert cluster.start(text).returncode == 0
    assert cluster.said("0001/start") == ["7.0"]


def test_in_one_job_the_first_node_trains(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    config = Config(cluster=replace(CLUSTER, coschedule="single", synthesis=JobConfig(gpus_per_node=8)))
    (batch,) = batches(config)
    assert "hetjob" not in cluster.text(batch, config)
    assert cluster.start(cluster.text(batch, config)).returncode == 0
    assert cluster.said("0001/train.out")[:2] == ["train", "0"]
    assert cluster.said("0001/synthesis.out")[:2] == ["synthesis", "0"]


@pytest.mark.parametrize("coschedule", ["het", "single"])
def test_a_trainer_of_two_nodes_has_the_first_two(tmp_path: Path, coschedule: str) -> None:
    cluster = Cluster(tmp_path)
    nodes = replace(CLUSTER, coschedule=coschedule, train=JobConfig(nodes=2), synthesis=JobConfig())
    config = Config(cluster=nodes)
    (batch,) = batches(config)
    done = cluster.start(cluster.text(batch, config))
    assert (done.returncode, done.stderr) == (0, "")
    assert cluster.said("0001/train.out")[:3] == ["train", "0", "1"]
    assert cluster.said("0001/train-1.out")[:3] == ["train", "1", "1"]
    assert cluster.said("0001/synthesis.out")[:3] == ["synthesis", "0", "1"]
    assert not [*cluster.run.attempts.glob("*/synthesis-1.out")]


def test_a_daemon_in_a_job_of_its_own_counts_its_starts_apart(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    batch = daemons(Resources(SYNTHESIS, 1, 0, 1, 0), 3)
    for restart in ("0", "1"):
        assert cluster.start(cluster.text(batch, PAIR), SLURM_RESTART_COUNT=restart).returncode == 0
    assert cluster.said("synthesis-3/0002/synthesis-3.out")[:3] == ["synthesis", "3", "2"]
    assert cluster.said("synthesis-3/0002/start") == ["7.1"]
    assert not (cluster.run.path / "attempts" / "0001").exists()
    assert cluster.run.last_attempt() == 0


def test_every_start_is_a_new_attempt_whoever_starts_it(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    train, _ = batches(PAIR)
    text = cluster.text(train, PAIR, attempt=3)
    (cluster.run.path / "attempts" / "0002").mkdir(parents=True)
    cluster.run.next_attempt()  # as the submission does, to have a place for the batch file
    for job, restart in (("7", "0"), ("7", "1"), ("9", "0")):
        assert cluster.start(text, SLURM_JOB_ID=job, SLURM_RESTART_COUNT=restart).returncode == 0
    starts = [cluster.said(f"{number:04d}/start") for number in (3, 4, 5)]
    assert starts == [["7.0"], ["7.1"], ["9.0"]]
    assert cluster.run.last_attempt() == 5


def test_a_run_that_has_finished_starts_nothing(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.run.path.mkdir()
    stop.finish(cluster.run, 1)
    for batch in batches(PAIR):
        done = cluster.start(cluster.text(batch, PAIR))
        assert (done.returncode, done.stdout) == (0, "the run has finished\n")
    assert not (cluster.run.path / "attempts").exists()


def test_a_run_directory_that_cannot_be_written_ends_the_job(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.run.path.mkdir()
    (cluster.run.path / "attempts").touch()
    train, _ = batches(PAIR)
    done = cluster.start(cluster.text(train, PAIR))
    assert done.returncode == 1
    assert "cannot write" in done.stderr


def test_a_failing_role_fails_the_job(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.python.write_text("#!/bin/bash\nexit 7\n")
    train, _ = batches(PAIR)
    assert cluster.start(cluster.text(train, PAIR)).returncode == 7


@pytest.mark.parametrize(("failures", "status", "pauses"), [(1, 0, "20"), (2, 0, "20 60"), (9, 1, "20 60 0")])
def test_a_step_that_could_not_be_created_is_tried_again_a_few_times(
    tmp_path: Path, failures: int, status: int, pauses: str
) -> None:
    cluster = Cluster(tmp_path)
    for name, body in {
        "sleep": f"echo $1 >>{cluster.bin}/pauses",
        "srun": f'echo x >>{cluster.bin}/tries; [ "$(wc -l <{cluster.bin}/tries)" -gt {failures} ]',
    }.items():
        (cluster.bin / name).write_text(f"#!/bin/bash\n{body}\n")
        (cluster.bin / name).chmod(0o755)
    train, _ = batches(PAIR)
    assert cluster.start(cluster.text(train, PAIR)).returncode == status
    assert (cluster.bin / "pauses").read_text().split() == pauses.split()


def test_a_role_that_began_is_not_begun_twice(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.python.write_text("#!/bin/bash\necho begun; exit 7\n")
    for batch in (*batches(PAIR), daemons(Resources(SYNTHESIS, 1, 0, 1, 0), 3)):
        assert cluster.start(cluster.text(batch, PAIR)).returncode == 7
    logs = ("0001/train.out", "synthesis/0001/synthesis.out", "synthesis-3/0001/synthesis-3.out")
    assert [cluster.said(log) for log in logs] == [["begun"]] * 3


def scontrol(cluster: Cluster) -> Path:
    """A stand-in for scontrol; the file in which it notes its calls."""
    calls = cluster.bin / "calls"
    (cluster.bin / "scontrol").write_text(f'#!/bin/bash\necho "$@" >>{calls}\n')
    (cluster.bin / "scontrol").chmod(0o755)
    return calls


def test_a_role_that_cannot_reach_slurm_has_its_job_put_back_by_the_batch_script(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    calls = scontrol(cluster)
    train, _ = batches(PAIR)
    assert cluster.start(cluster.text(train, PAIR)).returncode == 0
    assert not calls.exists()
    cluster.python.write_text('#!/bin/bash\ntouch "$RODS_LOGS/requeue"\n')
    assert cluster.start(cluster.text(train, PAIR)).returncode == 0
    assert calls.read_text() == "requeue 7\n"


@pytest.mark.parametrize(
    ("body", "status", "again", "put_back"),
    [
        ("exit", 137, True, True),
        ("exit", 137, False, False),
        ("exit", 0, True, False),
        ('touch "$RODS_LOGS/outcome.json"; exit', 1, True, False),
    ],
)
def test_a_daemon_that_was_killed_without_a_word_is_put_back(
    tmp_path: Path, body: str, status: int, again: bool, put_back: bool
) -> None:
    cluster = Cluster(tmp_path)
    calls = scontrol(cluster)
    cluster.python.write_text(f"#!/bin/bash\n{body} {status}\n")
    _, synthesis = batches(PAIR)
    done = cluster.start(cluster.text(synthesis, PAIR if again else CHAIN))
    assert done.returncode == status
    assert calls.exists() is put_back


def test_an_apptainer_image_is_entered_with_the_run_directory(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, "run of golden")
    inside = cluster.bin / "apptainer"
    inside.write_text('#!/bin/bash\nprintf "%s\\n" "$@" >"$RODS_RUN_DIR/seen"; shift 7; exec "$@"\n')
    inside.chmod(0o755)
    container = ContainerConfig(
        kind="apptainer", image="/lustre/my image.sif", mounts=("/data:/in",), python=str(cluster.python)
    )
    config = replace(PAIR, cluster=replace(PAIR.cluster, container=container))
    text = batch_text(batches(config)[0], config, cluster.run.path, 1)
    assert cluster.start(text).returncode == 0
    run = str(cluster.run.path)
    seen = (cluster.run.path / "seen").read_text().splitlines()
    assert seen[:7] == ["exec", "--nv", "--bind", run, "--bind", "/data:/in", "/lustre/my image.sif"]
    assert cluster.said("0001/train.out")[:2] == ["train", "0"]


def test_what_an_enclosing_job_left_does_not_reach_the_tasks(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.python.write_text("#!/bin/bash\nenv\n")
    train, _ = batches(PAIR)
    left = {"SBATCH_PARTITION": "x", "SRUN_CPUS_PER_TASK": "1", "PMIX_RANK": "3", "PMI_SIZE": "2"}
    cluster.start(cluster.text(train, PAIR), KEEP="1", **left)
    found = {line.split("=")[0] for line in cluster.said("0001/train.out")}
    assert not found & set(left)
    assert {"KEEP", "SLURM_JOB_ID"} <= found


def test_the_setup_comes_before_the_roles(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.python.write_text('#!/bin/bash\necho "$FROM_SETUP"\n')
    config = replace(PAIR, cluster=replace(PAIR.cluster, setup=("export FROM_SETUP='a  b'",)))
    cluster.start(cluster.text(batches(config)[0], config))
    assert cluster.said("0001/train.out") == ["a  b"]


@pytest.mark.parametrize("text", ["a b", "it's", '"', "$(touch /tmp/rods-owned)", "`id`", "a;b", "#", "ä"])
def test_a_hostile_text_stays_one_value_of_its_option(text: str) -> None:
    cluster = replace(CLUSTER, partition=text, account=text, gpu_type=text, extra={"comment": text})
    config = Config(cluster=replace(cluster, coschedule="pair"))
    found = batch_text(batches(config)[0], config, RUN, 1)
    headers = [line for line in found.splitlines() if line.startswith("#SBATCH")]
    # sbatch splits its lines as a shell does.
    told = subprocess.run(
        ["bash", "-c", "".join(f"printf '%s\\n' {line.removeprefix('#SBATCH')}\n" for line in headers)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert {f"--{name}={text}" for name in ("partition", "account", "comment")} <= set(told)
    assert f"--gpus-per-node={text}:8" in told
    assert len(told) == len(headers)
    assert not Path("/tmp/rods-owned").exists()


def test_an_option_without_a_value_and_percent_signs_in_paths() -> None:
    config = Config(cluster=replace(CLUSTER, extra={"exclusive": "", "constraint": "ib"}))
    text = batch_text(batches(config)[0], config, Path("/runs/100%j"), 1)
    assert "#SBATCH --exclusive\n" in text
    assert "#SBATCH --constraint=ib\n" in text
    assert "--output=/runs/100%%j/attempts/0001/slurm-%j.out" in text


def test_a_static_pool_is_one_plain_job_in_every_kind() -> None:
    for kind in ("het", "single", "pair"):
        config = Config(cluster=replace(CLUSTER, coschedule=kind), synthesis=SynthesisConfig(enabled=False))
        (batch,) = batches(config)
        text = batch_text(batch, config, RUN, 1)
        assert "het" not in text
        assert "synthesis" not in text


def test_a_chains_links_do_not_put_themselves_back() -> None:
    train, _ = batches(PAIR)
    assert "RODS_REQUEUE=0" in batch_text(train, CHAIN, RUN, 1)
    assert "RODS_REQUEUE=1" in batch_text(train, PAIR, RUN, 1)


def test_a_site_without_requeueing_is_not_asked_for_it() -> None:
    config = replace(PAIR, cluster=replace(PAIR.cluster, extra={"no-requeue": ""}))
    text = batch_text(batches(config)[0], config, RUN, 1)
    assert "RODS_REQUEUE=0" in text
    assert "#SBATCH --no-requeue\n" in text
    assert "#SBATCH --requeue\n" not in text


def test_the_run_directory_is_mounted_in_every_container() -> None:
    for kind in ("apptainer", "pyxis"):
        container = ContainerConfig(kind=kind, image="x", mounts=("/data",))
        config = Config(cluster=replace(CLUSTER, container=container))
        text = batch_text(batches(config)[0], config, RUN, 1)
        assert text.count(str(RUN)) >= 4
        assert "/data" in text
        assert sys.executable not in text
