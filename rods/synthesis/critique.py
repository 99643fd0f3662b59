"""Stage 4: rules, then a judge; a rejected dialogue may be refined once, if its messages are at fault."""

from __future__ import annotations

from dataclasses import replace

from rods.simulation.exposure import expose
from rods.synthesis import coherence, grounding, rules
from rods.synthesis.agents import Judgement, RefineClass
from rods.synthesis.context import Context, Draft, skeleton
from rods.synthesis.errors import ConversationConstructFailure, SynthesisError


async def critique(context: Context, draft: Draft) -> Draft:
    """The draft, accepted by rules and judge, its messages refined at most once.

    Raises:
        SynthesisError: conversation_construct_failed naming what was found, or the backend's failure.
    """
    draft, issues = await _review(context, draft)
    if not issues:
        return draft
    inputs = {"draft": draft, "issues": issues}
    answer = await context.ask("refine_class", RefineClass, inputs, failure=ConversationConstructFailure)
    if answer.verdict == "gt_unfixable":
        raise _rejected(issues)
    refined = await grounding.rewrite(context, draft, issues, agent="refiner")
    refined, remaining = await _review(context, refined)
    if remaining:
        raise _rejected(remaining)
    return refined


async def _review(context: Context, draft: Draft) -> tuple[Draft, tuple[str, ...]]:
    """The draft with the judge's words, and what rules or judge find; only a dialogue that the rules pass is worth
    the judge's time.
    """
    calls = [call for turn in draft.turns for call in turn.calls]
    task = skeleton(context.seed.task, draft)
    found = [
        *rules.named_functions(draft.queries, calls, context.seed.docs),
        *coherence.problems(task, expose(task), context.seed.docs),
    ]
    if found:
        return draft, tuple(found)
    inputs = {"draft": draft}
    answer = await context.ask("judge", Judgement, inputs, failure=ConversationConstructFailure)
    judged = replace(draft, judgement=answer.reason)
    if answer.accepted:
        return judged, ()
    return judged, tuple(answer.issues or [answer.reason or "rejected without a reason"])


def _rejected(issues: tuple[str, ...]) -> SynthesisError:
    return ConversationConstructFailure("; ".join(issues))
