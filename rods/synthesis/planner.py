"""Stage 1: a narrative and the functions of each turn, before any argument exists.

Planning first is what makes the turns of a variant tell one story. A plan may name composites, which are
decomposed into bottom-level functions here; the paper decomposes too but does not publish its map, so this
one is ours and small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rods.simulation.functions import FunctionDoc
from rods.synthesis.agents import Plan
from rods.synthesis.context import Context
from rods.synthesis.errors import DecomposeFailure, FuncSampleFailure, SynthesisError
from rods.synthesis.seeds import Seed
from rods.tasks.profile import Profile, distance, isomorphic

# Ours. Each needs every one of its parts among the task's functions.
COMPOSITES: Mapping[str, tuple[str, ...]] = {
    "make_directory_and_enter": ("mkdir", "cd"),
    "create_file_with_text": ("touch", "echo"),
    "start_engine_safely": ("lockDoors", "pressBrakePedal", "startEngine"),
    "check_and_inflate_tires": ("check_tire_pressure", "find_nearest_tire_shop", "set_navigation"),
    "order_at_market_price": ("get_stock_info", "place_order"),
    "price_and_book_flight": ("get_flight_cost", "book_flight"),
}


@dataclass(frozen=True)
class Outline:
    """A checked plan.

    Attributes:
        narrative: two or three sentences.
        functions: bottom-level function names per turn, each turn with at least one.
        initial_state: class name → scenario that the calls will run on.
    """

    narrative: str
    functions: tuple[tuple[str, ...], ...]
    initial_state: Mapping[str, Any]


async def plan(
    context: Context, state: Mapping[str, Any], history: Sequence[SynthesisError], blocklist: Sequence[str]
) -> Outline:
    """Ask the planner and check its answer.

    Args:
        context: the attempt.
        state: the initial state with the patches of earlier attempts.
        history: why earlier attempts failed.
        blocklist: calls that failed, as JSON, not to be repeated.

    Raises:
        SynthesisError: decompose_failed, func_sample_failed, or the backend's failure.
    """
    seed = context.seed
    inputs = {
        "state": state,
        "history": [failure.to_json() | {"guidance": failure.guidance} for failure in history],
        "blocklist": list(blocklist),
        "composites": composites(seed.docs),
    }
    answer = await context.ask("planner", Plan, inputs, failure=FuncSampleFailure)
    functions = tuple(decompose(turn.functions, seed.docs, index) for index, turn in enumerate(answer.turns))
    _check_shape(context, functions)
    chosen = state if answer.initial_state is None else answer.initial_state
    if set(chosen) != set(state):
        detail = f"expected a state for the classes {sorted(state)}, found {sorted(chosen)}"
        raise FuncSampleFailure(detail)
    return Outline(answer.narrative, functions, chosen)


def composites(docs: Mapping[str, FunctionDoc]) -> dict[str, tuple[str, ...]]:
    """The composites whose parts are all documented."""
    return {name: parts for name, parts in COMPOSITES.items() if all(part in docs for part in parts)}


def decompose(names: Sequence[str], docs: Mapping[str, FunctionDoc], turn: int) -> tuple[str, ...]:
    """Bottom-level functions of one turn, composites replaced by their parts.

    Raises:
        SynthesisError: decompose_failed for a name that is neither.
    """
    known = composites(docs)
    functions: list[str] = []
    for name in names:
        if name not in docs and name not in known:
            raise DecomposeFailure("neither a function nor a composite", function=name, turn=turn)
        functions.extend(known.get(name, (name,)))
    return tuple(functions)


def _check_shape(context: Context, functions: tuple[tuple[str, ...], ...]) -> None:
    """Refuse a plan whose shape alone is farther from the seed's than Φ may be: execution cannot mend it."""
    if not functions or not all(functions):
        raise FuncSampleFailure("expected at least one turn and one function a turn")
    found = _static_profile(context.seed, functions)
    wanted = _static_profile(
        context.seed, tuple(tuple(call.name for call in turn.calls) for turn in context.seed.turns)
    )
    if not isomorphic(found, wanted, context.config.max_profile_distance):
        detail = (
            f"calls per turn {found.calls_per_turn} against the seed's {wanted.calls_per_turn}: "
            f"Φ is {distance(found, wanted):.2f} apart, allowed {context.config.max_profile_distance:g}"
        )
        raise FuncSampleFailure(detail)


def _static_profile(seed: Seed, functions: tuple[tuple[str, ...], ...]) -> Profile:
    """The parts of Φ that are known before execution."""
    counts = tuple(len(names) for names in functions)
    flat = tuple(name for names in functions for name in names)
    return Profile(seed.task.type, seed.profile.classes, counts, flat, (), 0)
