"""An evaluation's folder: which evaluation it is of, which checkpoint that began with, and one process at a time."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from rods.errors import RodsError
from rods.evaluation import policies
from rods.exchange import marker
from rods.exchange.atomic import CorruptFileError, make_dirs, read_json, write_json

TRAJECTORIES = "trajectories.jsonl"  # what was played
POLICY = "policy"  # a checkpoint's weights, gathered
_NOTE = "evaluation.json"  # what a folder is for, written before anything is played
_PIN = "pinned.json"  # the checkpoint that a launched evaluation began with
_LOCK = ".lock"
_HOLDER = ".holder.json"
_NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL)  # of flock, by file system


class EvaluationError(RodsError):
    """A folder that belongs to another evaluation, or to another process."""


@contextmanager
def alone(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Keep other processes out of `folder`, which is made. A process that is killed lets go of it.

    Args:
        say: told where the file system has no locks, so that others are not kept out.

    Raises:
        EvaluationError: another process evaluates there; names it.
    """
    make_dirs(folder)
    # A marker in the lock's place would outlive a process that is killed on another node.
    lock = FileLock(folder / _LOCK, timeout=0, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        raise EvaluationError(
            f"{folder}: {_holder(folder)} plays this evaluation; wait for its end and start the command again to read "
            "the result, or give another --out"
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        say(
            f"note: {folder}: no file locks here ({error.strerror}); do not start this evaluation twice at once"
        )
    try:
        write_json(folder / _HOLDER, {"pid": os.getpid(), "host": socket.gethostname()})
        yield
    finally:
        lock.release()


def identity(facts: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of what is evaluated, on what and how; not of the words that named the policy."""
    named = {**facts, "policy": {**facts["policy"], "given": ""}}
    return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()


def claim(folder: Path, facts: Mapping[str, Any]) -> None:
    """The folder is this evaluation's.

    Raises:
        EvaluationError: it is another one's.
    """
    note = folder / _NOTE
    if not note.is_file():
        write_json(note, facts)
        return
    found = read_json(note)
    if not isinstance(found, dict) or not isinstance(found.get("policy"), dict):
        raise EvaluationError(
            f"{note}: expected what the evaluation in this folder is of, found something else; remove the folder, or "
            "give another --out"
        )
    if identity(found) != identity(facts):
        other = sorted(key for key in facts if facts[key] != found.get(key))
        raise EvaluationError(
            f"{folder}: expected a new folder or one that this evaluation began, found one with another "
            f"{', '.join(other)}; give another --out, or remove it"
        )


def began_with(folder: Path) -> policies.Chosen | None:
    """The checkpoint that was pinned in `folder`, while it can still be scored: gathered, or whole where it was.

    Raises:
        CorruptFileError: the note of it is damaged; names it.
    """
    if not (folder / _PIN).is_file():
        return None
    kept = _read_pin(folder)
    there = (folder / POLICY / "config.json").is_file() or marker.flaw(kept.folder) is None
    return kept if there else None


def pinned(given: str, folder: Path) -> policies.Chosen:
    """The policy of the evaluation in `folder`: the checkpoint that it began with, else what `given` names today.

    A run that still trains has a newer checkpoint at each look, and removes old ones. What was begun with one that was
    removed before its weights were gathered has played nothing, and begins anew.

    Raises:
        EvaluationError: something was played with a checkpoint of which nothing is left.
        RodsError: as `rods.evaluation.policies.find`; or a damaged note.
    """
    before = began_with(folder)
    if before is not None:
        return before
    _begin_anew(folder)
    found = policies.find(given)
    if found.run is None or found.step is None:
        return found
    make_dirs(folder)
    kept = replace(
        found, folder=found.folder.resolve(), run=found.run.resolve(), sha256=policies.fingerprint(found)
    )
    body = {name: getattr(kept, name) for name in ("given", "step", "sha256")}
    write_json(folder / _PIN, {**body, "folder": str(kept.folder), "run": str(kept.run)})
    return kept


def _read_pin(folder: Path) -> policies.Chosen:
    body = read_json(folder / _PIN)
    try:
        if "\0" in body["folder"] + body["run"]:
            raise ValueError("a path with a null byte")
        return policies.Chosen(
            str(body["given"]),
            Path(body["folder"]),
            Path(body["run"]),
            int(body["step"]),
            str(body["sha256"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CorruptFileError(
            f"{folder / _PIN}: expected the checkpoint that this evaluation began with, found {str(body)[:200]}; "
            f"remove {folder} to begin anew"
        ) from error


def _begin_anew(folder: Path) -> None:
    """Forget a checkpoint of which nothing is left, unless something was played with it."""
    if not (folder / _PIN).is_file():
        return
    if (folder / TRAJECTORIES).is_file() and (folder / TRAJECTORIES).stat().st_size:
        began = _read_pin(folder)
        raise EvaluationError(
            f"{folder}: expected the checkpoint that this evaluation began with, step {began.step} of {began.run}, or "
            f"its weights in {POLICY}/, found neither; what was played cannot go on with another one: remove the "
            "folder to begin anew"
        )
    (folder / _NOTE).unlink(missing_ok=True)
    (folder / _PIN).unlink()


def _holder(folder: Path) -> str:
    """Who holds the lock, as far as it has said so."""
    try:
        body = read_json(folder / _HOLDER)
        return f"process {body['pid']} on {body['host']}"
    except (FileNotFoundError, CorruptFileError, KeyError, TypeError):
        return "another process"
