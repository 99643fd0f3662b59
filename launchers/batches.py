"""Which batch jobs a run is submitted as, by `cluster.coschedule`.

het     one heterogeneous job: its components start together or not at all.
single  one job of two equal nodes, the first of which trains.
pair    two jobs: the trainer starts alone, synthesis once the trainer runs. Two jobs that wait for each other while
        each holds its GPUs would never start, so the trainer never waits for synthesis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from launchers.resources import SYNTHESIS, TRAIN, Resources, resources
from rods.config import Config
from rods.exchange import replica
from rods.registry import Registry


@dataclass(frozen=True)
class Batch:
    """One job, of one or more roles.

    Attributes:
        name: of its batch file and its logs.
        roles: what runs in it; the nodes of the first come first.
        components: the shape of each component of a heterogeneous job; one for a plain job.
        coschedule: how its roles meet.
        replica: number of its first synthesis daemon.
        series: where its starts are numbered (see `rods.exchange.series`); "": with the run's own attempts.
        follows_trainer: it may start once the trainer's job has.
    """

    name: str
    roles: tuple[Resources, ...]
    components: tuple[Resources, ...]
    coschedule: str
    replica: int = 0
    series: str = ""
    follows_trainer: bool = False


def batches(config: Config) -> tuple[Batch, ...]:
    """The run's jobs, that of the trainer first; a static pool has no other."""
    roles = resources(config)
    kind = config.cluster.coschedule
    if len(roles) == 1:
        return (Batch(TRAIN, roles, roles, kind),)
    found: tuple[Batch, ...] = COSCHEDULES.get(kind)(roles)
    return found


def het(roles: tuple[Resources, ...]) -> tuple[Batch, ...]:
    """One heterogeneous job, a component a role."""
    return (Batch("het", roles, roles, "het"),)


def single(roles: tuple[Resources, ...]) -> tuple[Batch, ...]:
    """One job whose nodes have the trainer's shape, which is that of all roles."""
    whole = replace(roles[0], nodes=sum(role.nodes for role in roles))
    return (Batch("single", roles, (whole,), "single"),)


def pair(roles: tuple[Resources, ...]) -> tuple[Batch, ...]:
    """The trainer's job and that of the first synthesis daemons."""
    train, synthesis = roles
    return (Batch(TRAIN, (train,), (train,), "pair"), daemons(synthesis, 0))


def daemons(synthesis: Resources, first: int) -> Batch:
    """A job of synthesis alone: one daemon a node, the first of which is number `first` of the run."""
    name = replica.name(SYNTHESIS, first)
    return Batch(name, (synthesis,), (synthesis,), "pair", first, series=name, follows_trainer=True)


COSCHEDULES = Registry(
    "cluster.coschedule", {kind: f"{__name__}:{kind}" for kind in ("het", "single", "pair")}
)
