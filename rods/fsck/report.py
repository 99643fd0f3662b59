"""What a check finds, and where things go that a repair takes out of the way."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from rods.errors import RodsError
from rods.exchange.atomic import fsync_dir, make_dirs
from rods.exchange.rundir import RunDir

LOST = "lost+found"


class FsckError(RodsError):
    """A run directory that cannot be checked or repaired as asked."""


class Severity(StrEnum):
    """info: worth knowing; warning: left by a crash, the next attempt copes; error: something is not right."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """One thing that is not as expected.

    Attributes:
        code: stable name of the kind.
        path: where, relative to the run directory.
        advice: what to do.
        mend: repairs it and says what it did; None where that would not be safe.
    """

    code: str
    severity: Severity
    path: str
    expected: str
    found: str
    advice: str
    mend: Callable[[], str] | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Plain data, `mend` as the flag `repairable`."""
        names = ("code", "severity", "path", "expected", "found", "advice")
        return {name: str(getattr(self, name)) for name in names} | {"repairable": self.mend is not None}


@dataclass(frozen=True)
class Report:
    """What one `rods fsck` found and did.

    Attributes:
        alive: somebody follows the run; what is in flight may show as a finding.
        findings: as they are after the repairs.
        repairs: what was done, in order.
    """

    run: str
    alive: bool
    findings: tuple[Finding, ...]
    repairs: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """No finding is an error."""
        return all(finding.severity is not Severity.ERROR for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Plain data for `rods fsck --json`."""
        return {
            "run": self.run,
            "alive": self.alive,
            "sound": self.sound,
            "findings": [finding.to_json() for finding in self.findings],
            "repairs": list(self.repairs),
        }


def relative(run: RunDir, path: Path) -> str:
    """`path` as it is shown: relative to the run directory."""
    return path.relative_to(run.path).as_posix() if path.is_relative_to(run.path) else str(path)


def set_aside(run: RunDir, path: Path) -> str:
    """Move `path` to lost+found/, under its name in the run directory; nothing there is ever replaced."""
    target = run.path / LOST / relative(run, path)
    make_dirs(target.parent)
    number, free = 0, target
    while os.path.lexists(free):
        number += 1
        free = target.with_name(f"{target.name}.{number}")
    path.rename(free)
    fsync_dir(free.parent)
    fsync_dir(path.parent)
    return f"moved {relative(run, path)} to {relative(run, free)}"
