"""Stage 5: the turn in which the right answer is not to call. A variant keeps its seed's type.

miss_func hides a needed function for one added turn and restores it in the next; miss_param first asks
without a needed value and gives it in the next turn. base needs nothing; long_context is a flag of the
simulators, which the executor has set from the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rods.simulation.exposure import expose
from rods.synthesis import withholding
from rods.synthesis.agents import MissingFunction, MissingParameter
from rods.synthesis.context import Context, Draft, skeleton
from rods.synthesis.errors import ConversationConstructFailure, SynthesisError
from rods.tasks.bfcl import RESTORED_QUERY
from rods.tasks.model import TaskType, Turn
from rods.tasks.profile import accidental, leaves, result_value, visible


async def challenge(context: Context, draft: Draft) -> tuple[tuple[Turn, ...], tuple[str, ...]]:
    """The finished dialogue in the seed's type, and the functions withheld at first.

    Raises:
        SynthesisError: conversation_construct_failed when the agent's choice would not make such a turn.
    """
    turns = tuple(Turn(query, turn.calls) for query, turn in zip(draft.queries, draft.turns, strict=True))
    if context.seed.task.type is TaskType.MISS_FUNC:
        return await _miss_func(context, draft, turns)
    if context.seed.task.type is TaskType.MISS_PARAM:
        return await _miss_param(context, draft, turns), ()
    return turns, ()


async def _miss_func(
    context: Context, draft: Draft, turns: tuple[Turn, ...]
) -> tuple[tuple[Turn, ...], tuple[str, ...]]:
    answer = await context.ask(
        "miss_func", MissingFunction, {"draft": draft}, failure=ConversationConstructFailure
    )
    index, function = answer.turn, answer.function
    _expect_call(turns, index, function)
    if any(call.name == function for turn in turns[:index] for call in turn.calls):
        raise _failed("needed before the turn in which it would be hidden", function, index)
    asked, hidden = turns[index], Turn(turns[index].query, ())
    restored = Turn(_restored_text(context), asked.calls, restored=(function,))
    return (*turns[:index], hidden, restored, *turns[index + 1 :]), (function,)


async def _miss_param(context: Context, draft: Draft, turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    answer = await context.ask(
        "miss_param", MissingParameter, {"draft": draft}, failure=ConversationConstructFailure
    )
    index, function = answer.turn, answer.function
    value = _expect_call(turns, index, function).get(answer.parameter)
    if value is None or not list(leaves(value)):
        raise _failed(f"has no argument {answer.parameter!r} to withhold", function, index)
    for leaf in leaves(value):
        if not visible(leaf, answer.clarification):
            raise _failed(f"the clarification does not give {leaf!r}", function, index)
        source = "" if accidental(leaf) else _source(context, draft, answer, leaf)
        if source:
            raise _failed(f"{leaf!r} can be known without the clarification: {source}", function, index)
    blurred = Turn(answer.blurred.strip(), ())
    clear = Turn(answer.clarification.strip(), turns[index].calls)
    if not blurred.query:
        raise _failed("the blurred message is empty", function, index)
    return (*turns[:index], blurred, clear, *turns[index + 1 :])


def _expect_call(turns: Sequence[Turn], index: int, function: str) -> dict[str, Any]:
    """Arguments of the turn's first call of `function`."""
    if 0 <= index < len(turns):
        for call in turns[index].calls:
            if call.name == function:
                return dict(call.arguments)
    raise _failed("is not called in that turn", function, index)


def _source(context: Context, draft: Draft, answer: MissingParameter, leaf: Any) -> str:
    """Where the withheld value can be had before the clarification, in words; "" for nowhere."""
    index = answer.turn
    schema = context.seed.docs[answer.function].parameters["properties"].get(answer.parameter, {})
    if withholding.told(leaf, (*draft.queries[:index], answer.blurred)):
        return "a message says it"
    if withholding.shown(leaf, [text for turn in draft.turns[:index] for text in turn.results]):
        return "a result shows it"
    if withholding.documented(leaf, schema):
        return "it is the parameter's default or only option"
    state = result_value(expose(skeleton(context.seed.task, draft)).states[index])
    if withholding.only_one(leaf, answer.parameter, state):
        return "it is the only thing of its kind in the world"
    return ""


def _restored_text(context: Context) -> str:
    said = [turn.query for turn in context.seed.task.turns if turn.restored and turn.query]
    return said[0] if said else RESTORED_QUERY


def _failed(detail: str, function: str, turn: int) -> SynthesisError:
    return ConversationConstructFailure(detail, function=function, turn=turn)
