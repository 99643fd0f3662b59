"""What all ranks do together and one may fail at: the others hear of it instead of waiting for a rank that is gone.

A barrier after a failed write would be waited at until the process group's time limit. So ranks tell each other
how it went, and rank 0 alone decides whether there is another try.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch.distributed as dist

from rods.errors import RodsError
from rods.exchange import pressure


class _Thread(threading.local):
    """Of rank 0's threads one may wait for the others while another writes beside it."""

    leads = False


_thread = _Thread()


class PeerError(RodsError):
    """Another rank failed at what all ranks do together."""


def single() -> bool:
    """Whether there is no other rank."""
    return not dist.is_initialized() or dist.get_world_size() == 1


def alone() -> bool:
    """Whether no other rank takes part in what this one does now."""
    return _thread.leads or single()


@contextmanager
def led(leads: bool) -> Iterator[None]:
    """While it lasts the others only wait for what rank 0 tells them (True), or take part again (False). By thread."""
    before, _thread.leads = _thread.leads, leads
    try:
        yield
    finally:
        _thread.leads = before


def all_or_none(action: Callable[[], object], group: dist.ProcessGroup | None = None) -> None:
    """Call `action`; return on every rank once all have done it. Collective.

    Args:
        action: this rank's part.
        group: over which the ranks tell each other; None: the default one, which only one thread may use.

    Raises:
        Exception: what `action` raised on this rank.
        PeerError: it failed on another rank; says which and why.
    """
    failure: Exception | None = None
    try:
        action()
    except Exception as error:  # noqa: BLE001 (raised below, once the others know)
        failure = error
    reports = _reports("" if failure is None else f"{type(failure).__name__}: {failure}", group)
    if failure is not None:
        raise failure
    for rank, report in enumerate(reports):
        if report:
            raise PeerError(f"rank {rank} of {len(reports)} failed: {report}")


def attempt(action: Callable[[], None], path: Path, rank: int) -> None:
    """`pressure.attempt` of a collective `action`: whether it is tried again is rank 0's decision. Collective.

    Args:
        action: fails on every rank when it fails on one (`all_or_none`), and may be called again.
        path: where it writes; for the message.

    Raises:
        Exception: what the last try raised.
    """
    if alone():
        pressure.attempt(action, path, transient=())
    elif rank == 0:
        _lead(action, path)
    else:
        _follow(action)


def _lead(action: Callable[[], None], path: Path) -> None:
    def once() -> None:
        _again(True)
        action()

    try:
        pressure.attempt(once, path, transient=())
    finally:
        _again(False)


def _follow(action: Callable[[], None]) -> None:
    failure: Exception | None = None
    while _again():
        failure = None
        try:
            action()
        except Exception as error:  # noqa: BLE001 (raised below, unless there is another try)
            failure = error
    if failure is not None:
        raise failure


def _again(decision: bool | None = None) -> bool:
    """Rank 0's decision, on every rank."""
    told = [decision]
    dist.broadcast_object_list(told, src=0)
    return bool(told[0])


def _reports(report: str, group: dist.ProcessGroup | None) -> list[str]:
    if alone():
        return [report]
    reports = [""] * dist.get_world_size()
    dist.all_gather_object(reports, report, group=group)
    return reports
