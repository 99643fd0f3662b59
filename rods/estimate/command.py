"""`rods estimate`: will this configuration fit, and how long will it take?"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from rods.config import Config
from rods.estimate import duration, hardware, memory
from rods.estimate.duration import Duration, Episodes
from rods.estimate.hardware import GIB, Device
from rods.estimate.memory import Load, Memory
from rods.estimate.shape import Shape, of_model

_BFCL_TASKS = 400
_CACHE_IS_TIGHT = 1  # episodes at once below which nothing runs


@dataclass(frozen=True)
class Estimate:
    """What `rods estimate` shows.

    Attributes:
        engine: bytes of the colocated engine; 0 on CPUs, where its cache is `rollout.cpu_cache_gib`.
        cache_episodes: episodes that fit in its cache at once.
    """

    parameters: int
    ranks: int
    device: Device | None
    episodes: Episodes
    memory: Memory
    engine: float
    cache_episodes: float
    time: Duration | None
    gpus: int

    @property
    def total(self) -> float:
        """Bytes on one GPU (or of the process, on CPUs)."""
        runtime = hardware.RUNTIME if self.device else 0
        return self.memory.learner + self.engine + runtime

    @property
    def fits(self) -> bool:
        """Whether a GPU holds it, with at least one episode in the engine's cache."""
        return self.device is None or (
            self.total <= self.device.memory and self.cache_episodes >= _CACHE_IS_TIGHT
        )

    def to_json(self) -> dict[str, Any]:
        """JSON data; memory in bytes, time in seconds and hours."""
        return asdict(self) | {"total": self.total, "fits": self.fits, "gpu_hours": self.gpu_hours}

    @property
    def gpu_hours(self) -> float | None:
        """Of both allocations, over the whole run; None without GPUs."""
        return self.time.hours * self.gpus if self.time else None


def estimate(config: Config, gpu: str, tokens: int | None, sampled: int | None) -> Estimate:
    """The estimate for a configuration.

    Args:
        gpu: name of a device; "": what `cluster.gpu_type` says, else the paper's A100.
        tokens: mean length of an episode; None: a third of `model.max_length`.
        sampled: of these, tokens of the policy; None: a third of them.

    Raises:
        UnknownShapeError, UnknownDeviceError: a model or a GPU without numbers.
    """
    shape, job = of_model(config.model.path), config.cluster.train
    length = tokens or config.model.max_length // 3
    episodes = Episodes(length, sampled or length // 3)
    ranks = max(1, job.nodes * job.gpus_per_node)
    device = hardware.device(gpu or config.cluster.gpu_type) if job.gpus_per_node else None
    budget = config.training.micro_batch_tokens
    load = Load(ranks, budget, budget * episodes.sampled // episodes.tokens, device is not None)
    helper = config.cluster.synthesis
    gpus = ranks + (helper.nodes * helper.gpus_per_node if config.synthesis.enabled else 0)
    return Estimate(
        shape.parameters,
        ranks,
        device,
        episodes,
        memory.estimate(shape, config, load),
        memory.engine(shape, config, device.memory) if device else 0,
        memory.cache_tokens(shape, config, device.memory) / length if device else 0,
        _time(shape, config, device, ranks, episodes),
        gpus,
    )


def show(found: Estimate, config: Config, as_json: bool) -> None:
    """Print it."""
    if as_json:
        print(json.dumps(found.to_json(), indent=1))
        return
    console = Console(highlight=False)
    where = f"{found.ranks} × {found.device.name}" if found.device else "CPUs"
    console.print(
        f"{config.model.path}: {found.parameters / 1e9:.3g} B parameters in {config.model.dtype}, "
        f"ZeRO-{config.training.zero_stage} on {where}"
    )
    console.print(_memory_table(found))
    if found.device and found.time:
        console.print(_verdict(found, found.device))
        console.print(_time_table(found.time, found.gpus))
        console.print(
            f"Assumed: episodes of {found.episodes.tokens} tokens, {found.episodes.sampled} of them sampled "
            "(--tokens, --sampled); the formulas and shares of peak rates stand in rods/estimate/. "
            "Not checked against a GPU by us."
        )


def _time(
    shape: Shape, config: Config, device: Device | None, ranks: int, episodes: Episodes
) -> Duration | None:
    if device is None:
        return None
    seeds = config.tasks.train_count or _BFCL_TASKS
    variants = min(config.buffer.capacity, seeds) if config.synthesis.enabled else 0
    # The pool grows from the seeds to seeds + variants; halfway on average.
    return duration.estimate(shape, config, device, ranks, episodes, seeds + variants // 2)


def _memory_table(found: Estimate) -> Table:
    table = Table("memory of one rank", "GiB", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    rows = asdict(found.memory) | {"engine": found.engine}
    if found.device:
        rows["runtime"] = float(hardware.RUNTIME)
    for name, size in rows.items():
        table.add_row(name, f"{size / GIB:.2f}")
    table.add_row("total", f"{found.total / GIB:.2f}")
    return table


def _verdict(found: Estimate, device: Device) -> str:
    room = f"{device.memory / GIB:.0f} GiB"
    if found.total > device.memory:
        return (
            f"does not fit in {room}: lower training.micro_batch_tokens or rollout.gpu_memory_fraction, "
            "raise training.zero_stage, or take more GPUs"
        )
    if not found.fits:
        return "the engine's cache holds no whole episode: raise rollout.gpu_memory_fraction"
    return f"fits in {room}; the engine's cache holds {found.cache_episodes:.1f} episodes at once"


def _time_table(time: Duration, gpus: int) -> Table:
    table = Table("time", "", box=None, pad_edge=False)
    table.columns[1].justify = "right"
    for name in ("decoding", "prefill", "update"):
        table.add_row(f"{name} of a step", f"{getattr(time, name):.0f} s")
    table.add_row("steps", str(time.steps))
    table.add_row("hours", f"{time.hours:.1f}")
    table.add_row(f"GPU-hours of {gpus} GPUs", f"{time.hours * gpus:.0f}")
    return table
