"""`rods doctor --cluster` against what a real controller (22.05.8) printed, changed where a site would differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from launchers.scheduler import Answer
from rods.cli import app
from rods.commands.common import UsageError
from rods.config import ConfigError
from rods.config.compose import compose
from rods.doctor import files, node, on_node
from rods.doctor.cluster import examine, parse_partitions
from rods.doctor.finding import Finding, Level

SETTINGS = """\
AccountingStorageType   = accounting_storage/slurmdbd
AcctGatherEnergyType    = acct_gather_energy/none
JobRequeue              = 1
KillWait                = 30 sec
MinJobAge               = 300 sec
PreemptMode             = REQUEUE
PreemptType             = preempt/partition_prio
RequeueExitHold         = (null)
SlurmctldParameters     = preempt_send_user_signal
"""
PARTITIONS = """\
main*|up|infinite|4|gpu:8
low|up|1-00:00:00|4|gpu:a100:8(S:0-1)
cpu|down|30:00|9|(null)
"""
MAIN = "PartitionName=main AllowGroups=ALL Default=YES GraceTime=0 PreemptMode=OFF State=UP TRES=cpu=64,gres/gpu=32"
ANSWERS = {
    "sinfo --version": "slurm-wlm 22.05.8",
    "scontrol ping": "Slurmctld(primary) at vm is UP",
    "scontrol show config": SETTINGS,
    "scontrol show partition": MAIN,
    "sinfo --all": PARTITIONS,
    "sacctmgr": "root\nlab\n",
}


def site(changes: dict[str, str | None] | None = None) -> dict[str, Finding]:
    """The findings of a site whose answers differ by `changes`, None for a command that fails."""
    answers: dict[str, str | None] = {**ANSWERS, **(changes or {})}

    def ask(command: Sequence[str]) -> Answer:
        words = " ".join(command)
        key = max((key for key in answers if words.startswith(key)), key=len)
        text = answers[key]
        return Answer("", f"{command[0]} failed") if text is None else Answer(text)

    return {finding.probe: finding for finding in examine(CONFIG, ask)}


CONFIG = compose(["+experiment=rods_tiny", "cluster=slurm_test"])


def with_cluster(monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
    """Change CONFIG.cluster for one test."""
    changed = replace(CONFIG, cluster=replace(CONFIG.cluster, **changes))  # type: ignore[arg-type]
    monkeypatch.setattr(sys.modules[__name__], "CONFIG", changed)


def test_a_fit_site_is_fit() -> None:
    found = site()
    assert all(finding.level is Level.ok for finding in found.values() if finding.probe != "energy")
    assert found["partition"].measured == "main: no limit; there are: main, low, cpu"
    assert found["nodes for train"].measured == "wanted 1 × 8 GPUs; main has 4 × 8"


def test_without_slurm_or_its_controller_nothing_else_is_asked() -> None:
    assert [finding.level for finding in site({"sinfo --version": None}).values()] == [Level.unfit]
    assert site({"sinfo --version": "slurm 25.11.1"})["Slurm"].level is Level.note
    down = site({"scontrol ping": "Slurmctld(primary) at vm is DOWN"})
    assert (list(down), down["controller"].level) == (["Slurm", "controller"], Level.unfit)


@pytest.mark.parametrize(
    ("settings", "probe", "level"),
    [
        ({"partition": "nowhere"}, "partition", Level.unfit),
        ({"partition": "low", "time_hours": 72.0}, "partition", Level.unfit),
        ({"partition": "low", "time_hours": 24.0}, "partition", Level.ok),
        ({"partition": "cpu"}, "partition", Level.warning),
        ({"partition": "cpu"}, "nodes for train", Level.unfit),
        ({"gpu_type": "a100"}, "nodes for train", Level.unfit),
        ({"gpu_type": "a100", "partition": "low"}, "nodes for train", Level.ok),
        ({"account": "stranger"}, "account", Level.unfit),
        ({"account": "lab"}, "account", Level.ok),
    ],
)
def test_what_the_profile_asks_for_must_be_there(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, object], probe: str, level: Level
) -> None:
    with_cluster(monkeypatch, **settings)
    assert site()[probe].level is level


@pytest.mark.parametrize(
    ("partition", "level", "meaning"),
    [
        ("PreemptMode=OFF GraceTime=0", Level.ok, "not preempted"),
        ("PreemptMode=REQUEUE GraceTime=0", Level.note, "last checkpoint"),
        ("PreemptMode=REQUEUE GraceTime=120", Level.ok, "saves its state first"),
        ("PreemptMode=CANCEL GraceTime=0", Level.warning, "rods resume"),
    ],
)
def test_what_a_preemption_means_is_said(partition: str, level: Level, meaning: str) -> None:
    found = site({"scontrol show partition": partition})["preemption"]
    assert (found.level, meaning in found.meaning) == (level, True)


def test_a_site_without_accounting_and_with_a_quick_kill_is_warned_of() -> None:
    settings = SETTINGS.replace("accounting_storage/slurmdbd", "accounting_storage/none").replace(
        "30 sec", "5 sec"
    )
    found = site({"scontrol show config": settings, "sacctmgr": None})
    assert found["accounting"].level is Level.warning
    assert "300 sec" in found["accounting"].meaning
    assert (found["signals"].level, found["account"].level) == (Level.note, Level.note)


def test_time_limits_and_gpus_are_read() -> None:
    text = "a|up|2:00:00|1|gpu:4\nb|up|90|1|gpu:h100:2,gpu:1\nc|up|1-12:00:00|1|(null)\nnonsense\n"
    assert [(part.hours, part.gpus, part.gpu_type) for part in parse_partitions(text)] == [
        (2.0, 4, ""),
        (1.5, 2, "h100"),
        (36.0, 0, ""),
    ]


SEEN = {
    "host": "login",
    "node": "n1",
    "python": "3.11.7",
    "token": "secret",
    "visible": "0,1,2,3,4,5,6,7",
    "cpus": 64,
    "shm": 64 * 10**9,
    "gpus": ["NVIDIA A100, 81920 MiB, 550.54"] * 8,
    "versions": {"torch": "2.13.0", "deepspeed": "0.19.8", "transformers": "5.19.0"},
    "torch": {"gpus": 8, "cuda": "12.8", "nccl": "2.27.5"},
    "models": {"/models/policy": True},
}


@pytest.mark.parametrize(
    ("change", "probe", "level"),
    [
        ({}, "GPUs on the node", Level.ok),
        ({"token": "stale"}, "shared directory", Level.unfit),
        ({"versions": {"torch": "2.13.0"}}, "environment on the node", Level.unfit),
        ({"torch": {"gpus": 0, "cuda": "", "nccl": ""}}, "GPUs on the node", Level.unfit),
        ({"torch": {"gpus": 8, "cuda": "12.8", "nccl": ""}}, "NCCL on the node", Level.unfit),
        ({"torch": {"trouble": "No module named 'torch'"}}, "torch on the node", Level.unfit),
        ({"shm": 64 * 10**6}, "/dev/shm on the node", Level.note),
        ({"models": {"/models/policy": False}}, "weights on the node", Level.unfit),
    ],
)
def test_what_a_node_saw_is_judged(change: dict[str, object], probe: str, level: Level) -> None:
    found = {finding.probe: finding for finding in node.judge(CONFIG, SEEN | change, "secret", 0.1)}
    assert found[probe].level is level
    others = [finding for finding in found.values() if not finding.probe.startswith(("GPUs", "NCCL", probe))]
    assert all(finding.level is Level.ok for finding in others)


def test_the_task_asks_for_the_trainers_node_after_the_sites_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    with_cluster(monkeypatch, partition="gpu", gpu_type="a100", setup=("module load cuda",))
    words = node.command(CONFIG, Path("/shared/runs/.rods-doctor-0"))
    assert {"srun", "--partition=gpu", "--gpus-per-node=a100:8", "--nodes=1", "--time=5"} <= set(words)
    assert words[-1].startswith("module load cuda; exec ")
    assert "/shared/runs/.rods-doctor-0/on_node.py /shared/runs/.rods-doctor-0" in words[-1]
    assert "not looked at: srun" in node.announce(CONFIG, Path("/shared/runs")).measured


def fake_srun(folder: Path, script: str) -> None:
    """An srun that runs `script`; its last argument is the task."""
    path = folder / "srun"
    path.write_text(f'#!/bin/bash\ntask="${{@: -1}}"\n{script}\n')
    path.chmod(0o755)


def test_the_probe_sees_through_the_shared_folder_and_leaves_nothing_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(on_node, "__file__", str(stub(tmp_path)))
    fake_srun(tmp_path, 'SLURMD_NODENAME=n7 exec bash -c "$task"')
    found = {finding.probe: finding for finding in node.probe(CONFIG, tmp_path / "runs")}
    assert found["shared directory"].level is Level.ok
    assert found["shared directory"].measured.startswith("n7 read what was written here: yes")
    assert list((tmp_path / "runs").iterdir()) == []


def stub(folder: Path) -> Path:
    """The node's script without torch, which takes seconds to import."""
    path = folder / "stub.py"
    path.write_text(
        Path(on_node.__file__).read_text().replace('"torch": learner()', '"torch": {"trouble": "no"}')
    )
    return path


