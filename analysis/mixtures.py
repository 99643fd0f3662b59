"""In what systems that stand side by side differ besides the method: models, tasks, and what they were scored on.

The paper's main table has several models, so none of this is wrong; a reader must only not take it for an effect.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from analysis.comparisons import Scored
from analysis.systems import settings

_MODEL = "model.path"
_TASKS = "tasks."


def told(systems: Sequence[Scored]) -> list[str]:
    """A sentence for each kind of difference that there is."""
    return [*_models(systems), *_tasks(systems), *_measured(systems)]


def _models(systems: Sequence[Scored]) -> list[str]:
    starts = Counter(settings(each.system.config)[_MODEL] for each in systems)
    if len(starts) < 2:
        return []
    return [
        f"Different models to start from: {_counted(starts.items())}. They differ in more than the method."
    ]


def _tasks(systems: Sequence[Scored]) -> list[str]:
    found = [settings(each.system.config) for each in systems]
    keys = sorted(key for key in set().union(*found) if key.startswith(_TASKS))
    values = {key: sorted({own.get(key, "–") for own in found}) for key in keys}
    differing = [f"{key} {' or '.join(each)}" for key, each in values.items() if len(each) > 1]
    if not differing:
        return []
    return [
        f"Different settings of the tasks: {', '.join(differing)}. Curves and counts are not of the same tasks."
    ]


def _measured(systems: Sequence[Scored]) -> list[str]:
    """Systems whose scores are of different tasks; measures that are alike in this share a sentence."""
    measures = dict.fromkeys(measure for each in systems for measure in each.scores)
    sentences: dict[str, list[str]] = defaultdict(list)
    for measure in measures:
        scored = Counter(each.tasks(measure) for each in systems if measure in each.scores)
        if len(scored) > 1:
            sets = _counted((f"{len(tasks)} tasks", count) for tasks, count in scored.items())
            sentences[f"{sets}; {len(frozenset.intersection(*scored))} in common"].append(measure)
    return [
        f"Scored on different tasks: {which} ({', '.join(measures)}). Compare them only over those in common."
        for which, measures in sentences.items()
    ]


def _counted(found: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{what} ({count} system{'s' if count != 1 else ''})" for what, count in found)
