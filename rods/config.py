"""The schema of a run: every setting, its type and its meaning, and the rules that tie settings together.

Light on purpose: it imports neither torch nor anything else heavy, since `launch.py --help`, planning and the
status commands need it. YAML under `conf/` holds the values; this file holds no experiment, only neutral
defaults. Field comments give the meaning; the paper's values stand in `conf/experiment/rods_qwen4b.yaml`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from rods.config_checks import Problem
from rods.config_rules import problems
from rods.errors import RodsError


class ConfigError(RodsError):
    """A configuration that cannot run; the message names each key, its value and the fix."""


class LaunchMode(StrEnum):
    """plan: print and submit nothing. submit: start and return. wait: start and follow to the end."""

    plan = "plan"
    submit = "submit"
    wait = "wait"


@dataclass(frozen=True)
class TasksConfig:
    """Which seed tasks are trained on and which are held out."""

    source: str = "scripted"  # name in the registry of task sources: scripted | bfcl | file
    path: str = ""  # for file: a dataset's folder (`rods synthesize`), or a JSONL file of tasks
    train_count: int | None = None  # seed tasks used for training; null: all the source has
    heldout_count: int | None = None  # held-out tasks used for evaluation in the run; null: all
    seed: int = 0  # seeds the generation of scripted tasks; bfcl has a fixed split and ignores it


@dataclass(frozen=True)
class ModelConfig:
    """The policy."""

    path: str = "shipped/tiny"  # Hugging Face name or folder; shipped/NAME lies in the package
    dtype: str = "float32"  # float32 | bfloat16
    max_length: int = 1024  # tokens of a whole episode, prompt included
    tools_in_prompt: bool = False  # write the function documentation into the system message
    system_prompt: str = ""  # the system message before the tools, "" for none


@dataclass(frozen=True)
class TrainingConfig:
    """GRPO and the learner."""

    algorithm: str = "grpo"
    epochs: int = 5  # passes over the active pool
    tasks_per_step: int = 32  # tasks (groups) per training step
    group_size: int = 16  # K, rollouts per task
    mini_batches: int = 1  # optimizer steps per training step
    learning_rate: float = 1e-6  # AdamW
    weight_decay: float = 0.0
    adam_betas: tuple[float, float] = (0.9, 0.95)
    warmup_fraction: float = 0.03  # of all planned optimizer steps
    clip_low: float = 0.20  # ratio is clipped to [1 - clip_low, 1 + clip_high]
    clip_high: float = 0.28
    dual_clip: float | None = 10.0  # lower bound on the objective for negative advantages; null: off
    kl_coefficient: float = (
        0.01  # weight of the low-variance KL to the frozen start; 0: no reference in memory
    )
    entropy_coefficient: float = 0.0
    loss_aggregation: str = "seq-mean-token-mean"  # seq-mean-token-mean | token-mean
    normalize_advantage: bool = True  # divide by the group's standard deviation
    importance_cap: float | None = 2.0  # truncation of the engine-to-learner importance weight; null: off
    gradient_clip: float = 1.0
    micro_batch_tokens: int = 8192  # padded tokens per forward/backward
    zero_stage: int = 0  # DeepSpeed ZeRO stage, 0 to 3
    threads: int | None = None  # CPU threads of the learner; null: torch's default
    checkpoint_every_steps: int = 0  # 0: at epoch ends only
    keep_checkpoints: int = 2
    parity_tolerance: float = 1e-3  # mean |logprob(engine) - logprob(learner)| allowed after a weight sync
    evaluate_every_epochs: int = 0  # held-out evaluation at T=1 and greedy; 0: at start and end only


@dataclass(frozen=True)
class RolloutConfig:
    """How episodes are generated."""

    engine: str = "auto"  # hf | vllm | auto (vllm when installed, else hf)
    temperature: float = 1.0
    top_p: float = 1.0
    max_message_tokens: int = 80  # longest assistant message
    max_concurrent: int = 64  # episodes in flight
    gpu_memory_fraction: float = 0.5  # vLLM on GPU, colocated with the learner
    cpu_cache_gib: int = 1  # vLLM on CPU: KV cache


@dataclass  # not frozen: OmegaConf could not set the fields of an entry that a configuration adds to a dict
class BackboneConfig:
    """A language model that answers for the agents."""

    model: str = ""  # the name under which it is served; where the role starts the server, what it loads
    base_url: str = ""  # endpoint of a server that others run; "": the role starts one
    weight: float = 1.0  # share of the attempts, relative to the other backbones'
    server_args: tuple[str, ...] = ()  # further options of a started server
    server_env: dict[str, str] = field(default_factory=dict)  # its environment (CUDA_VISIBLE_DEVICES, …)


@dataclass(frozen=True)
class ServerConfig:
    """How the synthesis role runs a model server."""

    command: tuple[str, ...] = ()  # program that takes vLLM's options; empty: vLLM's server of this Python
    host: str = "127.0.0.1"  # where it listens; another address only for workers on other nodes
    ready_timeout_s: float = 1800.0  # from its start until it answers
    max_restarts: int = 5  # in a row, with growing pauses; one that worked for a while counts anew


@dataclass(frozen=True)
class SynthesisConfig:
    """The second job."""

    enabled: bool = True  # false: a static pool
    backend: str = "scripted"  # scripted (rules, no language model) | openai (an OpenAI-compatible server)
    model: str = ""  # openai with one backbone: its model
    base_url: str = ""  # openai with one backbone: its endpoint; "": the role starts a server
    server_args: tuple[str, ...] = ()  # openai with one backbone: further options of a started server
    backbones: tuple[str, ...] = ()  # openai with several: their names in `catalog`; empty: `model`
    catalog: dict[str, BackboneConfig] = field(default_factory=dict)  # backbones by name
    server: ServerConfig = field(default_factory=ServerConfig)
    max_tokens: int = 4096  # of one answer
    request_timeout_s: float = 180.0  # of one request
    cache_mib: int = 256  # answers kept in the run directory for restarts; 0: none
    workers: int = 64
    max_attempts: int = 3  # per seed, with Config Patch and re-plan between
    variants_per_seed: int = 1
    temperature: float = 1.0
    top_p: float = 0.7
    max_profile_distance: float = 0.25  # of Φ(x′) from Φ(x), in [0, 1]
    coherence_rewrite: bool = True  # false: ablation, no holistic rewrite of the messages
    narrative_planning: bool = (
        True  # false: ablation, functions are sampled from the API graph, without a story
    )
    retry: str = "guided"  # guided | blind: ablation, no history, no Config Patch, no blocklist
    max_string: int = 200  # characters of a string argument
    max_list: int = 5  # items of a list argument
    max_similarity: float = 0.9  # to a seed or held-out task, in (0, 1]; from it on a variant is a duplicate
    min_long_observation: int = 2000  # characters of the largest result of a long_context variant

    def chosen_backbones(self) -> dict[str, BackboneConfig]:
        """The backbones of the openai backend by name; every name must be in the catalog."""
        if not self.backbones:
            return {self.model: BackboneConfig(self.model, self.base_url, server_args=self.server_args)}
        return {name: self.catalog[name] for name in self.backbones}


@dataclass(frozen=True)
class BoundaryConfig:
    """Which tasks lie at the capability boundary, and how many become seeds."""

    selection: str = "boundary"  # boundary | random: ablation, any observed task may become a seed
    alpha_low: float = 0.20  # below: hard
    alpha_high: float = 0.85  # above: mastered
    max_seeds: int = 16  # M, per training step
    quotas: dict[str, int] = field(default_factory=dict)  # Mτ by task type; a type not named has none
    exclusion_steps: int = 13  # a seed task emitted at step s is not emitted again before s + exclusion_steps


@dataclass(frozen=True)
class BufferConfig:
    """The pool of live tasks."""

    capacity: int = 400  # P_max, live generated tasks
    injection_fraction: float = 0.20  # β, of the active pool, per epoch
    burn_in: int = 1  # first observations of a variant that may drop it for being below alpha_low
    drift_high: float = 0.95  # mean reward above: retired as mastered
    drift_low: float = 0.20  # mean reward below: retired as too hard
    stale_epochs: int = 3  # a variant unsampled for so many epochs is removed
    retire: bool = True  # false: ablation, variants stay until capacity
    barrier: bool = False  # wait at an epoch's end for the open seeds: reproducible runs
    barrier_timeout_s: float = 600.0


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
class RewardConfig:
    """What an episode earns."""

    name: str = "progress"  # progress | binary | format
    empty_turn: str = "envtuning"  # envtuning: an answer passes, a call fails | official: not judged


@dataclass(frozen=True)
class SimulationConfig:
    """Where calls run."""

    step_limit: int = 5  # assistant messages with calls per user turn; `at_limit` says what comes next
    max_result_chars: int = 20000  # a longer tool result is cut, and says so
    protocol: str = "hermes"  # how a policy writes: hermes | envtuning (a thought, then calls or an answer)
    hints: str = "none"  # errors as the simulators word them | envtuning: and a line on what to do about them
    types: str = "schema"  # wrong types are an error | official: are left to the simulator, as in BFCL
    at_limit: str = "end_turn"  # the next message is not run | force_quit: it runs and ends the episode
    mcp: str = "replay"  # MCP classes: replay recordings | record: run servers for what is not recorded
    cassettes: str = ""  # folder of the recordings of MCP classes


@dataclass(frozen=True)
class JobConfig:
    """Resources of one role's allocation."""

    nodes: int = 1
    gpus_per_node: int = 0
    cpus_per_task: int = 1
    mem_gb: int = 0  # 0: the site's default


