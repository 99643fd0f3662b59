"""The five stages in order, retried with what the failures taught: from one seed to its variants.

Nothing here depends on time, host or what other seeds do: a variant's content is a function of the seed
task's content, the request's key and shift, the attempt and the run's seed, which is what the epoch barrier relies
on.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from rods.config import SynthesisConfig
from rods.synthesis import adversary, critique, executor, filters, grounding, planner
from rods.synthesis.accounting import Bill, billed
from rods.synthesis.agents import Backend
from rods.synthesis.context import Context, Draft, salt_of
from rods.synthesis.errors import FuncSampleFailure, Route, SynthesisError
from rods.synthesis.planner import Outline
from rods.synthesis.seeds import Seed, read_seed
from rods.synthesis.similarity import Corpus
from rods.synthesis.simulating import InProcess, Simulation
from rods.tasks.model import Origin, Task


@dataclass(frozen=True)
class Outcome:
    """What became of one seed.

    Attributes:
        tasks: accepted variants, at most `variants_per_seed`.
        attempts: attempts made for all of them.
        failures: every failed attempt, in order.
        reason: "" when something was accepted, else the last failure in words.
        bill: what it cost; equal outcomes may cost differently (faults, cached answers).
    """

    tasks: tuple[Task, ...]
    attempts: int
    failures: tuple[SynthesisError, ...]
    reason: str
    bill: Bill = field(default_factory=Bill, compare=False)

    @property
    def errors(self) -> dict[str, int]:
        """Failed attempts by kind."""
        return dict(Counter(failure.kind for failure in self.failures))


@dataclass(frozen=True)
class _Memory:
    """What an attempt leaves to the next one."""

    state: Mapping[str, Any]
    history: tuple[SynthesisError, ...] = ()
    blocklist: tuple[str, ...] = ()


class Pipeline:
    """Makes variants.

    Args:
        config: the run's synthesis settings.
        backend: who answers for the agents.
        seed: the run's seed.
        known: tasks that no variant may repeat, exactly or nearly: the run's seed and held-out tasks. They must
            not change in a run, or content would depend on the order of arrival; the pool refuses duplicates
            among variants.
        simulation: where finished variants are replayed.
    """

    def __init__(
        self,
        config: SynthesisConfig,
        backend: Backend,
        seed: int,
        known: Iterable[Task] = (),
        simulation: Simulation | None = None,
    ) -> None:
        self._config, self._backend, self._seed = config, backend, seed
        self._simulation = simulation or InProcess()
        self._known = Corpus(known, config.max_similarity)

    async def run(self, task: Task, key: str, shift: int = 0) -> Outcome:
        """Up to `variants_per_seed` variants of `task`, each with up to `max_attempts` attempts.

        Args:
            task: a seed task, or a variant that became a seed.
            key: the seed request's id; two requests of one task give different variants.
            shift: 1 for variants one step deeper than the task (`depth`), -1 for shallower ones.

        Raises:
            RodsError: `task` itself cannot be run (unknown class, scenario of the wrong form), or it is what kills the
                model's server.
        """
        seed = read_seed(task, shift)
        accepted: list[Task] = []
        failures: list[SynthesisError] = []
        with billed() as bill:
            for index in range(self._config.variants_per_seed):
                variant, failed = await self._variant(seed, key, index, (task, *accepted))
                failures += failed
                accepted += [variant] if variant is not None else []
        reason = "" if accepted else str(failures[-1])
        return Outcome(tuple(accepted), len(failures) + len(accepted), tuple(failures), reason, bill)

    async def _variant(
        self, seed: Seed, key: str, index: int, known: Sequence[Task]
    ) -> tuple[Task | None, tuple[SynthesisError, ...]]:
        """One variant that repeats neither the corpus nor `known`, or None; and the failures on the way."""
        if not seed.turns:
            nothing = FuncSampleFailure("the seed has no turn with a call")
            return None, (nothing,)
        memory = _Memory(seed.task.initial_state)
        for attempt in range(1, self._config.max_attempts + 1):
            salt = salt_of(self._seed, seed, key, index, attempt)
            context = Context(self._backend, self._config, seed, salt, attempt)
            state = memory.state
            try:
                told = () if self._config.retry == "blind" else memory.history
                with self._stage("plan"):
                    outline = await planner.plan(context, state, told, memory.blocklist)
                state = outline.initial_state
                with self._stage("execute"):
                    draft = await self._executed(context, outline, memory.blocklist, known)
                task = await self._finished(context, draft, key)
                with self._stage("check"):
                    allowed = self._config.max_profile_distance
                    apart = await self._simulation.check(task, seed.target, allowed)
            except SynthesisError as failure:
                with self._stage("repair"):
                    memory = await _learn(context, memory, state, failure)
            else:
                return _with_provenance(task, context, memory, key, apart), memory.history
        return None, memory.history

    async def _executed(
        self, context: Context, outline: Outline, blocklist: Collection[str], known: Sequence[Task]
    ) -> Draft:
        """Stage 2, and what can be refused before any message is written.

        Raises:
            SynthesisError: where it went wrong.
        """
        turns = await executor.execute(context, outline, blocklist)
        draft = Draft(outline.narrative, outline.initial_state, turns)
        filters.check_executed(context, draft, self._known, known)
        return draft

    async def _finished(self, context: Context, draft: Draft, key: str) -> Task:
        """Stages 3 to 5 on executed turns.

        Raises:
            SynthesisError: where it went wrong.
        """
        with self._stage("ground"):
            draft = await grounding.ground(context, draft)
        with self._stage("critique"):
            draft = await critique.critique(context, draft)
        with self._stage("challenge"):
            dialogue, withheld = await adversary.challenge(context, draft)
        seed = context.seed.task
        return Task(
            id=variant_id(seed, key, context.salt),
            type=seed.type,
            classes=seed.classes,
            initial_state=draft.initial_state,
            turns=dialogue,
            withheld=withheld,
            origin=Origin.VARIANT,
            seed_id=seed.seed_id,
            kind=seed.kind,
            provenance={"narrative": draft.narrative, "judge": draft.judgement},
        )

    def _stage(self, name: str) -> AbstractContextManager[None]:
        return self._backend.accounts.stage(name)


async def _learn(
    context: Context, memory: _Memory, state: Mapping[str, Any], failure: SynthesisError
) -> _Memory:
    """What the next attempt knows: the failure, and a patched state or the failed call on the blocklist.

    A blind retry (`synthesis.retry`) keeps the failure for the records only.
    """
    if context.config.retry == "blind":
        return replace(memory, history=(*memory.history, failure))
    blocked = memory.blocklist if not failure.call else (*memory.blocklist, failure.call)
    unpatched = _Memory(memory.state, (*memory.history, failure), blocked)
    if failure.route is not Route.PATCH or context.attempt == context.config.max_attempts:
        return unpatched
    try:
        patched = await executor.repair(context, state, failure, memory.history)
    except SynthesisError as refused:
        # No attempt of its own, but the planner shall know.
        remark = f"Config Patch gave no usable change: {refused.detail}"
        return replace(unpatched, history=(*memory.history, failure.extended(remark)))
    if patched is None:
        return unpatched
    return _Memory(patched, unpatched.history, memory.blocklist)


def variant_id(seed: Task, key: str, salt: str) -> str:
    """The root seed's id and a hash that no other request, variant index or attempt shares."""
    digest = hashlib.sha256(f"{key}\n{salt}".encode()).hexdigest()
    return f"{seed.seed_id}~{digest[:10]}"


def _with_provenance(task: Task, context: Context, memory: _Memory, key: str, apart: float) -> Task:
    provenance = {
        **task.provenance,
        **context.backend.provenance(context.rng_seed("attempt")),
        "parent": context.seed.task.id,
        "key": key,
        "attempts": context.attempt,
        "errors": [failure.to_json() for failure in memory.history],
        "profile_distance": round(apart, 4),
        "depth_shift": context.seed.shift,
    }
    return replace(task, provenance=provenance)
