"""What the trainer's machine is doing: memory, and the GPUs where there are any."""

from __future__ import annotations

import resource
from contextlib import suppress

import psutil
import torch

_MIB = 2**20


def figures() -> dict[str, float]:
    """Memory of this process in MiB now and at its highest; of the GPU, and its utilisation, where there is one.

    Utilisation (per cent of the second before, by NVML) needs the package nvidia-ml-py.
    """
    own = {
        "memory_mib": psutil.Process().memory_info().rss / _MIB,
        "memory_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    return {**own, **_gpu()} if torch.cuda.is_available() else own


def _gpu() -> dict[str, float]:
    found = {
        "gpu_memory_mib": torch.cuda.memory_reserved() / _MIB,
        "gpu_memory_peak_mib": torch.cuda.max_memory_reserved() / _MIB,
    }
    with suppress(ModuleNotFoundError):
        found["gpu_utilisation"] = float(torch.cuda.utilization())
    return found
