"""Stage 2: arguments against the live state, executed call by call in the training simulator itself.

A variant's ground truth is what ran, not what a model said would run. A failure carries where and why; for
those whose route allows it, Config Patch then changes the initial state so that the next attempt can
succeed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rods.simulation.calls import CallError, validate
from rods.simulation.isolation import ScenarioError
from rods.simulation.session import World
from rods.synthesis import patching
from rods.synthesis.agents import Arguments, Patch
from rods.synthesis.context import Context, ExecutedTurn
from rods.synthesis.errors import DuplicateFuncFailure, ParamGenFailure, SynthesisError, VmExecFailure
from rods.synthesis.planner import Outline
from rods.tasks.model import Call, TaskType


async def execute(context: Context, outline: Outline, blocklist: Collection[str]) -> tuple[ExecutedTurn, ...]:
    """Choose arguments for every planned call and run it.

    Raises:
        SynthesisError: param_gen_failed (invalid arguments), duplicate_func (a call of the blocklist, or the
            same call twice running), vm_exec_failed (the simulator refused), or the backend's failure.
    """
    world = open_state(context, outline.initial_state)
    done: list[ExecutedTurn] = []
    for turn, functions in enumerate(outline.functions):
        calls: list[Call] = []
        results: list[str] = []
        for function in functions:
            inputs = {
                "outline": outline,
                "done": tuple(done),
                "turn": turn,
                "calls": tuple(calls),
                "results": tuple(results),
                "function": function,
                "doc": world.docs[function],
                "state": world.state(),
                "blocklist": list(blocklist),
            }
            answer = await context.ask(
                "arguments",
                Arguments,
                inputs,
                failure=ParamGenFailure,
                turn=turn,
                function=function,
            )
            call = Call(function, answer.arguments)
            _check(world, call, calls, blocklist, turn)
            results.append(_run(world, call, turn))
            calls.append(call)
        done.append(ExecutedTurn(tuple(calls), tuple(results)))
    return tuple(done)


async def repair(
    context: Context,
    state: Mapping[str, Any],
    failure: SynthesisError,
    history: Sequence[SynthesisError] = (),
) -> dict[str, Any] | None:
    """Ask Config Patch for changes of `state` that would let the failed call run.

    Args:
        context: the failed attempt.
        state: its initial state, with the patches before.
        failure: why it failed.
        history: why the attempts before it failed, whose patches `state` holds.

    Returns:
        The patched copy, or None when no change was proposed.

    Raises:
        SynthesisError: vm_exec_failed when the patch was refused or the patched state does not load.
    """
    inputs = {"state": state, "error": failure.to_json(), "history": [past.to_json() for past in history]}
    answer = await context.ask("patch", Patch, inputs, failure=type(failure), turn=failure.turn)
    if not answer.patches:
        return None
    try:
        patched = patching.apply(state, answer.patches)
    except patching.PatchRefusedError as error:
        raise VmExecFailure(str(error), turn=failure.turn) from error
    open_state(context, patched)
    return patched


def open_state(context: Context, state: Mapping[str, Any]) -> World:
    """A fresh world of the seed's classes and flags, loaded with `state`.

    Raises:
        SynthesisError: vm_exec_failed when the simulators cannot load it.
    """
    task = context.seed.task
    try:
        return World(task.classes, state, long_context=task.type is TaskType.LONG_CONTEXT)
    except ScenarioError as error:
        raise VmExecFailure(f"the initial state does not load: {error}") from error


def call_text(call: Call) -> str:
    """A call as it stands in a blocklist."""
    return json.dumps(call.to_json(), sort_keys=True)


def _check(world: World, call: Call, calls: list[Call], blocklist: Collection[str], turn: int) -> None:
    try:
        validate(call, world.docs)
    except CallError as error:
        raise ParamGenFailure(str(error), function=call.name, turn=turn) from error
    if call_text(call) in blocklist:
        raise DuplicateFuncFailure(f"failed before: {call_text(call)}", function=call.name, turn=turn)
    if calls and call_text(calls[-1]) == call_text(call):
        raise DuplicateFuncFailure("the same call twice running", function=call.name, turn=turn)


def _run(world: World, call: Call, turn: int) -> str:
    result = world.execute(call)
    if result.failed:
        text = call_text(call)
        detail = f"{text} returned {result.text}"
        raise VmExecFailure(detail, function=call.name, turn=turn, call=text)
    return result.text
