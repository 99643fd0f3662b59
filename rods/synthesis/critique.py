"""Stage 4: rules, then a judge; a rejected dialogue may be refined once, if its messages are at fault."""

from __future__ import annotations

from dataclasses import replace

from rods.synthesis import grounding, rules
from rods.synthesis.agents import Judgement, RefineClass
from rods.synthesis.context import Context, Draft
from rods.synthesis.errors import ConversationConstructFailure, SynthesisError


async def critique(context: Context, draft: Draft) -> Draft:
    """The draft, accepted by rules and judge, its messages refined at most once.

    Raises:
        SynthesisError: conversation_construct_failed naming what was found, or the backend's failure.
    """
    _check_arguments(context, draft)
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


def _check_arguments(context: Context, draft: Draft) -> None:
    calls = [call for turn in draft.turns for call in turn.calls]
    problems = rules.oversized(calls, context.config.max_string, context.config.max_list)
    seed = context.seed
    same_calls = [turn.calls for turn in draft.turns] == [turn.calls for turn in seed.turns]
    if same_calls and draft.initial_state == seed.task.initial_state:
        problems.append("state and calls are the seed's own")
    if problems:
        raise _rejected(tuple(problems))


async def _review(context: Context, draft: Draft) -> tuple[Draft, tuple[str, ...]]:
    """The draft with the judge's words, and what rules or judge find; only a dialogue that the rules pass is worth
    the judge's time.
    """
    calls = [call for turn in draft.turns for call in turn.calls]
    found = rules.named_functions(draft.queries, calls, context.seed.docs)
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
