"""Scripted answers for any seed: its functions on its state, with other literals and template messages."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from rods.synthesis import scripted_messages as messages
from rods.synthesis import scripted_world
from rods.synthesis.agents import (
    Arguments,
    Judgement,
    MissingFunction,
    MissingParameter,
    NoPatternError,
    Patch,
    Plan,
    PlannedTurn,
    Query,
    RefineClass,
    Rewrite,
    StatePatch,
    Verification,
)
from rods.synthesis.context import Draft
from rods.synthesis.scripted_literals import Surroundings, adapted, change_rate, world_values
from rods.synthesis.seeds import Seed
from rods.tasks.profile import accidental, leaves, result_value, same_value, visible

_CONNECTIVES = ("Next: ", "After that: ", "Now: ", "One more thing: ")
_SHORT = 2  # characters up to which a value may be said in words ("l" for lines)
# Preconditions that the simulators' error texts name, and the state that meets them.
_PRECONDITIONS = (
    ("market is closed", StatePatch(class_name="TradingBot", path="market_status", value="Open")),
    ("not authenticated", StatePatch(class_name="TradingBot", path="authenticated", value=True)),
    ("not logged in", StatePatch(class_name="TradingBot", path="authenticated", value=True)),
)


def _plan(inputs: Mapping[str, Any], rng: random.Random) -> Plan:
    seed: Seed = inputs["seed"]
    turns = [PlannedTurn(functions=names) for names in _planned(seed)]
    domains = ", ".join(seed.task.classes)
    story = f"Another user works with {domains} and asks for other values."
    # A state that Config Patch has changed is another one already, and the change may go by a name.
    untouched = inputs["state"] == seed.task.initial_state
    state = scripted_world.renamed(inputs["state"], rng.randrange(2**32)) if untouched else None
    return Plan(narrative=story, turns=turns, initial_state=state)


def _planned(seed: Seed) -> list[list[str]]:
    """The seed's functions per turn; without its last turn, or the last call of its only one, for a step shallower.

    Raises:
        NoPatternError: for a step deeper, which takes a call that the seed does not show; or nothing can be left out.
    """
    turns = [[call.name for call in turn.calls] for turn in seed.turns]
    if seed.shift == 0:
        return turns
    if seed.shift < 0 and len(turns) > 1 and len(turns) - 1 not in seed.gaps:
        return turns[:-1]
    if seed.shift < 0 and len(turns) == 1 and len(turns[0]) > 1 and not seed.gaps:
        return [turns[0][:-1]]
    raise NoPatternError(f"templates cannot move this seed by {seed.shift:+d}: they repeat its own calls")


def _arguments(inputs: Mapping[str, Any], _: random.Random) -> Arguments:
    seed: Seed = inputs["seed"]
    turn, position = inputs["turn"], len(inputs["calls"])
    call = seed.turns[turn].calls[position]
    if call.name != inputs["function"]:
        raise NoPatternError(f"the seed calls {call.name} here, and no template fits {inputs['function']}")
    around = Surroundings(
        seed_results=[*_results(seed.turns[:turn]), *seed.turns[turn].results[:position]],
        results=[*_results(inputs["done"]), *inputs["results"]],
        world=world_values(seed.task.initial_state),
        peers=scripted_world.peers(seed.task.initial_state),
        names=scripted_world.names(seed.task.initial_state, inputs["outline"].initial_state),
        doc=inputs["doc"],
        rate=change_rate(inputs["attempt"]),
        salt=inputs["attempt_seed"],
    )
    return Arguments(arguments=adapted(dict(call.arguments), around))


def _patch(inputs: Mapping[str, Any], _: random.Random) -> Patch:
    error = str(inputs["error"]["detail"]).lower()
    found = [patch for text, patch in _PRECONDITIONS if text in error and patch.class_name in inputs["state"]]
    return Patch(patches=found[:1])


def _query(inputs: Mapping[str, Any], rng: random.Random) -> Query:
    return Query(text=_message(inputs["seed"], inputs["draft"], inputs["turn"], rng.randrange(100)))


def _verify(inputs: Mapping[str, Any], _: random.Random) -> Verification:
    draft, turn = inputs["draft"], inputs["turn"]
    calls = draft.turns[turn].calls
    covered = [index for index in range(len(calls)) if not _underivable(draft, turn, index)]
    return Verification(covered=covered, verdict="yes" if len(covered) == len(calls) else "no")


def _rewrite(inputs: Mapping[str, Any], rng: random.Random) -> Rewrite:
    first, *others = inputs["draft"].queries
    return Rewrite(queries=[first, *(rng.choice(_CONNECTIVES) + query for query in others)])


def _judge(inputs: Mapping[str, Any], _: random.Random) -> Judgement:
    """A rule, not a judgement: every value of every call can be found in what was said, returned or given."""
    draft: Draft = inputs["draft"]
    issues = [
        f"turn {turn + 1}: {value} of {draft.turns[turn].calls[index].name} cannot be known"
        for turn in range(len(draft.turns))
        for index in range(len(draft.turns[turn].calls))
        for value in _underivable(draft, turn, index)
    ]
    return Judgement(accepted=not issues, issues=issues)


def _refine_class(inputs: Mapping[str, Any], _: random.Random) -> RefineClass:
    """Templates say all they can at once: another wording would not help."""
    return RefineClass(verdict="gt_unfixable")


def _miss_func(inputs: Mapping[str, Any], _: random.Random) -> MissingFunction:
    """Hide what the seed hides, where it does."""
    seed: Seed = inputs["seed"]
    for turn in seed.gaps:
        for call in inputs["draft"].turns[turn].calls:
            if call.name in seed.task.withheld:
                return MissingFunction(turn=turn, function=call.name)
    raise NoPatternError("the seed's withheld function is not called in the turn that restores it")


def _miss_param(inputs: Mapping[str, Any], rng: random.Random) -> MissingParameter:
    """Leave out one value that only this turn's message gives, in the turn in which the seed leaves one
    out.
    """
    seed, draft = inputs["seed"], inputs["draft"]
    choices = [
        (turn, call, name)
        for turn in seed.gaps
        for call in draft.turns[turn].calls
        for name, value in call.arguments.items()
        if _only_said_here(draft, turn, value)
    ]
    if not choices:
        raise NoPatternError("no value of that turn is given by its message alone")
    turn, call, name = rng.choice(choices)
    blurred = _message(seed, draft, turn, rng.randrange(100), frozenset(messages.texts(call.arguments[name])))
    return MissingParameter(
        turn=turn,
        function=call.name,
        parameter=name,
        blurred=blurred,
        clarification=messages.clarification(call, seed.docs[call.name], [name]),
    )


def _message(seed: Seed, draft: Draft, turn: int, variety: int, hidden: frozenset[str] = frozenset()) -> str:
    """One sentence a call. Values that earlier results hold and the seed's user does not say stay unsaid."""
    sentences = []
    for index, call in enumerate(draft.turns[turn].calls):
        unsaid = {
            name for name, value in call.arguments.items() if _flows(seed, draft, turn, index, name, value)
        }
        omitted = {
            name for name, value in call.arguments.items() if hidden.intersection(messages.texts(value))
        }
        sentences.append(messages.request(call, seed.docs[call.name], variety + index, unsaid, omitted))
    return " ".join(sentences)


