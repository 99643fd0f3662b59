"""Checkpoints that are whole or do not count.

`step_000040-0001/` holds the learner's state (`model/`, random states), `extra.json` and `tracker.json` of the
loop, and, written last, the marker that makes it count (`rods.exchange.marker`). The newest one is found by
looking, not by a pointer file that could tear; what a crash left half-written is reported and ignored. A step
saved once more goes to `step_000040-0001.1/`: nothing complete is touched before its successor is complete.
"""

from __future__ import annotations

import errno
import logging
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rods.errors import RodsError
from rods.exchange import marker, pressure
from rods.exchange.atomic import fsync_dir, fsync_tree, make_dirs, read_json, rename, write_json
from rods.exchange.marker import Name, Scan
from rods.exchange.rundir import RunDir
from rods.exchange.usage import advice, human
from rods.training import resharding, together
from rods.training.ledger import WRITER
from rods.training.tracker import NAME

_EXTRA = "extra.json"
_log = logging.getLogger(__name__)


class CheckpointError(RodsError):
    """A folder that is not a complete checkpoint."""


class Saves(Protocol):
    """What a checkpoint needs of a learner."""

    @property
    def rank(self) -> int:
        """Of this process."""

    def save(self, folder: Path) -> None:
        """Write the state below the folder, which is there, on all ranks. Another thread writes beside it."""


class Exports(Protocol):
    """What an exported policy needs of a learner."""

    @property
    def rank(self) -> int:
        """Of this process."""

    def export(self, folder: Path) -> None:
        """Write the policy for others to load into the folder, which is there, on all ranks."""


@dataclass(frozen=True)
class Position:
    """Where a checkpoint stands: steps done, the attempt that writes it, records of the history."""

    step: int
    attempt: int
    records: int


def save(
    run: RunDir,
    position: Position,
    learner: Saves,
    extra: dict[str, Any],
    keep: int,
    write_state: Callable[[Path], None] = lambda folder: None,
) -> Path:
    """Write a checkpoint, then remove all but the newest `keep`. Collective.

    What is missing for it is waited for, as the policy of rank 0's process says (`pressure`). When it fails on one
    rank it fails on all: the folder that was begun is removed, older checkpoints are as before, and the call may be
    repeated.

    Args:
        position: where the learner and the loop stand.
        learner: its state goes into the folder.
        extra: the loop's own small state, JSON data.
        keep: complete checkpoints that stay, at least 1.
        write_state: called on rank 0 with the folder, in a thread of its own while the learner saves, to write
            what else belongs to the checkpoint.

    Returns:
        the checkpoint's folder.

    Raises:
        DiskFullError: there is no room for it; says what to free.
        Exception: what a library raised when it could not write its part.
        PeerError: another rank could not.
    """
    folder = _free_folder(run, position)

    def begin() -> None:
        _preflight(run)
        if folder.exists():
            _remove(folder)
        make_dirs(folder)

    def finish() -> None:
        write_json(folder / _EXTRA, extra)
        marker.write(folder, position.step, position.attempt, position.records)

    def write_once() -> None:
        try:
            _on_first(learner, begin)
            _save_state(folder, learner, write_state)
            _on_first(learner, finish)
        except Exception as error:  # noqa: BLE001 (raised there)
            _give_up(folder, learner.rank, error)

    together.attempt(write_once, folder, learner.rank)
    _on_first(learner, lambda: prune(run, keep))
    return folder


def export(target: Path, learner: Exports) -> None:
    """Write the policy to the folder `target`, durably: it is whole or not there. Collective; waits as `save`.

    Raises:
        OSError, RuntimeError, PeerError: it could not be written; nothing of it stays.
    """
    partial = target.with_name(f".{target.name}.tmp")

    def begin() -> None:
        if partial.exists():
            shutil.rmtree(partial)
        make_dirs(partial)

    def finish() -> None:
        fsync_tree(partial)
        if target.exists():
            shutil.rmtree(target)
        rename(partial, target)
        fsync_dir(target.parent)

    def write_once() -> None:
        try:
            _on_first(learner, begin)
            together.all_or_none(lambda: learner.export(partial))
            _on_first(learner, finish)
        except Exception as error:  # noqa: BLE001 (raised there)
            _give_up(partial, learner.rank, error)

    together.attempt(write_once, target, learner.rank)


