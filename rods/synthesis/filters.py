"""The last gate: what the trainer gets is checked as the trainer will use it.

The finished task is replayed from its JSON on a fresh world through the rollout's own session, so that a
variant whose ground truth does not earn the full reward cannot enter the pool, whatever made it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from rods.config import RewardConfig, SimulationConfig
from rods.simulation.exposure import expose
from rods.simulation.session import Session, open_world
from rods.synthesis import coherence, rules
from rods.synthesis.context import Context, Draft, skeleton
from rods.synthesis.depth import SHIFTS, Target
from rods.synthesis.errors import (
    ConversationConstructFailure,
    DuplicateFuncFailure,
    VmExecFailure,
)
from rods.synthesis.similarity import Corpus
from rods.tasks.model import Task, Turn
from rods.tasks.profile import profile

# One message holds all calls of a turn, so the limit on messages plays no part in whether a task can be
# solved.
_SIMULATION, _REWARD = SimulationConfig(), RewardConfig()


def check_executed(context: Context, draft: Draft, corpus: Corpus, known: Iterable[Task]) -> None:
    """Refuse executed calls that no message could make a good variant of, before any message is written.

    Args:
        context: the attempt.
        draft: executed turns.
        corpus: the run's fixed tasks, which it must not repeat.
        known: further tasks that it must not repeat: its parent and its siblings.

    Raises:
        SynthesisError: duplicate_func for a repetition, exact or near; conversation_construct_failed for an
            argument that is too large and a long_context variant whose results are short.
    """
    task = skeleton(context.seed.task, draft)
    repeated = corpus.repeated(task, known)
    if repeated:
        raise DuplicateFuncFailure(repeated)
    config = context.config
    calls = [call for turn in draft.turns for call in turn.calls]
    results = [text for turn in draft.turns for text in turn.results]
    found = [
        *rules.oversized(calls, config.max_string, config.max_list),
        *rules.small_observations(task, results, config.min_long_observation),
    ]
    if found:
        raise ConversationConstructFailure("; ".join(found))


def check(task: Task, target: Target, allowed: float) -> float:
    """Accept a finished variant; its distance of Φ from the target.

    Args:
        target: the Φ that it shall have.
        allowed: greatest distance, in [0, 1].

    Raises:
        SynthesisError: vm_exec_failed when the ground truth does not earn 1.0, conversation_construct_failed when
            a call's function is not available, something does not lead to its calls, or Φ is too far.
    """
    world = open_world(task)
    found = [*rules.unavailable(task), *coherence.problems(task, expose(task), world.docs)]
    if found:
        raise ConversationConstructFailure("; ".join(found))
    _check_ground_truth(task)
    results = [[world.execute(call).text for call in turn.calls] for turn in task.turns]
    apart = target.distance(profile(task, results))
    if apart > allowed:
        detail = f"Φ is {apart:.2f} from {SHIFTS[target.shift]}, allowed {allowed:g}"
        raise ConversationConstructFailure(detail)
    return apart


def failed_turns(task: Task) -> tuple[int, ...]:
    """0-based turns that the ground truth itself does not pass on a fresh world, withheld functions
    withheld.
    """
    session = Session(Task.from_json(json.loads(json.dumps(task.to_json()))), _SIMULATION, _REWARD)
    for turn in task.turns:
        if turn.calls:
            session.advance(_message(turn))
        session.advance("Done.")
    verdicts = session.outcome().verdicts
    return tuple(
        index for index in range(len(task.turns)) if index >= len(verdicts) or not verdicts[index].passed
    )


def _message(turn: Turn) -> str:
    return "\n".join(f"<tool_call>\n{json.dumps(call.to_json())}\n</tool_call>" for call in turn.calls)


def _check_ground_truth(task: Task) -> None:
    failed = failed_turns(task)
    if failed:
        detail = (
            f"the ground truth does not earn 1.0 on a fresh world: turns {[turn + 1 for turn in failed]} fail"
        )
        raise VmExecFailure(detail, turn=failed[0])