@dataclass(frozen=True)
class ClusterConfig:
    """Where the two jobs run."""

    kind: str = "local"  # local | slurm
    coschedule: str = "het"  # slurm only: het (one heterogeneous job)
    partition: str = ""
    account: str = ""
    qos: str = ""
    time_hours: float = 72.0
    signal_seconds: int = 120  # USR2 this long before the limit
    gpu_type: str = ""
    setup: tuple[str, ...] = ()  # shell lines before srun: modules, environments
    extra: dict[str, str] = field(default_factory=dict)  # further #SBATCH options
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
    heartbeat_timeout_s: float = 300.0  # a role silent for longer counts as dead


@dataclass(frozen=True)
class Config:
    """One run, whole."""

    experiment: str = "unnamed"  # the first part of the run directory's name
    seed: int = 0  # fixes task order and sampling seeds
    tasks: TasksConfig = field(default_factory=TasksConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    synthesis: SynthesisConfig = field(default_factory=SynthesisConfig)
    boundary: BoundaryConfig = field(default_factory=BoundaryConfig)
    buffer: BufferConfig = field(default_factory=BufferConfig)
    exchange: ExchangeConfig = field(default_factory=ExchangeConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    simulation: SimulationConfig = field(default_factory=SimulationConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    tracking: TrackingConfig = field(default_factory=TrackingConfig)
    launch: LaunchConfig = field(default_factory=LaunchConfig)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able data; `from_mapping` is its inverse."""
        return asdict(self)


def from_mapping(data: DictConfig | dict[str, Any]) -> Config:
    """Type-check a composed configuration against the schema. Cross-field rules: `validate`.

    Raises:
        ConfigError: an unknown key, a missing section or a value of the wrong type; names the key.
    """
    schema = OmegaConf.structured(Config)
    _make_writable(schema)
    try:
        merged = OmegaConf.merge(schema, data)
        config = OmegaConf.to_object(merged)
    except OmegaConfBaseException as error:
        key = getattr(error, "full_key", None) or "?"
        first_line = str(error).splitlines()[0]
        raise ConfigError(f"config key {key}: {first_line}. See rods/config.py for the schema.") from error
    assert isinstance(config, Config)
    return config


def _make_writable(node: DictConfig) -> None:
    """Frozen dataclasses become read-only nodes, each on its own; merging values into them needs them writable."""
    OmegaConf.set_readonly(node, False)
    for key in node:
        child = node._get_node(key)
        if isinstance(child, DictConfig) and not child._is_missing():
            _make_writable(child)


def validate(config: Config) -> None:
    """Refuse a configuration that contradicts itself or this machine.

    Raises:
        ConfigError: all problems at once, one line each: key = value, what is wrong, the fix.
    """
    found: list[Problem] = problems(config)
    if found:
        lines = "\n".join(f"  {problem}" for problem in found)
        raise ConfigError(f"this configuration cannot run ({len(found)} problem(s)):\n{lines}")
