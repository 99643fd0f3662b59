"""docs/metrics.md as tables: which keys a line of metrics may have, and which it must."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
_TYPES = ("base", "miss_func", "miss_param", "long_context")


def keys(section: str) -> set[str]:
    """The keys in the first column of a section's table; `TYPE` stands for any task type."""
    text = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)
    (body,) = [part for part in text if part.startswith(f"{section}\n")]
    cells = [line.split("|")[1] for line in body.splitlines() if line.startswith("| `")]
    return {key for cell in cells for key in re.findall(r"`(\w+)`", cell)}


def missing_and_unknown(
    lines: Iterable[dict[str, object]], always: set[str], sometimes: set[str]
) -> tuple[set[str], set[str]]:
    """Documented keys that some line lacks, and keys of some line that are not documented."""
    found = [{_general(key) for key in line} for line in lines]
    lacking = {key for line in found for key in always - line}
    return lacking, {key for line in found for key in line - always - sometimes}


def _general(key: str) -> str:
    return "reward_TYPE" if key.removeprefix("reward_") in _TYPES else key
