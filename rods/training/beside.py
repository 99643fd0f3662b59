"""State of all ranks that is written while they train: each writes its part in a thread, at rank 0's word.

The words go over a group of their own, as the default one belongs to the threads that train.
"""

from __future__ import annotations

import logging
import threading
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

import torch.distributed as dist

from rods.rollout import ranks
from rods.training import together
from rods.training.checkpoint import Saves

_log = logging.getLogger(__name__)


class Writers:
    """This rank's thread that writes, and its line to the others'. Made on all ranks together."""

    def __init__(self) -> None:
        self._group = None if together.single() else ranks.new_group()
        self._thread: threading.Thread | None = None

    def share(self, state: Saves) -> AbstractContextManager[Saves]:
        """Make ready to write `state`, on all ranks.

        Returns:
            on rank 0 what writes all ranks' parts, in any thread and as often as need be, until it is left. Elsewhere
            there is nothing to do with it.
        """
        if self._group is None:
            return nullcontext(state)
        if state.rank == 0:
            return _Leader(state, self._group)
        if self._thread is not None:
            self._thread.join()
        self._thread = threading.Thread(target=_follow, args=(state, self._group), name="state", daemon=True)
        self._thread.start()
        return nullcontext(state)


class _Leader:
    """Rank 0's part, written together with those of the others."""

    def __init__(self, state: Saves, group: dist.ProcessGroup) -> None:
        self.rank = state.rank
        self._state, self._group = state, group

    def __enter__(self) -> _Leader:
        return self

    def __exit__(self, *_: object) -> None:
        _tell(None, self._group)

    def save(self, folder: Path) -> None:
        """Write all parts below `folder`. Raises what failed here, PeerError for another rank."""
        _tell(folder, self._group)
        with together.led(False):
            together.all_or_none(lambda: self._state.save(folder), self._group)


def _follow(state: Saves, group: dist.ProcessGroup) -> None:
    """Another rank's thread. Whether a failure is one of the run is rank 0's to judge, which hears of it."""
    while (folder := _told(group)) is not None:
        try:
            together.all_or_none(partial(state.save, folder), group)
        except Exception as error:  # noqa: BLE001 (rank 0 has heard of it)
            _log.warning("rank %d could not save: %s", state.rank, error)


def _tell(folder: Path | None, group: dist.ProcessGroup) -> None:
    dist.broadcast_object_list([folder], src=0, group=group)


def _told(group: dist.ProcessGroup) -> Path | None:
    """None also once rank 0 is gone: the thread that trains hears of that, too."""
    holder: list[Path | None] = [None]
    try:
        dist.broadcast_object_list(holder, src=0, group=group)
    except RuntimeError:
        return None
    return holder[0]
