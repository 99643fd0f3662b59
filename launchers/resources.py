"""Which roles a run has and what each is given."""

from __future__ import annotations

from dataclasses import dataclass

from rods.config import Config, JobConfig

TRAIN, SYNTHESIS = "train", "synthesis"


@dataclass(frozen=True)
class Resources:
    """One role's allocation. One task (process) starts per node; it owns the node's GPUs."""

    role: str
    nodes: int
    gpus_per_node: int
    cpus_per_task: int
    mem_gb: int

    @property
    def gpus(self) -> int:
        """GPUs of the whole allocation."""
        return self.nodes * self.gpus_per_node

    def __str__(self) -> str:
        memory = f", {self.mem_gb} GB" if self.mem_gb else ""
        return f"{self.nodes} node(s) × ({self.gpus_per_node} GPUs, {self.cpus_per_task} CPUs{memory})"


def resources(config: Config) -> tuple[Resources, ...]:
    """The run's roles, the trainer first; a static pool (synthesis.enabled=false) has no second role."""
    roles = [_of(TRAIN, config.cluster.train)]
    if config.synthesis.enabled:
        roles.append(_of(SYNTHESIS, config.cluster.synthesis))
    return tuple(roles)


def _of(role: str, job: JobConfig) -> Resources:
    return Resources(role, job.nodes, job.gpus_per_node, job.cpus_per_task, job.mem_gb)
