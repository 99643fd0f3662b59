"""A learner's state as the files it becomes: what they hold is taken at once, they are written at once or later.

DeepSpeed gathers what belongs into its files and hands each of them to its checkpoint engine; a collector stands there
and takes them. (Its own asynchronous engine, `DecoupledCheckpointEngine`, needs libaio, hands tensors that lie on the
CPU to the writing process by reference, so that the next step changes them meanwhile, and drops what it is given once
that process has died.) The copy in host memory is made by the stager of `torch.distributed.checkpoint`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

FACTS = "learner.json"


@dataclass(frozen=True)
class Captured:
    """One rank's part of a learner's state.

    Attributes:
        rank: whose.
        files: what `torch.save` is to write, by path below the checkpoint's folder.
        facts: of `learner.json`, which rank 0 writes.
    """

    rank: int
    files: Mapping[str, Any]
    facts: Mapping[str, Any]

    def save(self, folder: Path) -> None:
        """Write this rank's files below `folder`.

        Raises:
            OSError, RuntimeError: it could not.
        """
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.save(content, path)
        if self.rank == 0:
            (folder / FACTS).write_text(json.dumps(self.facts))


def host_copier(device: torch.device) -> Callable[[dict[str, Any]], Any]:
    """What copies state to host memory. A copy holds until the next one is made, in the same memory.

    Args:
        device: where the state lies; from a GPU it goes into pinned memory.
    """
    accelerated = device.type != "cpu"
    options = StagingOptions(
        use_pinned_memory=accelerated,
        use_shared_memory=False,
        use_async_staging=False,
        use_non_blocking_copy=accelerated,
    )
    return DefaultStager(options).stage


def deepspeed_files(engine: Any, name: str, keep: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """What DeepSpeed's `engine` would write into the folder `name`, by path. Collective.

    Args:
        keep: called with each file's content: copies it, or returns it as it is.
    """
    own = engine.checkpoint_engine
    # It copies scripts of its own beside the checkpoint, of which this one holds none.
    with TemporaryDirectory() as nowhere:
        collector = _Collector(Path(nowhere), keep)
        engine.checkpoint_engine = collector
        try:
            engine.save_checkpoint(nowhere, tag=name, save_latest=False)
        finally:
            engine.checkpoint_engine = own
    return collector.files


class _Collector:
    """DeepSpeed's checkpoint engine (`deepspeed.runtime.checkpoint_engine.CheckpointEngine`) while it saves."""

    def __init__(self, root: Path, keep: Callable[[dict[str, Any]], Any]) -> None:
        self._root, self._keep = root, keep
        self.files: dict[str, Any] = {}

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Nothing is written here."""

    def create(self, info: Any) -> None:
        """A checkpoint begins."""

    def save(self, state_dict: dict[str, Any], path: str) -> None:
        """Take a file."""
        self.files[Path(path).relative_to(self._root).as_posix()] = self._keep(state_dict)

    def commit(self, info: Any) -> bool:
        """It ends; whether it is good."""
        return True

    def is_decoupled(self) -> bool:
        """Whether DeepSpeed has to wait for another process."""
        return False