def _flows(seed: Seed, draft: Draft, turn: int, index: int, name: str, value: Any) -> bool:
    """Whether the seed's user leaves this argument to earlier results, and the variant's results hold it."""
    found = list(leaves(value))
    original = list(leaves(dict(seed.turns[turn].calls[index].arguments).get(name)))
    said = "\n".join(earlier.query for earlier in seed.turns[: turn + 1])
    if not found or all(accidental(leaf) or visible(leaf, said) for leaf in original):
        return False
    known = list(_returned(draft, turn, index))
    return all(any(same_value(leaf, other) for other in known) for leaf in found)


def _underivable(draft: Draft, turn: int, index: int) -> list[str]:
    """Values of a call that neither messages so far nor earlier results nor the initial state hold."""
    said = "\n".join(draft.queries[: turn + 1])
    known = [*_returned(draft, turn, index), *leaves(draft.initial_state)]
    return [
        repr(leaf)
        for leaf in leaves(dict(draft.turns[turn].calls[index].arguments))
        if len(str(leaf)) > _SHORT
        and not accidental(leaf)
        and not visible(leaf, said)
        and not any(same_value(leaf, other) for other in known)
    ]


def _only_said_here(draft: Draft, turn: int, value: Any) -> bool:
    found = list(leaves(value))
    before = "\n".join(draft.queries[:turn])
    known = list(_returned(draft, turn, 0))
    return bool(found) and not any(
        accidental(leaf) or visible(leaf, before) or any(same_value(leaf, other) for other in known)
        for leaf in found
    )


def _returned(draft: Draft, turn: int, index: int) -> list[Any]:
    """Every value that the calls before this one returned."""
    texts = [*_results(draft.turns[:turn]), *draft.turns[turn].results[:index]]
    return [leaf for text in texts for leaf in leaves(result_value(text))]


def _results(turns: Any) -> list[str]:
    return [text for turn in turns for text in turn.results]


RULES: Mapping[str, Callable[[Mapping[str, Any], random.Random], Any]] = {
    "planner": _plan,
    "arguments": _arguments,
    "patch": _patch,
    "query": _query,
    "verifier": _verify,
    "rewriter": _rewrite,
    "judge": _judge,
    "refine_class": _refine_class,
    "miss_func": _miss_func,
    "miss_param": _miss_param,
}
