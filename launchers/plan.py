"""What a launch would do, before it does it: resources, their cost, and the exact commands.

Planning is pure: it writes nothing, submits nothing and needs neither Slurm nor a GPU, so that it runs on any
laptop before a cluster's hours are spent.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from launchers.identity import config_hash, plain
from launchers.resources import Resources, resources
from rods.config import Config
from rods.config.stages import planned_epochs
from rods.registry import Registry

# What a kind of cluster would run, as text: (config, run directory, attempt) → commands.
DESCRIPTIONS = Registry(
    "cluster.kind", {"local": "launchers.local:describe", "slurm": "launchers.slurm:describe"}
)
RANDOM_SUFFIX = "XXXXXX"  # stands for the six random characters that the run directory's name will have


@dataclass(frozen=True)
class Plan:
    """A launch on paper.

    Attributes:
        run_dir: where the run directory would be; its name ends in `RANDOM_SUFFIX`.
        where: "local" or "slurm".
        mode: what `launch.mode` asks for.
        roles: each role with the resources of its allocation.
        length: how much training it asks for.
        time_hours: the time limit of one attempt; None where there is none, on this machine.
        gpu_hours: time limit × GPUs, an upper bound for one attempt; None without a limit.
        chain: jobs one after another, each an attempt.
        commands: the sbatch text, or the commands on this machine.
        config: the resolved configuration as YAML.
    """

    experiment: str
    config_hash: str
    run_dir: Path
    where: str
    mode: str
    roles: tuple[Resources, ...]
    length: str
    time_hours: float | None
    gpu_hours: float | None
    chain: int
    commands: str
    config: str


def build(config: Config) -> Plan:
    """The plan of one run."""
    digest = config_hash(config)
    run_dir = Path(config.launch.runs_dir).absolute() / f"{config.name}-{digest[:8]}-{RANDOM_SUFFIX}"
    roles = resources(config)
    # On this machine nothing is allocated, and nothing ends a run but itself.
    limit = config.cluster.time_hours if config.cluster.kind == "slurm" else None
    return Plan(
        experiment=config.name,
        config_hash=digest,
        run_dir=run_dir,
        where=config.cluster.kind,
        mode=str(config.launch.mode),
        roles=roles,
        length=_length(config),
        time_hours=limit,
        gpu_hours=None if limit is None else limit * sum(role.gpus for role in roles),
        chain=config.launch.chain,
        commands=DESCRIPTIONS.get(config.cluster.kind)(config, run_dir, 1),
        config=yaml.safe_dump(plain(config), sort_keys=False, allow_unicode=True),
    )


def render(plan: Plan) -> str:
    """The plan as text for a person: the summary stands at both ends, since what lies between fills screens."""
    summary = _summary(plan)
    title = "sbatch text" if plan.where == "slurm" else "commands on this machine"
    parts = [f"--- {title} ---\n{plan.commands}", f"--- resolved configuration ---\n{plan.config}", summary]
    return "\n\n".join(part.strip("\n") for part in [summary, *parts])


def _summary(plan: Plan) -> str:
    lines = [
        f"experiment   {plan.experiment} (config {plan.config_hash[:8]})",
        f"run dir      {plan.run_dir}",
        f"where        {plan.where}",
    ]
    lines += [f"{role.role:<12} {role}" for role in plan.roles]
    return "\n".join([*lines, f"length       {plan.length}", f"cost         {_cost(plan)}"])


def _length(config: Config) -> str:
    if config.evaluation.enabled:
        return "one evaluation, no training"
    training = config.training
    budget = "" if training.trajectories is None else f", no more than {training.trajectories} rollouts"
    bound = "at most " if training.stages else ""
    size = f"{training.tasks_per_step} tasks × {training.group_size} rollouts a step"
    return f"{bound}{planned_epochs(config)} epochs, each over the pool as it stands then, {size}{budget}"


def _cost(plan: Plan) -> str:
    gpus = sum(role.gpus for role in plan.roles)
    if plan.gpu_hours is None or plan.time_hours is None:
        return "nothing is allocated here, and no time limit ends the run: how long it takes is not known"
    if not gpus:
        return "no GPUs: 0 GPU-hours"
    chain = f", {plan.chain * plan.gpu_hours:g} for the chain of {plan.chain}" if plan.chain > 1 else ""
    return f"at most {plan.gpu_hours:g} GPU-hours an attempt ({plan.time_hours:g} h × {gpus} GPUs){chain}"
