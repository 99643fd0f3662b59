"""The journal replayed from zero, and the snapshots that must agree with it: tracker and checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from rods.config import Config
from rods.curriculum.events import parse_event
from rods.curriculum.state import CurriculumState, fold, initial
from rods.errors import RodsError
from rods.exchange import marker
from rods.exchange.atomic import CorruptFileError, read_json
from rods.exchange.marker import Checkpoint, Scan
from rods.exchange.rundir import RunDir
from rods.fsck.journals import Record
from rods.fsck.report import Finding, Severity, relative, set_aside
from rods.tasks.model import Task
from rods.training.tracker import Snapshot


class Replay:
    """States of the curriculum along the history, folded from the seed tasks.

    Args:
        positions: journal file → the byte where the history ends in it.

    Attributes:
        state: after the whole history.

    Raises:
        RodsError: an event that is none, or that cannot happen where it stands.
    """

    def __init__(
        self,
        config: Config,
        seeds: tuple[Task, ...],
        records: list[Record],
        positions: Mapping[str, int],
        stops: set[int],
    ) -> None:
        self.length = len(records)
        self._positions = positions
        self._digests: dict[int, str] = {}
        state, done = initial(seeds, config.boundary, config.buffer), 0
        for stop in sorted({*(stop for stop in stops if stop <= self.length), self.length}):
            state = fold(state, map(parse_event, records[done:stop]))
            self._digests[stop], done = state.digest(), stop
        self.state: CurriculumState = state

    def flaw(self, snapshot: Any) -> str:
        """Why the history does not lead to `snapshot`; "" when it does. Only for records in `stops`."""
        try:
            records, digest = int(snapshot["records"]), str(snapshot["digest"])
        except (KeyError, TypeError, ValueError):
            return "no snapshot (records, digest)"
        if records > self.length:
            return f"a snapshot of {records} records, where the history has {self.length}"
        replayed = self._digests.get(records, "nothing")
        if replayed != digest:
            return f"state {digest[:12]} at record {records}, where the replay gives {replayed[:12]}"
        return ""

    def snapshot(self) -> Snapshot:
        """Of the whole history: what tracker.json may hold."""
        return Snapshot(self.state, self.length, self._positions)


def stops(run: RunDir, scan: Scan) -> set[int]:
    """How many records the snapshots of the run stand for."""
    snapshots = [_json(run.tracker), *(_ledger(each.folder) for each in scan.complete)]
    found = [snapshot.get("records") for snapshot in snapshots if isinstance(snapshot, dict)]
    return {records for records in found if isinstance(records, int) and records >= 0}


def check_tracker(run: RunDir, replay: Replay) -> Iterator[Finding]:
    """tracker.json against the replay."""
    body = _json(run.tracker)
    if body is None and not run.tracker.exists():
        if replay.length and any(run.checkpoints.glob("step_*")):
            yield _tracker(run, replay, Severity.WARNING, "no file")
        return
    flaw = replay.flaw(body) or _inner_flaw(body)
    if flaw:
        yield _tracker(run, replay, Severity.ERROR, flaw)


def check_checkpoints(run: RunDir, scan: Scan, replay: Replay | None) -> Iterator[Finding]:
    """Checkpoints: whole, with the bytes that were written, and on the history."""
    good = 0
    broken: list[tuple[str, Checkpoint, str]] = []
    for each in scan.complete:
        damaged = marker.damaged_files(each)
        flaw = replay.flaw(_ledger(each.folder)) if replay and not damaged else ""
        if damaged:
            broken.append(("checkpoint-damaged", each, f"other bytes in {', '.join(damaged)}"))
        elif flaw:
            broken.append(("checkpoint-mismatch", each, flaw))
        else:
            good += 1
    for code, each, found in broken:
        mend = partial(set_aside, run, each.folder) if good and replay else None
        advice = (
            "a repair moves it away; the run goes on from another one" if mend else "restore it from a copy"
        )
        where, expected = (
            relative(run, each.folder),
            "a checkpoint that the journal leads to, with its hashes",
        )
        yield Finding(code, Severity.ERROR, where, expected, found, advice, mend)
    for folder, reason in scan.torn:
        yield _useless(run, "checkpoint-torn", folder, reason)
    for void, reason in scan.void:
        yield _useless(run, "checkpoint-void", void.folder, reason)


def trusted(scan: Scan, replay: Replay | None) -> bool:
    """Whether the newest checkpoint, if there is one, needs no more than the history that was replayed."""
    if replay is None:
        return False
    return not scan.complete or not replay.flaw(_ledger(scan.complete[-1].folder))


def _useless(run: RunDir, code: str, folder: Path, reason: str) -> Finding:
    return Finding(
        code,
        Severity.WARNING,
        relative(run, folder),
        "a complete checkpoint of the run's history",
        reason,
        "nothing: it is never continued from; it takes space",
        partial(set_aside, run, folder),
    )


def _tracker(run: RunDir, replay: Replay, severity: Severity, found: str) -> Finding:
    def rebuild() -> str:
        moved = f"{set_aside(run, run.tracker)}; " if run.tracker.exists() else ""
        replay.snapshot().write(run.tracker)
        return f"{moved}wrote {run.tracker.name} anew from {replay.length} journal records"

    expected = "a snapshot that the journal leads to"
    advice = "a repair writes it anew from the journal"
    return Finding("tracker-mismatch", severity, run.tracker.name, expected, found, advice, rebuild)


def _inner_flaw(body: Any) -> str:
    """Whether the state in a tracker is that of its own digest."""
    try:
        digest = CurriculumState.from_json(body["state"]).digest()
    except (RodsError, KeyError, TypeError) as error:
        return f"no state ({str(error)[:120]})"
    return "" if digest == body["digest"] else f"a state of digest {digest[:12]} under {body['digest'][:12]}"


def _ledger(folder: Path) -> Any:
    extra = _json(folder / "extra.json")
    return extra.get("ledger") if isinstance(extra, dict) else None


def _json(path: Path) -> Any:
    """The JSON in a file; None for none."""
    try:
        return read_json(path)
    except (FileNotFoundError, CorruptFileError, UnicodeDecodeError):
        return None
