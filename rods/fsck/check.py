"""The whole check of a run directory, and its repair: check, mend what is safe to mend, check again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from launchers import snapshot
from rods import tasks as task_sources
from rods.config import Config
from rods.errors import RodsError
from rods.exchange import heartbeat, marker, owner, permissions
from rods.exchange.atomic import CorruptFileError
from rods.exchange.journal import JournalError
from rods.exchange.marker import Scan
from rods.exchange.rundir import QUEUES, RunDir
from rods.fsck import folders, journals, messages, replay
from rods.fsck.journals import Journal, Record
from rods.fsck.replay import Replay
from rods.fsck.report import Finding, FsckError, Report, Severity

WRITER = "train"
_ROUNDS = 4  # a repair may bring to light what could not be checked before it
_NOTHING = Scan((), (), ())


def fsck(run: RunDir, *, repair: bool = False) -> Report:
    """Check a run directory; with `repair`, mend what is safe and check again.

    Nothing is ever deleted: what is in the way is moved to lost+found/, what is cut is kept beside its file.

    Raises:
        FsckError: a repair of a run that somebody follows.
        NotARunDirError: no run directory.
        OSError: the directory cannot be read.
    """
    run.read_manifest()
    alive = is_alive(run)
    if alive and repair:
        raise FsckError(
            f"{run.path}: somebody follows this run (rods status {run.path}), so that its files change under a "
            "repair. Stop it first (rods cancel), or check without --repair"
        )
    if repair:
        permissions.adopt_from(run.path)
    findings, repairs = check(run), list[str]()
    for _ in range(_ROUNDS if repair else 0):
        done = [finding.mend() for finding in findings if finding.mend]
        if not done:
            break
        repairs += done
        findings = check(run)
    return Report(str(run.path), alive, tuple(findings), tuple(repairs))


def check(run: RunDir) -> list[Finding]:
    """Everything that is not as expected. Changes nothing."""
    return list(_check(run))


def is_alive(run: RunDir) -> bool:
    """Whether a supervisor or a role of the run still lives."""
    try:
        following = owner.newest(run)
    except CorruptFileError:
        following = None
    timeout_s = following.timeout_s if following else owner.DEFAULT_TIMEOUT_S
    beats = heartbeat.read_all(run.heartbeats).values()
    return bool(following and following.is_alive(run)) or any(owner.is_alive(b, timeout_s) for b in beats)


@dataclass(frozen=True)
class _History:
    """The trainer's history and what follows from it; parts are None where they cannot be had."""

    records: list[Record]
    replay: Replay | None
    problem: str


def _check(run: RunDir) -> Iterator[Finding]:
    links = list(folders.check_links(run))
    yield from links
    if not links:
        yield from _check_contents(run)


def _check_contents(run: RunDir) -> Iterator[Finding]:
    config = _config(run)
    yield from _frozen(run)
    yield from journals.check_names(run)
    found = journals.read_all(run)
    scan, problem = _scan(run)
    tasks = task_sources.load(config.tasks) if config else None
    past = _history(run, found, scan, config, tasks)
    spare = not problem and replay.trusted(scan, past.replay)
    for each in found:
        yield from journals.check_tail(run, each, spare or each.writer != WRITER)
    for reason in filter(None, (past.problem, problem)):
        yield _broken(run, reason)
    yield from replay.check_checkpoints(run, scan, past.replay)
    yield from folders.check_queue_files(run)
    yield from folders.check_puts(run)
    yield from folders.check_splits(run)
    yield from folders.check_claims(run, config.exchange.max_deliveries if config else 3)
    yield from folders.check_leftovers(run)
    boxes = [messages.open_box(name, run.queue(name)) for name in QUEUES]
    for box in boxes:
        yield from messages.check_readable(box)
    if past.replay and tasks:
        yield from replay.check_tracker(run, past.replay)
        state = past.replay.state
        yield from messages.Accounts(run, boxes[0], boxes[1], state, past.records, tasks.train).check()


def _config(run: RunDir) -> Config | None:
    try:
        return snapshot.load_config(run)
    except (RodsError, UnicodeDecodeError):
        return None


def _frozen(run: RunDir) -> Iterator[Finding]:
    """Configuration and code against the hashes in the manifest."""
    try:
        snapshot.verify(run)
    except (RodsError, UnicodeDecodeError) as error:
        yield Finding(
            "frozen-changed",
            Severity.ERROR,
            run.manifest.name,
            "configuration and code as they were submitted",
            str(error),
            "put the file back as it was; the journal cannot be replayed without the configuration",
        )


def _scan(run: RunDir) -> tuple[Scan, str]:
    try:
        return marker.scan(run.checkpoints, run.journal_dir, WRITER), ""
    except JournalError as error:
        return _NOTHING, f"which checkpoints belong to it cannot be told: {error}"


def _history(run: RunDir, found: list[Journal], scan: Scan, config: Config | None, tasks: Any) -> _History:
    try:
        records = journals.history(found, WRITER)
    except JournalError as error:
        return _History([], None, str(error))
    if config is None or tasks is None:
        return _History(records, None, "")
    try:
        ends = journals.positions(found, WRITER)
        return _History(records, Replay(config, tasks.train, records, ends, replay.stops(run, scan)), "")
    except RodsError as error:
        return _History(records, None, f"it cannot be replayed: {error}")


def _broken(run: RunDir, reason: str) -> Finding:
    return Finding(
        "history-broken",
        Severity.ERROR,
        run.journal_dir.name,
        "journals that make one history",
        reason,
        "restore the journals from a copy",
    )
