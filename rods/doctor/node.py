"""One task on one compute node, by srun: does it see the runs folder, the environment, the GPUs, the weights?"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from launchers.containers import wrapping
from launchers.resources import TRAIN, resources
from launchers.slurm import scrubbed_environment
from rods.config import Config
from rods.doctor import files, on_node
from rods.doctor.finding import Finding, Level
from rods.exchange.usage import human

LIMIT_MIN = 5
_QUEUE_S = 600.0  # for the task to get its node, and to end
_VISIBLE_S = 60.0
_FEW_SHM = 8 * 10**9


def command(config: Config, folder: Path) -> list[str]:
    """The srun that `probe` runs: the trainer's node and GPUs, its container, for at most five minutes."""
    cluster, (trainer, *_) = config.cluster, resources(config)
    wrap = wrapping(cluster, folder, trainer.gpus_per_node)
    gpus = f"{cluster.gpu_type}:{trainer.gpus_per_node}" if cluster.gpu_type else str(trainer.gpus_per_node)
    named = {"partition": cluster.partition, "account": cluster.account, "qos": cluster.qos}
    options = ["--nodes=1", "--ntasks=1", f"--time={LIMIT_MIN}", "--job-name=rods-doctor", "--quiet"]
    options += [f"--{name}={value}" for name, value in named.items() if value]
    options += [f"--gpus-per-node={gpus}"] if trainer.gpus_per_node else []
    models = (files.location(path) for path in files.models(config).values())
    task = [*wrap.prefix, wrap.python, str(folder / "on_node.py"), str(folder), *filter(None, models)]
    setup = "; ".join([*cluster.setup, f"exec {shlex.join(task)}"])
    return ["srun", *options, *(shlex.split(" ".join(wrap.options))), "bash", "-c", setup]


def announce(config: Config, folder: Path) -> Finding:
    """What would be run, where `probe` is not asked for."""
    words = shlex.join(command(config, folder / ".rods-doctor-XXXXXX"))
    meaning = (
        f"rods doctor --cluster --probe runs this: one task on one node, for at most {LIMIT_MIN} minutes."
    )
    return Finding("compute node", Level.note, f"not looked at: {words}", meaning)


def probe(config: Config, runs: Path) -> list[Finding]:
    """Run the task and say what it saw.

    Args:
        runs: the folder that runs lie in; the scratch folder there is removed afterwards.
    """
    with _scratch(runs) as folder:
        token = secrets.token_hex(8)
        (folder / "token").write_text(token)
        shutil.copy(on_node.__file__, folder / "on_node.py")
        trouble = _run(command(config, folder))
        ended = time.monotonic()
        seen = _await(folder / "seen.json", 0.0 if trouble else _VISIBLE_S)
        if seen is None:
            meaning = "The node must see this folder, the environment and what cluster.setup names."
            return [Finding("compute node", Level.unfit, trouble or f"wrote nothing into {folder}", meaning)]
        return judge(config, seen, token, time.monotonic() - ended)


def judge(config: Config, seen: dict[str, Any], token: str, late_s: float) -> list[Finding]:
    """What a node saw, as findings.

    Args:
        seen: as `on_node` writes it.
        token: what it should have read.
        late_s: seconds from the task's end until its answer was visible here.
    """
    same = seen["token"] == token
    shared = Finding(
        "shared directory",
        Level.ok if same else Level.unfit,
        f"{seen['node'] or seen['host']} read what was written here: {'yes' if same else 'no'}; "
        f"its answer was visible after {late_s:.1f} s",
        "" if same else "Runs must lie on a file system that all nodes share: launch.runs_dir.",
        {"visible_s": late_s},
    )
    versions = ", ".join(f"{name} {version}" for name, version in seen["versions"].items())
    missing = [name for name in ("torch", "deepspeed", "transformers") if name not in seen["versions"]]
    environment = Finding(
        "environment on the node",
        Level.unfit if missing else Level.ok,
        f"Python {seen['python']}, {versions}",
        f"Not installed there: {', '.join(missing)}." if missing else "",
    )
    shm = Finding(
        "/dev/shm on the node",
        Level.ok if seen["shm"] >= _FEW_SHM else Level.note,
        f"{human(seen['shm'])} free, {seen['cpus']} CPUs",
        "" if seen["shm"] >= _FEW_SHM else "NCCL and vLLM use shared memory; a few GB are little for 8 GPUs.",
    )
    return [shared, environment, *_accelerators(config, seen), shm, *_weights(seen)]


def _accelerators(config: Config, seen: dict[str, Any]) -> list[Finding]:
    wanted = next(part.gpus_per_node for part in resources(config) if part.role == TRAIN)
    torch = seen["torch"]
    if "trouble" in torch:
        return [Finding("torch on the node", Level.unfit, torch["trouble"], "The trainer cannot start.")]
    given = len([device for device in seen["visible"].split(",") if device])
    listed = "; ".join(sorted(set(seen["gpus"]))) or "nvidia-smi lists none"
    enough = torch["gpus"] >= wanted
    gpus = Finding(
        "GPUs on the node",
        Level.ok if enough else Level.unfit,
        f"wanted {wanted}, Slurm gave {given}, torch (CUDA {torch['cuda'] or 'none'}) uses {torch['gpus']}: {listed}",
        "" if enough else "Driver and CUDA version must fit torch's; see cluster.setup and the container.",
    )
    nccl = Finding(
        "NCCL on the node",
        Level.ok if torch["nccl"] or wanted < 2 else Level.unfit,
        torch["nccl"] or "torch has none",
        "" if torch["nccl"] or wanted < 2 else "Training on several GPUs needs torch with NCCL.",
    )
    return [gpus, nccl]


def _weights(seen: dict[str, Any]) -> list[Finding]:
    return [
        Finding(
            "weights on the node",
            Level.ok if there else Level.unfit,
            f"{path}: {'there' if there else 'not there'}",
            ""
            if there
            else "Put them where the nodes see them; in a container, name it in cluster.container.mounts.",
        )
        for path, there in seen["models"].items()
    ]


def _run(words: list[str]) -> str:
    """What srun said when it failed, "" when it did not."""
    try:
        with scrubbed_environment():
            done = subprocess.run(words, capture_output=True, text=True, timeout=_QUEUE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return " ".join(done.stderr.split())[-400:] if done.returncode else ""


def _await(path: Path, budget_s: float) -> dict[str, Any] | None:
    """The answer, once it is visible here: listing the folder refreshes a network client's view of it."""
    deadline = time.monotonic() + budget_s
    while path.name not in os.listdir(path.parent):
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.1)
    seen: dict[str, Any] = json.loads(path.read_text())
    return seen


@contextmanager
def _scratch(runs: Path) -> Iterator[Path]:
    runs.mkdir(parents=True, exist_ok=True)
    folder = runs.resolve() / f".rods-doctor-{secrets.token_hex(6)}"
    try:
        folder.mkdir(mode=0o700)  # in here: Ctrl-C may come as soon as it is made
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
