"""What an episode earns, as pure functions of its outcome."""

from __future__ import annotations

from collections.abc import Callable

from rods.registry import Registry
from rods.simulation.session import CALL_ERROR, EXECUTED, PARSE_FAILURE, Outcome

REWARDS = Registry(
    "reward",
    {"progress": "rods.reward:progress", "binary": "rods.reward:binary", "format": "rods.reward:tool_format"},
)


def build(name: str) -> Callable[[Outcome], float]:
    """The reward called `name`.

    Raises:
        UnknownNameError: there is none; the message lists those that exist.
    """
    reward: Callable[[Outcome], float] = REWARDS.get(name)
    return reward


def progress(outcome: Outcome) -> float:
    """R_P = (1/N) Σ_t r_t^state · r_t^exec, in [0, 1]; N is fixed, so turns that were not reached count 0."""
    return sum(verdict.passed for verdict in outcome.verdicts) / outcome.turns


def binary(outcome: Outcome) -> float:
    """1 when every one of the N turns passes, else 0 (the paper's ablation "binary accuracy")."""
    return float(sum(verdict.passed for verdict in outcome.verdicts) == outcome.turns)


def tool_format(outcome: Outcome) -> float:
    """Stage-1 reward I_tool · (R_format + R_tool), in [0, 2].

    R_format = (T − n₋₃)/T over the T actions (tool calls attempted), R_tool = n₋₁/(n₋₁ + n₋₂); no action
    earns 0, and R_tool is 0 when no call could be read. The curriculum assumes [0, 1], so the configuration
    allows this reward without expansion only.
    """
    unreadable = outcome.codes.count(PARSE_FAILURE)
    raised, ran = outcome.codes.count(CALL_ERROR), outcome.codes.count(EXECUTED)
    actions = unreadable + raised + ran
    if not actions:
        return 0.0
    return (actions - unreadable) / actions + (ran / (ran + raised) if ran + raised else 0.0)
