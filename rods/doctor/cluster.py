"""What Slurm's controller says of this cluster, against what a configuration asks of it. Nothing is submitted."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from launchers.resources import Resources, resources
from launchers.scheduler import Answer
from rods.config import ClusterConfig, Config
from rods.doctor.finding import Finding, Level

Ask = Callable[[Sequence[str]], Answer]
_PARTITION_FORMAT = "%P|%a|%l|%D|%G"
_GPU = re.compile(r"gpu:(?:(?P<type>[A-Za-z][\w.-]*):)?(?P<count>\d+)")
_LIMIT = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?$")
_TRIED = "22.05"
_FEW_S = 10  # the roles ask Slurm why they were signalled before they are killed


@dataclass(frozen=True)
class Partition:
    """A line of sinfo: nodes of one partition that have the same GPUs.

    Attributes:
        hours: its time limit; None for none.
        gpus: of a node; `gpu_type` "" where the site names none.
    """

    name: str
    default: bool
    up: bool
    hours: float | None
    nodes: int
    gpus: int
    gpu_type: str


def examine(config: Config, ask: Ask) -> list[Finding]:
    """One finding a question; the first two say whether there is a Slurm at all.

    Args:
        ask: runs one of Slurm's commands.
    """
    version = ask(["sinfo", "--version"])
    if version.trouble:
        return [Finding("Slurm", Level.unfit, version.trouble, "Run it on a login node of the cluster.")]
    tried = _TRIED in version.text
    meaning = "" if tried else f"RODS was tried with Slurm {_TRIED} only."
    found = [Finding("Slurm", Level.ok if tried else Level.note, version.text.strip(), meaning)]
    ping = ask(["scontrol", "ping"])
    if ping.trouble or " UP" not in ping.text:
        said = ping.trouble or " ".join(ping.text.split())
        return [
            *found,
            Finding("controller", Level.unfit, said, "Nothing can be submitted now; ask the site."),
        ]
    found.append(Finding("controller", Level.ok, " ".join(ping.text.split()), ""))
    settings = parse_settings(ask(["scontrol", "show", "config"]).text)
    partitions = parse_partitions(ask(["sinfo", "--all", "--noheader", f"--format={_PARTITION_FORMAT}"]).text)
    found += [partition(config.cluster, partitions)]
    found += [shape(config.cluster, part, partitions) for part in resources(config)]
    chosen = chosen_name(config.cluster, partitions)
    shown = ask(["scontrol", "show", "partition", chosen, "--oneliner"]).text if chosen else ""
    found += [preemption(settings, parse_words(shown)), signals(config.cluster, settings), requeue(settings)]
    return [*found, *accounting(settings), associations(config.cluster, ask)]


def parse_settings(text: str) -> dict[str, str]:
    """`scontrol show config` as a table."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}


def parse_words(text: str) -> dict[str, str]:
    """A line of `scontrol show --oneliner` as a table."""
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def parse_partitions(text: str) -> list[Partition]:
    """The lines of sinfo; others are left out."""
    return [_partition(row) for row in (line.split("|") for line in text.splitlines()) if len(row) == 5]


def _partition(row: list[str]) -> Partition:
    name, state, limit, nodes, gres = row
    gpu = _GPU.search(gres)
    return Partition(
        name=name.rstrip("*"),
        default=name.endswith("*"),
        up=state == "up",
        hours=_hours(limit),
        nodes=int(nodes),
        gpus=int(gpu["count"]) if gpu else 0,
        gpu_type=(gpu["type"] or "") if gpu else "",
    )


def _hours(limit: str) -> float | None:
    """Slurm's days-hours:minutes:seconds, hours:minutes:seconds or minutes:seconds; None for no limit."""
    found = _LIMIT.match(limit)
    if found is None:
        return None
    days, first, second, third = (int(part or 0) for part in found.groups())
    if found[1]:
        return days * 24 + first + second / 60 + third / 3600
    return first + second / 60 + third / 3600 if found[4] else first / 60 + second / 3600


def chosen_name(cluster: ClusterConfig, partitions: Sequence[Partition]) -> str:
    """The configured partition, else the site's default; "" where there is none."""
    default = next((part.name for part in partitions if part.default), "")
    return cluster.partition or default


def partition(cluster: ClusterConfig, partitions: Sequence[Partition]) -> Finding:
    """Whether the partition is there, up, and lets a job run for `cluster.time_hours`."""
    name = chosen_name(cluster, partitions)
    names = ", ".join(dict.fromkeys(part.name for part in partitions)) or "none"
    mine = [part for part in partitions if part.name == name]
    if not mine:
        wanted = f"cluster.partition={name}" if name else "a default partition"
        return Finding("partition", Level.unfit, f"{wanted} is not among: {names}", "Set cluster.partition.")
    limit = mine[0].hours
    said = f"{name}: {'no limit' if limit is None else f'{limit:g} h'}; there are: {names}"
    if not mine[0].up:
        return Finding("partition", Level.warning, f"{said}; it is not up", "Jobs wait until it is.")
    if limit is not None and limit < cluster.time_hours:
        meaning = (
            f"Lower cluster.time_hours ({cluster.time_hours:g}): a longer run goes on in further attempts."
        )
        return Finding("partition", Level.unfit, said, meaning)
    return Finding("partition", Level.ok, said, "")


