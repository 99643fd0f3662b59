"""Rules for the cluster: what goes into a batch file as text must not become another line or option there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rods.config.checks import Problem, at_least, choice, positive

if TYPE_CHECKING:
    from rods.config import ClusterConfig, Config

# #SBATCH options that the batch text sets itself, and the setting that each comes from.
OWN_OPTIONS = {
    "account": "cluster.account",
    "array": "launch.py -m",
    "cpus-per-task": "cluster.ROLE.cpus_per_task",
    "dependency": "launch.chain and cluster.coschedule",
    "error": "the run directory",
    "gpus-per-node": "cluster.ROLE.gpus_per_node",
    "job-name": "experiment",
    "mem": "cluster.ROLE.mem_gb",
    "nodes": "cluster.ROLE.nodes",
    "ntasks": "cluster.ROLE.nodes",
    "ntasks-per-node": "cluster.ROLE.nodes",
    "open-mode": "the run directory",
    "output": "the run directory",
    "partition": "cluster.partition",
    "qos": "cluster.qos",
    "signal": "cluster.signal_seconds",
    "time": "cluster.time_hours",
}
_OPTION = re.compile(r"[a-z][a-z0-9-]*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MOUNT = re.compile(r"/[^:,]*(:/[^:,]*)?(:r[ow])?")


def _cluster(config: Config) -> Iterator[Problem]:
    cluster = config.cluster
    yield from choice("cluster.kind", cluster.kind, ("local", "slurm"))
    yield from choice("cluster.coschedule", cluster.coschedule, ("het", "single", "pair"))
    yield from positive("cluster.time_hours", cluster.time_hours)
    yield from positive("cluster.rendezvous_s", cluster.rendezvous_s)
    yield from at_least("cluster.signal_seconds", cluster.signal_seconds, 1)
    yield from at_least("launch.chain", config.launch.chain, 1)
    for role in ("train", "synthesis"):
        job = getattr(cluster, role)
        yield from at_least(f"cluster.{role}.nodes", job.nodes, 1)
        yield from at_least(f"cluster.{role}.gpus_per_node", job.gpus_per_node, 0)
        yield from at_least(f"cluster.{role}.cpus_per_task", job.cpus_per_task, 1)
        yield from at_least(f"cluster.{role}.mem_gb", job.mem_gb, 0)
    yield from _train_nodes(config)
    if cluster.kind == "local" and config.launch.chain > 1:
        yield Problem(
            "launch.chain",
            config.launch.chain,
            "a run on this machine has no time limit to be split at (cluster.kind = local)",
            "set it to 1",
        )
    if cluster.kind == "slurm":
        yield from _texts(config)
        yield from _options(cluster)
        yield from _container(config)
        yield from _signal(cluster)
        if cluster.coschedule == "single" and config.synthesis.enabled:
            yield from _one_shape(cluster)


def _train_nodes(config: Config) -> Iterator[Problem]:
    nodes = config.cluster.train.nodes
    if nodes > 1 and config.cluster.kind == "local":
        yield Problem(
            "cluster.train.nodes",
            nodes,
            "a run on this machine has one node (cluster.kind = local)",
            "set it to 1, and training.ranks_per_node to the processes that are to train together",
        )
    if nodes > 1 and config.evaluation.enabled:
        yield Problem(
            "cluster.train.nodes",
            nodes,
            "an evaluation is played on one node (evaluation.enabled)",
            "set it to 1",
        )
    if nodes > 1 and config.rollout.placement == "served":
        yield Problem(
            "cluster.train.nodes",
            nodes,
            "servers are started on one node and share it with the trainer (rollout.placement = served)",
            "set it to 1, or rollout.placement=colocated",
        )


def _texts(config: Config) -> Iterator[Problem]:
    cluster = config.cluster
    lines = {
        f"cluster.{name}": getattr(cluster, name) for name in ("partition", "account", "qos", "gpu_type")
    }
    lines |= {f"cluster.extra.{name}": value for name, value in cluster.extra.items()}
    lines |= {f"cluster.setup[{index}]": line for index, line in enumerate(cluster.setup)}
    lines |= {f"cluster.container.{name}": getattr(cluster.container, name) for name in ("image", "python")}
    lines["launch.runs_dir"] = config.launch.runs_dir
    for key, text in lines.items():
        if _CONTROL.search(text):
            yield Problem(
                key, text, "a line break or control character would end its line", "set one plain line"
            )


def _options(cluster: ClusterConfig) -> Iterator[Problem]:
    for name, value in cluster.extra.items():
        key = f"cluster.extra.{name}"
        if not _OPTION.fullmatch(name):
            yield Problem(
                key, value, "no long option of sbatch", "name it without the dashes, e.g. constraint"
            )
        elif name in OWN_OPTIONS:
            yield Problem(key, value, "the batch text sets this itself", f"use {OWN_OPTIONS[name]} instead")


def _container(config: Config) -> Iterator[Problem]:
    container, runs_dir = config.cluster.container, config.launch.runs_dir
    yield from choice("cluster.container.kind", container.kind, ("none", "apptainer", "pyxis"))
    if (container.kind != "none") is not bool(container.image):
        yield Problem(
            "cluster.container.image",
            container.image,
            f"cluster.container.kind is {container.kind}; an image and a kind belong together",
            "set both, or neither (kind=none)",
        )
    if not container.python.strip():
        yield Problem("cluster.container.python", container.python, "names no interpreter", "set python")
    if container.kind != "none" and {":", ","} & set(runs_dir):
        yield Problem(
            "launch.runs_dir",
            runs_dir,
            "the run directory is mounted into the container, and ':' and ',' separate mounts",
            "set a path without them",
        )
    for index, mount in enumerate(container.mounts):
        if not _MOUNT.fullmatch(mount) or _CONTROL.search(mount):
            yield Problem(
                f"cluster.container.mounts[{index}]",
                mount,
                "no mount",
                "set /PATH or /PATH:/INSIDE (:ro, :rw)",
            )


def _signal(cluster: ClusterConfig) -> Iterator[Problem]:
    limit_s = cluster.time_hours * 3600
    if 0 < limit_s <= cluster.signal_seconds:
        yield Problem(
            "cluster.signal_seconds",
            cluster.signal_seconds,
            f"the job ends after {limit_s:g} s (cluster.time_hours = {cluster.time_hours:g}): it would be told to "
            "stop as it starts",
            f"set it well below {limit_s:g}",
        )


def _one_shape(cluster: ClusterConfig) -> Iterator[Problem]:
    """`single` asks for nodes that are all equal."""
    for name in ("gpus_per_node", "cpus_per_task", "mem_gb"):
        train, synthesis = getattr(cluster.train, name), getattr(cluster.synthesis, name)
        if train != synthesis:
            yield Problem(
                f"cluster.synthesis.{name}",
                synthesis,
                f"one job has nodes of one shape, but cluster.train.{name} = {train}",
                "make both equal, or set cluster.coschedule=het",
            )


RULES: tuple[Callable[[Config], Iterator[Problem]], ...] = (_cluster,)
