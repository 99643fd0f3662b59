"""Stage 1: a narrative and the functions of each turn, before any argument exists.

Planning first is what makes the turns of a variant tell one story. A plan may name composites, which are
decomposed into bottom-level functions here; the paper decomposes too but does not publish its map, so this
one is ours and small.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rods.simulation.functions import FunctionDoc
from rods.synthesis import sampling
from rods.synthesis.agents import Plan
from rods.synthesis.context import Context
from rods.synthesis.depth import SHIFTS, Target
from rods.synthesis.errors import DecomposeFailure, FuncSampleFailure, SynthesisError

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
    """Ask the planner, check its answer and mend what is wrong with its functions.

    Without `synthesis.narrative_planning` no planner is asked: the functions are sampled from the API graph, and
    there is no story.

    Args:
        context: the attempt.
        state: the initial state with the patches of earlier attempts.
        history: why earlier attempts failed.
        blocklist: calls that failed, as JSON, not to be repeated.

    Raises:
        SynthesisError: decompose_failed, func_sample_failed, or the backend's failure.
    """
    rng = random.Random(context.rng_seed("functions"))
    if not context.config.narrative_planning:
        functions = sampling.sampled(context.seed, rng, context.config.max_profile_distance)
        return Outline("", functions, state)
    seed = context.seed
    inputs = {
        "state": state,
        "history": [failure.to_json() | {"guidance": failure.guidance} for failure in history],
        "blocklist": list(blocklist),
        "composites": composites(seed.docs),
        "links": {name: sorted(others) for name, others in sampling.feeds(seed.docs).items() if others},
    }
    answer = await context.ask("planner", Plan, inputs, failure=FuncSampleFailure)
    planned = tuple(decompose(turn.functions, seed.docs, index) for index, turn in enumerate(answer.turns))
    functions = _fitting(context, planned, rng)
    chosen = state if answer.initial_state is None else answer.initial_state
    if set(chosen) != set(state):
        detail = f"expected a state for the classes {sorted(state)}, found {sorted(chosen)}"
        raise FuncSampleFailure(detail)
    return Outline(answer.narrative, functions, chosen)


def composites(docs: Mapping[str, FunctionDoc]) -> dict[str, tuple[str, ...]]:
    """The composites whose parts are all documented."""
    return {name: parts for name, parts in COMPOSITES.items() if all(part in docs for part in parts)}


def decompose(names: Sequence[str], docs: Mapping[str, FunctionDoc], turn: int) -> tuple[str, ...]:
    """Bottom-level functions of one turn, composites replaced by their parts; unknown names stay as they are.

    Raises:
        SynthesisError: decompose_failed for a composite with a part that is no function of these classes.
    """
    functions: list[str] = []
    for name in names:
        parts = (name,) if name in docs else COMPOSITES.get(name, (name,))
        missing = [part for part in parts if part not in docs] if name in COMPOSITES else []
        if missing:
            detail = f"the composite needs {', '.join(missing)}, which the task's classes do not have"
            raise DecomposeFailure(detail, function=name, turn=turn)
        functions.extend(parts)
    return tuple(functions)


def _fitting(context: Context, planned: sampling.Functions, rng: random.Random) -> sampling.Functions:
    """The plan where its shape allows the Φ that variants shall have, else the plan mended from the API graph.

    Mending brings a plan into the seed's shape, so a plan that shall be deeper or shallower is not mended.

    Raises:
        SynthesisError: func_sample_failed when so little fits that another plan is better.
    """
    seed, threshold = context.seed, context.config.max_profile_distance
    if sampling.fits(seed, planned, threshold):
        return planned
    mended = None if seed.shift else sampling.mended(seed, planned, rng, threshold)
    if mended is not None:
        return mended
    unknown = sorted({name for names in planned for name in names if name not in seed.docs})
    found, wanted = (
        sampling.shape_profile(seed, shape) for shape in (planned, sampling.seed_functions(seed))
    )
    detail = (
        f"calls per turn {found.calls_per_turn} against the seed's {wanted.calls_per_turn}, "
        f"unknown functions {unknown}: Φ is {Target(wanted, seed.shift).distance(found):.2f} from "
        f"{SHIFTS[seed.shift]}, allowed {threshold:g}, "
        "and too little of the plan fits to be mended"
    )
    raise FuncSampleFailure(detail)
