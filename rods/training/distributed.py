"""One process or many: the process group, and what DeepSpeed is told.

A single process gets a group of one in its own memory: no port, nothing that another job on the node could
collide with.
"""

from __future__ import annotations

import logging
import os
import warnings
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from rods.config import TrainingConfig
from rods.errors import RodsError

# Beforehand: transformers may be the first to import DeepSpeed, whose first words are a warning.
logging.getLogger("DeepSpeed").addFilter(lambda record: record.levelno >= logging.ERROR)

_LAUNCH_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_BUCKET_ELEMENTS = 50_000_000  # DeepSpeed's default of 5e8 reserves 2 GB a buffer


class DistributedError(RodsError):
    """The environment of a launched rank is incomplete."""


def start() -> torch.device:
    """Join (or make) the process group, ready DeepSpeed, and return this rank's device.

    Ranks launched by torchrun or srun are found by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. A group
    that exists already, such as vLLM's in the same process, is used as it is.

    Raises:
        DistributedError: WORLD_SIZE is above 1 and another of these variables is missing.
    """
    deepspeed = _deepspeed()
    accelerator = deepspeed.accelerator.get_accelerator()
    os.environ.setdefault("LOCAL_RANK", "0")  # DeepSpeed reads it, at every ZeRO-3 forward too
    on_cpu = accelerator.device_name() == "cpu"
    backend = "gloo" if on_cpu else accelerator.communication_backend_name()
    if not on_cpu:
        accelerator.set_device(int(os.environ["LOCAL_RANK"]))
    if not dist.is_initialized():
        _join(backend)
    # Read by the communication backend alone, to compile (44 s) a kernel that only inference uses. Left unset,
    # the table is filled by probing with the compiler.
    deepspeed.ops.__compatible_ops__ = {}
    deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, verbose=False)
    return torch.device(accelerator.current_device_name())


def initialize(
    module: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: torch.optim.lr_scheduler.LRScheduler,
    training: TrainingConfig,
    dtype: str,
) -> Any:
    """A DeepSpeed engine around `module`, on this rank's device."""
    engine, *_ = _deepspeed().initialize(
        model=module,
        optimizer=optimizer,
        lr_scheduler=schedule,
        config=deepspeed_config(training, dtype),
        dist_init_required=False,
    )
    return engine


def reports_norm(training: TrainingConfig, dtype: str) -> bool:
    """Whether DeepSpeed clips gradients and tells their norm: its plain fp32 path does not tell."""
    return training.zero_stage > 0 or dtype == "bfloat16"


def gathered(parameter: torch.nn.Parameter, training: TrainingConfig) -> AbstractContextManager[None]:
    """While it lasts, `parameter` is whole on every rank. Collective under ZeRO-3, nothing elsewhere."""
    return _deepspeed().zero.GatheredParameters([parameter], enabled=training.zero_stage == 3)


def deepspeed_config(training: TrainingConfig, dtype: str) -> dict[str, Any]:
    """DeepSpeed's configuration: it owns partitioning and precision; scaling and accumulation are ours.

    With `managed_gradient_accumulation` off, every backward adds to the gradients and `step()` alone decides
    when they are used, so an optimizer step may take any number of micro-batches.
    """
    return {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "managed_gradient_accumulation": False,
        "gradient_clipping": training.gradient_clip if reports_norm(training, dtype) else 0.0,
        "bf16": {"enabled": dtype == "bfloat16"},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "zero_optimization": {
            "stage": training.zero_stage,
            "overlap_comm": False,
            "reduce_bucket_size": _BUCKET_ELEMENTS,
            "allgather_bucket_size": _BUCKET_ELEMENTS,
        },
        "steps_per_print": None,
    }


def reduce(values: torch.Tensor, operation: dist.ReduceOp.RedOpType) -> torch.Tensor:
    """All-reduce `values` in place and return them; nothing to do in a world of one."""
    if dist.get_world_size() > 1:
        dist.all_reduce(values, operation)
    return values


def _join(backend: str) -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
        return
    missing = [name for name in _LAUNCH_VARIABLES if not os.environ.get(name)]
    if missing:
        raise DistributedError(
            f"WORLD_SIZE = {os.environ['WORLD_SIZE']}, but {', '.join(missing)} is not set: launch the ranks with "
            "torchrun, or unset WORLD_SIZE for a single process"
        )
    dist.init_process_group(backend, init_method="env://")


def _deepspeed() -> ModuleType:
    """DeepSpeed, imported late: loading it takes seconds and talks about missing GPUs."""
    # DeepSpeed calls collectives by names that newer versions of torch warn about, at every step.
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed.c10d_logger")
    import deepspeed

    return deepspeed