def shape(cluster: ClusterConfig, role: Resources, partitions: Sequence[Partition]) -> Finding:
    """Whether enough nodes of the partition have the GPUs that a role asks for."""
    probe = f"nodes for {role.role}"
    name = chosen_name(cluster, partitions)
    wanted = f"{role.nodes} × {role.gpus_per_node} GPUs{f' {cluster.gpu_type}' if cluster.gpu_type else ''}"
    mine = [part for part in partitions if part.name == name]
    fit = [
        part for part in mine if part.gpus >= role.gpus_per_node and cluster.gpu_type in ("", part.gpu_type)
    ]
    nodes = sum(part.nodes for part in fit)
    kinds = sorted({f"{part.nodes} × {part.gpus} {part.gpu_type}".strip() for part in mine})
    said = f"wanted {wanted}; {name or 'no partition'} has {', '.join(kinds) or 'no nodes'}"
    if nodes < role.nodes:
        return Finding(
            probe, Level.unfit, said, f"Change cluster.{role.role}, cluster.gpu_type or the partition."
        )
    return Finding(probe, Level.ok, said, "", {"nodes": nodes})


def preemption(settings: dict[str, str], part: dict[str, str]) -> Finding:
    """What a preemption does to a run: time for a checkpoint, or only a restart from the last one."""
    kind = settings.get("PreemptType", "preempt/none")
    mode = part.get("PreemptMode") or settings.get("PreemptMode", "OFF")
    grace = part.get("GraceTime", "0")
    warned = "preempt_send_user_signal" in settings.get("SlurmctldParameters", "")
    said = f"{kind}, mode {mode}, grace {grace} s, signal sent: {'yes' if warned else 'no'}"
    if kind == "preempt/none" or mode == "OFF":
        return Finding("preemption", Level.ok, said, "Jobs of this partition are not preempted.")
    if mode == "CANCEL":
        return Finding("preemption", Level.warning, said, "A preempted run stays ended: rods resume goes on.")
    if grace == "0":
        meaning = (
            "A preempted run starts again from its last checkpoint: see training.checkpoint_every_steps."
        )
        return Finding("preemption", Level.note, said, meaning)
    return Finding("preemption", Level.ok, said, "A run saves its state first when the grace time lets it.")


def signals(cluster: ClusterConfig, settings: dict[str, str]) -> Finding:
    """Time between a job's end and its kill."""
    kill_s = int(settings.get("KillWait", "30 sec").split()[0])
    said = f"KillWait {kill_s} s, cluster.signal_seconds {cluster.signal_seconds}"
    if kill_s < _FEW_S:
        meaning = "Too short to ask why a job is ended: after a scancel the attempt may end without a word."
        return Finding("signals", Level.note, said, meaning)
    return Finding("signals", Level.ok, said, "USR2 comes cluster.signal_seconds before the time limit.")


def requeue(settings: dict[str, str]) -> Finding:
    """Whether jobs go back to the queue. Ours ask for it themselves (--requeue)."""
    held = settings.get("RequeueExitHold", "(null)")
    said = f"JobRequeue {settings.get('JobRequeue', '?')}, RequeueExitHold {held}"
    return Finding(
        "requeue", Level.ok, said, "Jobs are submitted with --requeue, whatever the site's default."
    )


def accounting(settings: dict[str, str]) -> list[Finding]:
    """Who remembers jobs, and whether their energy is measured."""
    kind = settings.get("AccountingStorageType", "(null)")
    kept = settings.get("MinJobAge", "?")
    energy = settings.get("AcctGatherEnergyType", "(null)")
    measured = energy not in ("(null)", "acct_gather_energy/none")
    without = f"Ended jobs are known for {kept} only; rods cost reads the run directory instead."
    return [
        Finding("accounting", Level.ok, kind, "")
        if "slurmdbd" in kind
        else Finding("accounting", Level.warning, kind, without),
        Finding(
            "energy", Level.ok if measured else Level.note, energy, "" if measured else "Not in rods cost."
        ),
    ]


def associations(cluster: ClusterConfig, ask: Ask) -> Finding:
    """Whether the configured account is one of this user's."""
    answer = ask(
        [
            "sacctmgr",
            "--noheader",
            "--parsable2",
            "show",
            "assoc",
            "where",
            f"user={getpass.getuser()}",
            "format=Account",
        ]
    )
    accounts = sorted(set(answer.text.split()))
    said = answer.trouble or f"yours: {', '.join(accounts) or 'none'}"
    if cluster.account and accounts and cluster.account not in accounts:
        return Finding("account", Level.unfit, said, f"cluster.account={cluster.account} is not among them.")
    if answer.trouble:
        return Finding("account", Level.note, said, "Whether an account is needed cannot be told from here.")
    return Finding("account", Level.ok, said, "")
