"""A report for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rods.fsck.report import Report


def lines(report: Report) -> Iterator[str]:
    """The report, one line a fact."""
    if report.alive:
        yield f"{report.run} is being run: this is a look at moving files, what is in flight may show below."
    for repair in report.repairs:
        yield f"repaired: {repair}"
    for each in report.findings:
        yield f"{each.severity}  {each.code}  {each.path}: expected {each.expected}; found {each.found}."
        yield f"    {each.advice}{' (--repair mends it)' if each.mend else ''}"
    counts = Counter(str(each.severity) for each in report.findings)
    summary = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing to report"
    yield f"{report.run}: {'sound' if report.sound else 'NOT SOUND'} ({summary})"
