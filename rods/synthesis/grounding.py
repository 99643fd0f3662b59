"""Stage 3: the user's messages, written after execution, so that they describe what really happens.

Each turn's message is written and verified against its calls on its own; one holistic rewrite then makes a
dialogue of them. The rewrite can be switched off (`synthesis.coherence_rewrite`): the paper's ablation.
"""

from __future__ import annotations

from rods.synthesis.agents import Query, Rewrite, Verification
from rods.synthesis.context import Context, Draft
from rods.synthesis.errors import QueryGenFailure, QueryVerifyFailure, QueryVerifyNoTagFailure


async def ground(context: Context, draft: Draft) -> Draft:
    """The draft with one verified message per turn.

    Raises:
        SynthesisError: query_gen_failed, query_verify_failed, query_verify_no_tag, or the backend's failure.
    """
    queries: list[str] = []
    for turn in range(len(draft.turns)):
        text = await _write(context, draft.with_queries(tuple(queries)), turn)
        queries.append(text)
        await _verify(context, draft.with_queries(tuple(queries)), turn)
    grounded = draft.with_queries(tuple(queries))
    if not context.config.coherence_rewrite:
        return grounded
    return await rewrite(context, grounded)


async def rewrite(
    context: Context, draft: Draft, issues: tuple[str, ...] = (), agent: str = "rewriter"
) -> Draft:
    """All messages rewritten together; `issues` is what a judge found (agent "refiner").

    Raises:
        SynthesisError: query_gen_failed when the number of messages changed or one is empty.
    """
    inputs = {"draft": draft, "issues": issues}
    answer = await context.ask(agent, Rewrite, inputs, failure=QueryGenFailure)
    if len(answer.queries) != len(draft.turns) or not all(query.strip() for query in answer.queries):
        detail = f"expected {len(draft.turns)} messages, found {len(answer.queries)} or an empty one"
        raise QueryGenFailure(f"{agent}: {detail}")
    return draft.with_queries(tuple(query.strip() for query in answer.queries))


async def _write(context: Context, draft: Draft, turn: int) -> str:
    inputs = {"draft": draft, "turn": turn}
    answer = await context.ask("query", Query, inputs, failure=QueryGenFailure, turn=turn)
    text = answer.text.strip()
    if not text:
        raise QueryGenFailure("an empty message", turn=turn)
    return text


async def _verify(context: Context, draft: Draft, turn: int) -> None:
    inputs = {"draft": draft, "turn": turn}
    answer = await context.ask("verifier", Verification, inputs, failure=QueryVerifyNoTagFailure, turn=turn)
    if answer.verdict is None:
        raise QueryVerifyNoTagFailure(answer.reason or "no verdict", turn=turn)
    missing = sorted(set(range(len(draft.turns[turn].calls))) - set(answer.covered))
    if answer.verdict == "no" or missing:
        names = [draft.turns[turn].calls[index].name for index in missing]
        detail = answer.reason or f"the message does not ask for {names}"
        raise QueryVerifyFailure(detail, turn=turn)
