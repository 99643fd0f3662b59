"""State that another number of ranks wrote, cut anew for this one by way of DeepSpeed's universal checkpoint.

Under ZeRO each rank holds a part of the optimizer's state. DeepSpeed's converter puts the parts together, one file per
parameter and kind of state, and each rank of any number takes its own part from there. Without ZeRO every rank holds
all of it, and nothing has to be converted.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed as dist

from rods.errors import RodsError
from rods.exchange import pressure
from rods.rollout import ranks
from rods.training import together

_log = logging.getLogger(__name__)
_CONVERTER = "deepspeed.checkpoint.ds_to_universal"
_CONVERTED = ".universal.tmp"
_WORKERS = 4  # processes that read or write parts at once, at most


def leftovers(root: Path) -> list[Path]:
    """Conversions below the checkpoints' folder `root` whose process died; between two loads all that lie there."""
    return sorted(root.glob(f".*{_CONVERTED}"))


class ReshardingError(RodsError):
    """State that does not fit another number of ranks."""


@dataclass(frozen=True)
class Saved:
    """What is to be loaded.

    Attributes:
        folder: the checkpoint.
        ranks: how many wrote it.
        zero_stage: under which.
    """

    folder: Path
    ranks: int
    zero_stage: int

    def refused(self, reason: str) -> ReshardingError:
        """The error that says what was wanted and what to do."""
        return ReshardingError(
            f"checkpoint {self.folder} was written by {self.ranks} rank(s), this run has {dist.get_world_size()}, and "
            f"its state (ZeRO stage {self.zero_stage}) could not be cut anew: {reason}. Resume with {self.ranks} "
            "rank(s), or from another checkpoint (move this one away)"
        )


def load(engines: Mapping[str, Any], saved: Saved) -> None:
    """Load each engine's state, by the name of its folder, written by another number of ranks. Collective.

    Raises:
        ReshardingError: it cannot be converted, or not be loaded.
        DiskFullError: there is no room for the conversion beside it.
        PeerError: another rank could not.
    """
    if dist.get_rank() == 0:
        _log.warning(
            "checkpoint %s was written by %d rank(s), this run has %d: its state is cut anew; from here on sums over "
            "ranks round otherwise than in the run that wrote it",
            saved.folder,
            saved.ranks,
            dist.get_world_size(),
        )
    if saved.zero_stage == 0:
        together.all_or_none(lambda: _load(engines, saved.folder, saved))
        return
    with _universal(list(engines), saved) as folder, _reads_universal(engines):
        together.all_or_none(lambda: _load(engines, folder, saved))


def _load(engines: Mapping[str, Any], folder: Path, saved: Saved) -> None:
    for name, engine in engines.items():
        try:
            loaded, _ = engine.load_checkpoint(str(folder), tag=name)
        except (AssertionError, RuntimeError, KeyError, ValueError, OSError) as error:
            raise saved.refused(f"DeepSpeed: {error}") from error
        if loaded is None:
            raise saved.refused(f"DeepSpeed found no {name} to load")


@contextmanager
def _universal(names: list[str], saved: Saved) -> Iterator[Path]:
    """While it lasts, a folder beside the checkpoint that holds its state for any number of ranks."""
    target = saved.folder.with_name(f".{saved.folder.name}{_CONVERTED}")
    group = ranks.new_group()  # large state takes longer than the tensors' group waits

    def convert() -> None:
        shutil.rmtree(target, ignore_errors=True)  # of a process that died
        for name in names:
            _convert(name, target, saved)

    try:
        _on_first(convert, group)
        yield target
    finally:
        _on_first(lambda: shutil.rmtree(target, ignore_errors=True), group)


def _on_first(action: Callable[[], object], group: dist.ProcessGroup) -> None:
    together.all_or_none(lambda: action() if dist.get_rank() == 0 else None, group)


def _convert(name: str, target: Path, saved: Saved) -> None:
    """Run the converter. In a process of its own: it starts others, and says much."""
    workers = str(min(_WORKERS, len(os.sched_getaffinity(0))))
    command = [sys.executable, "-m", _CONVERTER, "--inject_missing_state"]
    command += ["--input_folder", str(saved.folder / name), "--output_folder", str(target / name)]
    command += ["--num_extract_workers", workers, "--num_merge_workers", workers]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        _log.error("%s said:\n%s", _CONVERTER, done.stderr)
        last = done.stderr.strip().rpartition("\n")[2] or f"status {done.returncode}"
        raise pressure.shortage(saved.folder.parent) or saved.refused(last)


@contextmanager
def _reads_universal(engines: Mapping[str, Any]) -> Iterator[None]:
    """DeepSpeed asks its configuration at each load; set for one load, later ones read its own form again."""
    configs = [engine._config for engine in engines.values()]
    for config in configs:
        config.load_universal_checkpoint = True
    try:
        yield
    finally:
        for config in configs:
            config.load_universal_checkpoint = False
