"""Where and how a run runs: the shared directory, the cluster, tracking, launching."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class LaunchMode(StrEnum):
    """plan: print and submit nothing. submit: start and return. wait: start and follow to the end."""

    plan = "plan"
    submit = "submit"
    wait = "wait"


@dataclass(frozen=True)
class ExchangeConfig:
    """The shared directory: how durable, how deep, how long a silent worker keeps its claim."""

    fsync: str = (
        "always"  # the journal reaches the disk: always (each append) | step (each training step) | never
    )
    lease_s: float = 60.0  # a claimed seed whose worker is silent for longer goes to another one
    max_deliveries: int = 3  # claims of one message before it is set aside (poison)
    seed_batch: int = 4  # seeds per file in the seeds queue: one file, one claim, one lease
    max_ready_seeds: int = 512  # waiting seeds; above it those of lowest φ are dropped and counted
    group: str = ""  # Unix group that may read and write the run directory; "": the user's own
    mode: str = "0750"  # permissions of the run's folders, octal; with `group` usually 2770


@dataclass(frozen=True)
class JobConfig:
    """Resources of one role's allocation."""

    nodes: int = 1
    gpus_per_node: int = 0
    cpus_per_task: int = 1
    mem_gb: int = 0  # 0: the site's default


@dataclass(frozen=True)
class ContainerConfig:
    """The container that the roles run in; the run directory is mounted in each case."""

    kind: str = "none"  # none | apptainer | pyxis (enroot)
    image: str = ""  # a .sif or .sqsh file, or an address as the kind takes it
    mounts: tuple[str, ...] = ()  # what else the roles read, each HOST or HOST:INSIDE
    python: str = "python"  # the interpreter inside the image


@dataclass(frozen=True)
class ClusterConfig:
    """Where the two jobs run."""

    kind: str = "local"  # local | slurm
    coschedule: str = "het"  # slurm: het (one heterogeneous job) | single (one job) | pair (two jobs)
    rendezvous_s: float = 900.0  # pair: synthesis without a trainer for so long gives its nodes back
    partition: str = ""
    account: str = ""
    qos: str = ""
    time_hours: float = 72.0
    signal_seconds: int = 120  # USR2 this long before the limit
    gpu_type: str = ""
    setup: tuple[str, ...] = ()  # shell lines before srun: modules, environments
    extra: dict[str, str] = field(default_factory=dict)  # further #SBATCH options; "": without a value
    container: ContainerConfig = field(default_factory=ContainerConfig)
    train: JobConfig = field(default_factory=JobConfig)
    synthesis: JobConfig = field(default_factory=JobConfig)


@dataclass(frozen=True)
class TrackingConfig:
    """Weights & Biases; the local journal and metrics are the truth, this is a copy."""

    wandb: str = "auto"  # auto (online when logged in, else offline) | online | offline | disabled
    project: str = "rods"
    entity: str = ""
    rollouts_per_group: int = 1  # rollouts of each group kept as text in the run directory


@dataclass(frozen=True)
class LaunchConfig:
    """What launch.py does."""

    mode: LaunchMode = LaunchMode.wait
    runs_dir: str = "runs"
    resume: str = ""  # path of a run directory to continue
    chain: int = 1  # slurm: submit so many jobs; each continues the run when the one before has ended
    stop_deadline_s: float = (
        30.0  # asked to stop, rollouts under way may still end for so long; then they are left
    )
    watchdog_s: float = 0.0  # a trainer in which nothing moves for longer tells its stacks and ends; 0: off
    heartbeat_timeout_s: float = 300.0  # a role silent for longer counts as dead
    max_stalled_attempts: int = 3  # slurm: so many starts in a row without a new checkpoint end the run
    max_parallel: int = 0  # runs of a sweep at once; 0: one on this machine, no bound on Slurm
