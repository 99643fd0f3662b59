"""What lies in the queues' folders besides messages, and what dead processes left half-done anywhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from rods.exchange.names import PartName
from rods.exchange.queue import Queue
from rods.exchange.rundir import QUEUES, RunDir
from rods.fsck.report import LOST, Finding, Severity, relative, set_aside

_FOREVER_S = 1e12  # a lease that never runs out
_AT_ONCE_S = 1e-6  # one that has run out
_SKIPPED = ("code", LOST, "wandb")


def check_queue_files(run: RunDir) -> Iterator[Finding]:
    """Entries of queue folders that are no messages: links, folders, devices, foreign names."""
    for name in QUEUES:
        for folder in sorted(path for path in (run.path / "queues" / name).glob("*") if path.is_dir()):
            suffixes = _suffixes(folder.name)
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
                regular = stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode)
                if entry.name.startswith(".") and regular:
                    continue  # a probe or a file system's own leftover: see check_leftovers
                if not regular or not entry.name.endswith(suffixes):
                    yield _stray(run, Path(entry.path), "a foreign file" if regular else "a link or no file")


def check_puts(run: RunDir) -> Iterator[Finding]:
    """Puts that a dead producer left: with its key taken they are finished, without they never happened."""
    for name in QUEUES:
        root = run.path / "queues" / name
        for path in sorted((root / "tmp").glob("*.put")):
            unfinished = path.lstat().st_nlink > 1
            yield Finding(
                "put-unfinished" if unfinished else "put-abandoned",
                Severity.WARNING,
                relative(run, path),
                "no message in tmp/ while nothing runs",
                "a message whose producer died before it was ready"
                if unfinished
                else "one that has no key yet",
                "nothing: the next process finishes it" if unfinished else "nothing: it was never published",
                partial(_finish, run, root, path) if unfinished else partial(set_aside, run, path),
            )


def check_splits(run: RunDir) -> Iterator[Finding]:
    """Batches that a dead worker was taking apart: behind the fence that is finished, before it never happened."""
    for name in QUEUES:
        root = run.path / "queues" / name
        settled = {path.stem for path in (root / "tmp").glob("*.settle")}
        parts = [(part.token, root / "tmp" / str(part)) for part in _parts(root / "tmp")]
        open_tokens = {token for token, _ in parts}
        for token in sorted(settled):
            yield Finding(
                "split-unfinished" if token in open_tokens else "split-forgotten",
                Severity.WARNING,
                f"queues/{name}/tmp/{token}.settle",
                "no batch in tmp/ while nothing runs",
                "a batch whose worker died while it took it apart",
                "nothing: the next process finishes it, the rest is swept",
                partial(_finish_split, run, root, token),
            )
        for token, path in parts:
            if token not in settled:
                yield Finding(
                    "split-abandoned",
                    Severity.WARNING,
                    relative(run, path),
                    "no part of a batch in tmp/ while nothing runs",
                    "a part of a batch that was never taken apart",
                    "nothing: it is swept",
                    partial(set_aside, run, path),
                )


def check_claims(run: RunDir, max_deliveries: int) -> Iterator[Finding]:
    """Seeds that a dead worker holds. (Answers stay claimed by design: the trainer takes them back itself.)"""
    keys = run.queue("seeds").keys("claimed")
    if keys:
        yield Finding(
            "claims-stale",
            Severity.WARNING,
            "queues/seeds/claimed",
            "no claim while nothing runs",
            f"{len(keys)} seeds held by workers that are gone: {_some(keys)}",
            "nothing: they are taken back when their lease runs out",
            partial(_hand_back, run, max_deliveries),
        )


def check_links(run: RunDir) -> Iterator[Finding]:
    """Links outside the queues: a run has none, and following one would read or change what is not its own."""
    for path in _walk(run, (*_SKIPPED, "queues", "attempts")):
        if path.is_symlink():
            yield Finding(
                "link",
                Severity.ERROR,
                relative(run, path),
                "files and folders only; nothing else was checked before this is solved",
                f"a link to {os.readlink(path)}",
                "find out who put it there",
                partial(set_aside, run, path),
            )


def check_leftovers(run: RunDir) -> Iterator[Finding]:
    """Half-written files: of replacements that did not come to the rename, and probes."""
    for path in _walk(run, _SKIPPED):
        if path.name.startswith(".") and (
            path.name.endswith(".tmp") or path.name.startswith((".probe-", ".space-"))
        ):
            yield Finding(
                "leftover",
                Severity.WARNING,
                relative(run, path),
                "no temporary file while nothing runs",
                f"{path.lstat().st_size} bytes of a write that its process did not live to finish",
                "nothing: nobody reads it",
                partial(set_aside, run, path),
            )


def _walk(run: RunDir, skipped: tuple[str, ...]) -> Iterator[Path]:
    """What lies below the run directory, but for some of its folders. Follows no link."""
    for parent, folders, names in os.walk(run.path):
        here = Path(parent)
        folders[:] = [name for name in folders if not (here == run.path and name in skipped)]
        yield from (here / name for name in sorted([*folders, *names]))


def _suffixes(folder: str) -> tuple[str, ...]:
    """How names in a queue's folder end."""
    return {"tmp": (".put", ".settle", ".part"), "claimed": (".lease",)}.get(folder, (".json",))


def _stray(run: RunDir, path: Path, found: str) -> Finding:
    return Finding(
        "queue-stray",
        Severity.ERROR,
        relative(run, path),
        "messages only",
        found,
        "find out who put it there",
        partial(set_aside, run, path),
    )


def _finish(run: RunDir, root: Path, path: Path) -> str:
    Queue(root, lease_s=_FOREVER_S).reap()
    return f"finished the put of {relative(run, path)}"


def _parts(tmp: Path) -> list[PartName]:
    parsed = map(PartName.parse, sorted(path.name for path in tmp.glob("*.part")))
    return [part for part in parsed if part is not None]


def _finish_split(run: RunDir, root: Path, token: str) -> str:
    """Move the parts to their places; the batch they came from is set aside."""
    Queue(root, lease_s=_FOREVER_S).reap()
    batch = root / "tmp" / f"{token}.settle"
    moved = f"; {set_aside(run, batch)}" if batch.exists() else ""
    return f"finished taking apart the batch {token} of {root.name}{moved}"


def _hand_back(run: RunDir, max_deliveries: int) -> str:
    count = run.queue("seeds", lease_s=_AT_ONCE_S, max_deliveries=max_deliveries).reap()
    return f"took {count} seeds back from workers that are gone"


def _some(keys: list[str], shown: int = 3) -> str:
    more = f" and {len(keys) - shown} more" if len(keys) > shown else ""
    return ", ".join(keys[:shown]) + more