def latest(run: RunDir) -> Path | None:
    """The newest checkpoint of the run's history whose bytes are those that were written; None without one.

    A damaged snapshot of the curriculum does not count: the journal can give it again. What is torn, damaged or
    left behind by a newer attempt is logged as a warning. Reads the whole checkpoint, which the load that follows
    then finds in the page cache.

    Raises:
        JournalError: a journal's first record is damaged.
    """
    found = look(run)
    for folder, reason in (*found.torn, *((void.folder, reason) for void, reason in found.void)):
        _log.warning("ignoring checkpoint %s: %s", folder, reason)
    for candidate in reversed(found.complete):
        damaged = marker.damaged_files(candidate)
        if damaged == [NAME]:
            _log.warning("checkpoint %s: %s is damaged; the journal replaces it", candidate.folder, NAME)
        if damaged in ([], [NAME]):
            return candidate.folder
        _log.warning("ignoring checkpoint %s: damaged since: %s", candidate.folder, ", ".join(damaged))
    return None


def read_extra(folder: Path) -> dict[str, Any]:
    """The loop's state from a complete checkpoint.

    Raises:
        CheckpointError: the folder is not complete.
    """
    reason = marker.flaw(folder)
    if reason:
        raise CheckpointError(f"checkpoint {folder}: {reason}; resume from another one")
    extra: dict[str, Any] = read_json(folder / _EXTRA)
    return extra


def snapshots(run: RunDir, folder: Path) -> list[Path]:
    """Snapshots of the curriculum to continue the checkpoint `folder` from: its own, then those of older ones."""
    complete = [each.folder for each in look(run).complete]
    return [each / NAME for each in reversed(complete[: complete.index(folder) + 1])]


def look(run: RunDir) -> Scan:
    """What lies in the run's checkpoints folder."""
    return marker.scan(run.checkpoints, run.journal_dir, WRITER)


def prune(run: RunDir, keep: int) -> list[Path]:
    """Remove checkpoints but the newest `keep` (at least 1) of the history; torn ones stay to be looked at.

    Those that a newer attempt left behind can never be continued from and go, too, as do conversions for another
    number of ranks whose process died.

    Returns:
        the folders removed.
    """
    found = look(run)
    old = [each.folder for each in found.complete[: -max(keep, 1)]]
    if found.complete:
        old += [void.folder for void, _ in found.void]
    for folder in old:
        _remove(folder)
    for folder in resharding.leftovers(run.checkpoints):
        shutil.rmtree(folder)
    return old


def _on_first(learner: Saves | Exports, action: Callable[[], object]) -> None:
    """Rank 0 does it, and the others learn how it went."""
    together.all_or_none(lambda: action() if learner.rank == 0 else None)


def _save_state(folder: Path, learner: Saves, write_state: Callable[[Path], None]) -> None:
    """The learner's part and the rest side by side: of a large pool the rest takes seconds."""

    def write() -> None:
        with ThreadPoolExecutor(1) as beside:
            rest = beside.submit(write_state, folder) if learner.rank == 0 else None
            learner.save(folder)
            if rest is not None:
                rest.result()

    together.all_or_none(write)


def _preflight(run: RunDir) -> None:
    """Refuse to begin what cannot fit: a checkpoint takes about as much as the one before it."""
    before = look(run).complete
    if not before:
        return
    need, free = before[-1].marker.size, shutil.disk_usage(run.checkpoints).free
    if free < need:
        raise pressure.DiskFullError(
            errno.ENOSPC,
            f"{run.checkpoints}: a checkpoint needs about {human(need)} and does not fit; the last one, "
            f"{before[-1].folder.name}, is whole. {advice(run.checkpoints)}",
            str(run.checkpoints),
        )


def _give_up(folder: Path, rank: int, error: Exception) -> None:
    """Remove what was begun and raise `error`, or the lack of space that a library hid behind it."""
    shortage = None if isinstance(error, OSError) else pressure.shortage(folder.parent)
    if rank == 0 and folder.exists():
        _remove(folder)
    raise shortage or error


def _free_folder(run: RunDir, position: Position) -> Path:
    """Where the next save goes: the first of the attempt's names for the step that holds no checkpoint."""
    save = 0
    while marker.flaw(run.checkpoints / str(Name(position.step, position.attempt, save))) is None:
        save += 1
    return run.checkpoints / str(Name(position.step, position.attempt, save))


def _remove(folder: Path) -> None:
    """The marker goes first: a removal cut short leaves a torn checkpoint, never a wrong one."""
    (folder / marker.MARKER).unlink(missing_ok=True)
    shutil.rmtree(folder)