def test_a_refusal_of_srun_is_the_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    fake_srun(tmp_path, "echo 'srun: error: invalid partition specified: gpu' >&2; exit 1")
    (found,) = node.probe(CONFIG, tmp_path / "runs")
    assert (found.level, found.measured) == (Level.unfit, "srun: error: invalid partition specified: gpu")


def test_weights_are_looked_for_where_the_roles_load_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert files.weights("w", "shipped/tiny").level is Level.ok
    assert files.weights("w", "shipped/huge").level is Level.unfit
    assert files.weights("w", str(tmp_path)).level is Level.unfit
    (tmp_path / "config.json").write_text("{}")
    assert "expected weights in" in files.weights("w", str(tmp_path)).measured
    absent = files.weights("w", "nobody/no-such-model")
    assert absent.level is Level.warning
    assert absent.meaning.endswith("hf download nobody/no-such-model")


@pytest.mark.parametrize(
    ("mode", "key", "level"),
    [
        ("auto", "", Level.note),
        ("online", "", Level.unfit),
        ("online", "x", Level.ok),
        ("disabled", "", Level.ok),
    ],
)
def test_a_key_for_wandb_is_looked_for_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, key: str, level: Level
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    if key:
        (tmp_path / ".netrc").write_text("machine api.wandb.ai\n  login user\n  password x\n")
        (tmp_path / ".netrc").chmod(0o600)
    config = replace(CONFIG, tracking=replace(CONFIG.tracking, wandb=mode))
    assert files.wandb(config).level is level


def test_a_profile_of_this_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a profile for Slurm"):
        CliRunner().invoke(app, ["doctor", "--cluster", "+experiment=rods_tiny"], catch_exceptions=False)
    with pytest.raises(UsageError, match="go with --cluster"):
        CliRunner().invoke(app, ["doctor", "--probe"], catch_exceptions=False)


def test_without_slurm_the_status_and_json_say_so(tmp_path: Path) -> None:
    code = "import sys; from rods.cli import main; main()"
    command = [sys.executable, "-c", code, "doctor", "--cluster", "--json"]
    environment = os.environ | {"PATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
    found = json.loads(done.stdout)
    assert (done.returncode, found["fit"]) == (1, False)
    assert found["cluster"][0]["measured"] == "no sinfo on this machine"
    assert {finding["probe"] for finding in found["files"]} >= {"environment", "W&B"}
