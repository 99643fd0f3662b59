"""What a step's rollouts say, as figures for the metrics file (docs/metrics.md)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from statistics import fmean, stdev

from rods.rollout.episode import Rollout
from rods.simulation.session import CALL_ERROR, EXECUTED, FAULTS, PARSE_FAILURE
from rods.tasks.model import Task
from rods.training.sampling import Draw, flat, varied


def of_draw(tasks: Sequence[Task], draw: Draw) -> dict[str, float]:
    """Figures of a step's rollouts as they were first drawn; tokens per second count all draws."""
    return {
        **_rewards(tasks, draw.observed),
        **_episodes(flat(draw.observed)),
        "groups_drawn_again": draw.drawn_again,
        "generated_tokens": draw.generated,
        "generated_tokens_per_second": draw.generated / draw.seconds,
        "seconds_generation": draw.seconds,
    }


def _rewards(tasks: Sequence[Task], groups: Sequence[Sequence[Rollout]]) -> dict[str, float]:
    """Rewards in all and by task type, and the share of groups from which nothing can be learned."""
    by_type: dict[str, list[float]] = defaultdict(list)
    for task, group in zip(tasks, groups, strict=True):
        by_type[task.type.value] += [rollout.reward for rollout in group]
    rewards = [rollout.reward for rollout in flat(groups)]
    return {
        "reward_mean": fmean(rewards),
        "reward_std": stdev(rewards),
        "zero_variance": fmean(not varied(group) for group in groups),
        **{f"reward_{name}": fmean(values) for name, values in sorted(by_type.items())},
    }


def _episodes(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Lengths, turns, how episodes ended, and what became of their tool calls."""
    outcomes = [rollout.outcome for rollout in rollouts]
    codes = Counter(code for outcome in outcomes for code in outcome.codes)
    faults = Counter(fault for outcome in outcomes for fault in outcome.faults)
    lengths = [len(rollout.token_ids) for rollout in rollouts]
    return {
        "rollouts": len(rollouts),
        "cut_short": sum(rollout.finish == "length" for rollout in rollouts),
        "turns": fmean(len(outcome.verdicts) for outcome in outcomes),
        "turns_unfinished": fmean(1 - len(outcome.verdicts) / outcome.turns for outcome in outcomes),
        "length_mean": fmean(lengths),
        "length_max": max(lengths),
        "sampled_mean": fmean(sum(rollout.mask) for rollout in rollouts),
        "parse_errors": codes[PARSE_FAILURE],
        "tool_errors": codes[CALL_ERROR],
        "tool_calls": codes[EXECUTED] + codes[CALL_ERROR],
        **{f"tool_error_{kind}": faults[kind] for kind in FAULTS},
    }
