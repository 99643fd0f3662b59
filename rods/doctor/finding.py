"""What a probe says: a measurement, whether it will do, and what it means for the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How much a finding matters; `unfit` means that a run here would lose work."""

    ok = "ok"
    note = "note"
    warning = "warning"
    unfit = "unfit"


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's table.

    Attributes:
        probe: what was looked at.
        measured: the result, for a person.
        meaning: what follows for a run and its configuration.
        figures: the numbers behind `measured`.
    """

    probe: str
    level: Level
    measured: str
    meaning: str
    figures: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self) | {"level": str(self.level)}


def is_fit(findings: Sequence[Finding]) -> bool:
    """Whether a run can be trusted to the directory."""
    return all(finding.level is not Level.unfit for finding in findings)
