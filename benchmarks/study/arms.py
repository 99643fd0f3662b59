"""What is compared: each arm is an experiment of conf/, with the study's budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rods.errors import RodsError

TRAJECTORIES = 4608
"""Rollouts that every run trains on: 48 steps of 12 tasks × 8."""

COMMON = (
    "training=study",
    "tasks=file",
    "tasks.validation_count=0",
    "buffer.capacity=36",  # as many as there are seed tasks, the paper's ratio
    "boundary.exclusion_steps=3",  # one epoch of the start pool
    "rollout.engine=hf",
    "tracking.wandb=disabled",
    "tracking.rollouts_per_group=0",
    "cluster.train.cpus_per_task=1",
    "launch.heartbeat_timeout_s=3600",  # at the lowest priority of a busy machine a role is silent for long
)


class UnknownArmError(RodsError):
    """An arm that does not exist."""


@dataclass(frozen=True)
class Arm:
    """One system.

    Attributes:
        name: in file names and on the command line.
        title: in tables.
        overrides: of launch.py, beside `COMMON`.
        ablation: whether it is RODS with a part taken away, to be laid beside RODS.
        same_as: the arm whose settings these are under other names: it is not run a second time.
    """

    name: str
    title: str
    overrides: tuple[str, ...]
    ablation: bool = False
    same_as: str = ""


def _ablation(name: str, title: str, same_as: str = "") -> Arm:
    return Arm(f"rods-{name}", title, ("+experiment=rods_tiny", f"+ablation={name}"), True, same_as)


STATIC, RODS = "static", "rods"
ARMS: tuple[Arm, ...] = (
    Arm(STATIC, "static pool", ("+experiment=static_tiny",)),
    Arm("zero_variance", "static, zero-variance filter", ("+experiment=zero_variance_tiny",)),
    Arm("prioritised", "prioritised replay", ("+experiment=prioritised_tiny",)),
    Arm("uniform", "uniform fresh synthesis", ("+experiment=uniform_tiny",)),
    Arm("envtuning", "EnvTuning", ("+experiment=envtuning_tiny", "stages=study_envtuning")),
    Arm(RODS, "RODS", ("+experiment=rods_tiny",)),
    Arm(
        "rods_envtuning",
        "RODS after EnvTuning",
        ("+experiment=rods_envtuning_tiny", "stages=study_rods_envtuning"),
    ),
    Arm("rods_plus", "RODS+", ("+experiment=rods_plus_tiny",)),
    _ablation("random_seeds", "RODS, random seeds"),
    _ablation("no_retirement", "RODS, no retirement"),
    _ablation("binary_reward", "RODS, binary reward"),
    _ablation("no_narrative_planning", "RODS, no narrative planning"),
    _ablation("no_coherence_rewrite", "RODS, no coherence rewrite"),
    _ablation("blind_retry", "RODS, blind retry"),
    _ablation("static_pool", "RODS, static pool", same_as=STATIC),
)


def get(name: str) -> Arm:
    """The arm called `name`.

    Raises:
        UnknownArmError: there is none.
    """
    for arm in ARMS:
        if arm.name == name:
            return arm
    raise UnknownArmError(f"arm {name!r}: expected one of {', '.join(arm.name for arm in ARMS)}")


def chosen(names: Iterable[str]) -> tuple[Arm, ...]:
    """The arms of these names, each once, all without any; in place of one that is another's twin, the other.

    Raises:
        UnknownArmError: a name of none.
    """
    wanted = tuple(get(name) for name in names) or ARMS
    return tuple(dict.fromkeys(get(arm.same_as) if arm.same_as else arm for arm in wanted))
