"""What the exchange stands on: renames that are all or nothing, names that only one can take."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from rods.doctor.finding import Finding, Level
from rods.doctor.processes import beside, race

ROUNDS = 60
_READING_S = 0.4
_SIZE = 64 * 1024


def replacement(folder: Path) -> Finding:
    """Two processes replace one file while a third reads it: it is always there, and always whole."""
    target = folder / "replaced"
    target.write_bytes(b"0" * _SIZE)
    deadline = time.monotonic() + _READING_S

    def replace(letter: bytes) -> int:
        count = 0
        while time.monotonic() < deadline:
            own = folder / f"own-{letter.decode()}"
            own.write_bytes(letter * _SIZE)
            os.replace(own, target)
            count += 1
        return count

    reads = missing = torn = 0
    with beside(lambda: replace(b"1"), lambda: replace(b"2")) as answers:
        while time.monotonic() < deadline:
            reads += 1
            try:
                data = target.read_bytes()
            except FileNotFoundError:
                missing += 1
                continue
            torn += len(data) != _SIZE or len(set(data)) != 1
        replaced = sum(answers())
    figures = {"replacements": replaced, "reads": reads, "missing": missing, "torn": torn}
    if missing or torn:
        return Finding(
            "rename over a file",
            Level.unfit,
            f"of {reads} reads {missing} found no file and {torn} a mixture",
            "Replacing a file is not atomic here: a reader would see half a tracker or a manifest. Use another "
            "file system for launch.runs_dir.",
            figures,
        )
    return Finding(
        "rename over a file",
        Level.ok,
        f"{replaced} replacements, {reads} reads, all whole",
        "Readers see the old file or the new one.",
        figures,
    )


def claims(folder: Path) -> Finding:
    """Two processes rename the same file away: exactly one succeeds."""
    for number in range(ROUNDS):
        (folder / f"message-{number}").touch()
    return _judge(
        "rename as a claim",
        lambda who, number: os.rename(folder / f"message-{number}", folder / f"claimed-{number}-by-{who}"),
        "Two workers would work on the same message, or one would be lost",
    )


def links(folder: Path) -> Finding:
    """Two processes link to the same name: exactly one succeeds."""
    for who in range(2):
        (folder / f"linked-{who}").touch()
    return _judge(
        "exclusive hard link",
        lambda who, number: os.link(folder / f"linked-{who}", folder / f"key-{number}"),
        "A key could be put twice, and a run could get two owners",
    )


def folders(folder: Path) -> Finding:
    """Two processes make the same folder: exactly one succeeds."""
    return _judge(
        "exclusive mkdir",
        lambda who, number: os.mkdir(folder / f"attempt-{number}"),
        "Two starts could get the same attempt number",
    )


def _judge(probe: str, attempt: Callable[[int, int], None], danger: str) -> Finding:
    wins = race(attempt, ROUNDS)
    figures = {"rounds": ROUNDS, "wins": sum(wins)}
    if sum(wins) != ROUNDS:
        return Finding(
            probe,
            Level.unfit,
            f"{ROUNDS} rounds between two processes had {sum(wins)} winners",
            f"{danger}. Use another file system for launch.runs_dir.",
            figures,
        )
    measured = f"{ROUNDS} rounds between two processes, one winner each"
    return Finding(probe, Level.ok, measured, "Nothing is taken twice.", figures)
