"""Whether a dialogue leads to its calls: every check by rule of what messages say against what calls need.

Each function takes a dialogue and what following it shows (`rods.simulation.exposure`), and returns its
violations in words for a log or a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rods.simulation.exposure import Exposure
from rods.simulation.functions import FunctionDoc
from rods.synthesis import units
from rods.synthesis.references import ambiguous
from rods.tasks.audit import Finding, audit
from rods.tasks.model import Task


def problems(task: Task, exposure: Exposure, docs: Mapping[str, FunctionDoc]) -> list[str]:
    """Violations of all checks; arguments that nothing leads to first."""
    nowhere = underivable(task, exposure)
    return [
        *nowhere,
        *(text for text in unobserved(task, exposure) if text not in nowhere),
        *ambiguous(task, exposure),
        *disagreeing_units(task, docs),
    ]


def underivable(task: Task, exposure: Exposure) -> list[str]:
    """Arguments found in no message so far, no earlier result, no state and no documentation."""
    return _words(audit(task, exposure.results, exposure.states, exposure.tools))


def unobserved(task: Task, exposure: Exposure) -> list[str]:
    """Arguments of later turns that the messages and results before do not entail.

    In the first turn a policy may look for a value in the world. A later turn continues what was found: a value
    that only the world holds has not come up in the dialogue.
    """
    seen = replace(exposure, states=(*exposure.states[:1], *("" for _ in exposure.states[1:])))
    return _words(audit(task, seen.results, seen.states, seen.tools))


def disagreeing_units(task: Task, docs: Mapping[str, FunctionDoc]) -> list[str]:
    """Numbers taken over from a message, or the unanswered one before it, in the wrong unit."""
    found: list[str] = []
    open_queries: list[str] = []
    for index, turn in enumerate(task.turns):
        open_queries.append(turn.query)
        found += [
            f"turn {index + 1}: {text}"
            for text in units.mismatches("\n".join(open_queries), turn.calls, docs)
        ]
        if turn.calls:
            open_queries.clear()
    return found


def _words(findings: Sequence[Finding]) -> list[str]:
    return [
        f"turn {item.turn + 1}: {item.function} has {item.argument}={item.value!r}, which nothing leads to"
        for item in findings
    ]
