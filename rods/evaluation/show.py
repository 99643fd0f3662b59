"""A result for a person's eyes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rods.evaluation.result import Comparison


def table(result: Mapping[str, Any], comparison: Comparison | None, folder: Path) -> str:
    """The score in all and by type with its intervals, in percent, and the comparison where there is one."""
    policy = result["policy"]
    step = "" if policy["step"] is None else f", step {policy['step']}"
    rows = {"overall": result["overall"], **result["by_type"]}
    lines = [
        f"{policy['given']}{step}: {result['suite']}, {result['split']}",
        f"{'':14}{'passed':>10}{'accuracy':>10}{'95% interval':>16}{'turns':>8}",
        *(_row(name, row) for name, row in rows.items()),
    ]
    if cut := result["ends"]["length"]:
        lines.append(f"{cut} episodes ended for lack of room (model.max_length)")
    if comparison is not None:
        bootstrap, score = (
            f"[{each.low:+.1%}, {each.high:+.1%}]"
            for each in (comparison.interval, comparison.score_interval)
        )
        lines.append(
            f"difference {comparison.difference:+.1%} {bootstrap}, by Newcombe {score}; passed by this one alone "
            f"{comparison.only_ours}, by the other alone {comparison.only_theirs}, p = {comparison.p_value:.3g}"
        )
    return "\n".join([*lines, f"kept in {folder}"])


def _row(name: str, row: Mapping[str, Any]) -> str:
    interval = f"{row['interval']['low']:.1%} … {row['interval']['high']:.1%}"
    counts = f"{row['passed']}/{row['count']}"
    return f"{name:14}{counts:>10}{row['accuracy']:>10.1%}{interval:>16}{row['progress']:>8.1%}"
