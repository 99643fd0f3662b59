"""Functions of a variant by sampling from the API graph, so that its Φ can be the seed's.

The graph joins a function to those that take one of its result's fields as a parameter. A function of the seed
may be exchanged for another of its class when every flow edge of the seed at that place is still an edge of the
graph: the variant then has the seed's turns, calls and dependencies, and only some of its functions differ.

Plans are mended by it (`mended`), and without narrative planning the functions come from it alone (`sampled`).
The paper names the graph and publishes neither its edges nor how it is sampled; both are ours.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence

from rods.simulation.functions import FunctionDoc
from rods.synthesis.depth import Target
from rods.synthesis.seeds import Seed
from rods.tasks.profile import Profile, isomorphic

Functions = tuple[tuple[str, ...], ...]

_DRAWS = 32
_KEPT = 0.5  # of the longer of plan and seed that a mended plan must take from the plan


def feeds(docs: Mapping[str, FunctionDoc]) -> dict[str, frozenset[str]]:
    """The API graph: function → the functions with a parameter of the name of one of its result's fields.

    Names are compared without case, underscores, digits and plural s (`order_ids` feeds `order_id`); a field
    `id` is that of what its function's name speaks of (`create_ticket` feeds `ticket_id`).
    """
    takes = {name: {_plain(parameter) for parameter in _parameters(doc)} for name, doc in docs.items()}
    return {
        name: frozenset(other for other in docs if other != name and takes[other] & _gives(doc))
        for name, doc in docs.items()
    }


def shape_profile(seed: Seed, functions: Functions) -> Profile:
    """The parts of Φ that are known before execution; flow is taken to be none."""
    flat = tuple(name for names in functions for name in names)
    return Profile(
        seed.task.type, seed.profile.classes, tuple(len(names) for names in functions), flat, (), 0
    )


def seed_functions(seed: Seed) -> Functions:
    """The functions of the seed's skeleton, per turn."""
    return tuple(tuple(call.name for call in turn.calls) for turn in seed.turns)


def fits(seed: Seed, functions: Functions, threshold: float) -> bool:
    """Whether the functions are documented and their shape allows the Φ that variants shall have.

    A plan of the seed's own shape may still become a step deeper or shallower, by its dependencies.
    """
    if (
        not functions
        or not all(functions)
        or any(name not in seed.docs for turn in functions for name in turn)
    ):
        return False
    own, found = shape_profile(seed, seed_functions(seed)), shape_profile(seed, functions)
    if found.calls_per_turn == own.calls_per_turn:
        return isomorphic(found, own, threshold)
    return Target(own, seed.shift).distance(found) <= threshold


def sampled(seed: Seed, rng: random.Random, threshold: float) -> Functions:
    """Functions in the seed's shape, each exchanged with probability 1/(number of calls); the seed's own where
    no draw fits.
    """
    graph, own = feeds(seed.docs), seed_functions(seed)
    count = sum(map(len, own))
    for _ in range(_DRAWS):
        chosen = list(_flat(own))
        for index in range(count):
            if rng.random() < 1 / count:
                chosen[index] = rng.choice([chosen[index], *_exchangeable(seed, graph, chosen, index)])
        functions = _folded(chosen, own)
        if fits(seed, functions, threshold):
            return functions
    return own


def mended(seed: Seed, planned: Functions, rng: random.Random, threshold: float) -> Functions | None:
    """A plan in the seed's shape: what it names rightly stays at its place, the rest is sampled.

    Args:
        seed: the seed.
        planned: functions per turn, unknown ones among them.
        rng: decides between functions that fit equally.
        threshold: greatest distance of Φ.

    Returns:
        None when too little of the plan would remain for its story to be told, or nothing fits.
    """
    graph, own = feeds(seed.docs), seed_functions(seed)
    kept = [
        [name for name in (planned[turn] if turn < len(planned) else ()) if name in seed.docs][: len(names)]
        for turn, names in enumerate(own)
    ]
    longest = max(sum(map(len, planned)), sum(map(len, own)))
    if sum(map(len, kept)) < _KEPT * longest:
        return None
    merged = list(_flat([[*names, *own[turn][len(names) :]] for turn, names in enumerate(kept)]))
    gaps = [place >= len(kept[turn]) for turn, names in enumerate(own) for place in range(len(names))]
    for _ in range(_DRAWS):
        chosen = [
            rng.choice([name, *_exchangeable(seed, graph, merged, index)]) if gap else name
            for index, (name, gap) in enumerate(zip(merged, gaps, strict=True))
        ]
        functions = _folded(chosen, own)
        if fits(seed, functions, threshold):
            return functions
    fallback = _folded(merged, own)
    return fallback if fits(seed, fallback, threshold) else None


def _exchangeable(
    seed: Seed, graph: Mapping[str, frozenset[str]], chosen: Sequence[str], index: int
) -> list[str]:
    """Functions of the same class that keep every flow edge of the seed at this place, in order."""
    sources = [chosen[edge.source] for edge in seed.profile.edges if edge.target == index]
    targets = [chosen[edge.target] for edge in seed.profile.edges if edge.source == index]
    home = seed.docs[chosen[index]].class_name
    return [
        name
        for name, doc in seed.docs.items()
        if doc.class_name == home
        and name != chosen[index]
        and all(name in graph[source] for source in sources)
        and all(target in graph[name] for target in targets)
    ]


def _flat(functions: Sequence[Sequence[str]]) -> list[str]:
    return [name for names in functions for name in names]


def _folded(flat: Sequence[str], like: Functions) -> Functions:
    """`flat` in turns as long as those of `like`."""
    names = iter(flat)
    return tuple(tuple(next(names) for _ in turn) for turn in like)


def _parameters(doc: FunctionDoc) -> Sequence[str]:
    return list(doc.parameters.get("properties", {}))


def _gives(doc: FunctionDoc) -> set[str]:
    named = {f"{word}_id" for word in doc.name.split("_")} if "id" in doc.returns else set()
    return {_plain(name) for name in (*doc.returns, *named)}


def _plain(name: str) -> str:
    return re.sub(r"[_\d]", "", name).casefold().removesuffix("s")
