"""What is learned and how: tasks, policy, objective, reward, simulation."""

from __future__ import annotations

from dataclasses import dataclass, field

from rods.config.stages import StageConfig


@dataclass(frozen=True)
class TasksConfig:
    """Which seed tasks are trained on and which are held out."""

    source: str = "scripted"  # name in the registry of task sources: scripted | bfcl | file
    path: str = ""  # for file: a dataset's folder (`rods synthesize`), or a JSONL file of tasks
    train_count: int | None = None  # seed tasks used for training; null: all the source has
    heldout_count: int | None = None  # held-out tasks used for evaluation in the run; null: all
    validation_count: int | None = 0  # tasks evaluated on while training; null: as many as the source gives
    seed: int = 0  # seeds the generation of scripted tasks; bfcl has a fixed split and ignores it


@dataclass(frozen=True)
class ModelConfig:
    """The policy."""

    path: str = "shipped/tiny"  # Hugging Face name or folder; shipped/NAME lies in the package
    dtype: str = "float32"  # float32 | bfloat16
    max_length: int = 1024  # tokens of a whole episode, prompt included
    tools_in_prompt: bool = False  # write the function documentation into the system message
    tool_names_in_prompt: bool = False  # write the functions' names alone into it
    system_prompt: str = ""  # the system message before the tools, "" for none


@dataclass(frozen=True)
class CriticConfig:
    """The critic of PPO: a model of its own, the policy's start with a value head. Unused under GRPO."""

    learning_rate: float = 1e-5  # AdamW, with the policy's betas, weight decay and gradient clip
    warmup_fraction: float = 0.03  # of all planned optimizer steps: its learning rate rises
    alone_steps: int = 0  # first training steps in which only the critic learns
    discount: float = 1.0  # γ, per sampled token
    gae_lambda: float = 0.95  # λ
    clip: float | None = 0.2  # a value may leave the step's first one by so much; null: off


@dataclass(frozen=True)
class TrainingConfig:
    """The objective and the learner."""

    algorithm: str = "grpo"  # grpo: the group's mean is the baseline | ppo: a critic and GAE
    credit: str = "episode"  # a rollout's tokens share its reward | turn: each user turn has its own
    max_resamples: int = 0  # groups without variance drawn again in a step, at most; not told the curriculum
    skip_zero_variance: bool = False  # groups without signal stay out of the update and of its averages
    stages: tuple[StageConfig, ...] = ()  # one after the other; empty: one, as set elsewhere
    epochs: int = 5  # passes over the active pool, without stages
    trajectories: int | None = None  # rollouts after which the run ends, whatever epochs are left
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
    normalize_advantage: bool = True  # grpo: divide by the group's standard deviation | ppo: whiten
    importance_cap: float | None = 2.0  # truncation of the engine-to-learner importance weight; null: off
    gradient_clip: float = 1.0
    micro_batch_tokens: int = 8192  # tokens per forward/backward
    gradient_checkpointing: bool | None = None  # recompute activations in the backward pass; null: on a GPU
    zero_stage: int = 0  # DeepSpeed ZeRO stage, 0 to 3
    ranks_per_node: int | None = None  # processes that train together; null: one a GPU, one without GPUs
    threads: int | None = None  # CPU threads of the learner, in each rank; null: torch's default
    checkpoint_every_steps: int = 0  # 0: at epoch ends only
    keep_checkpoints: int = 2
    async_checkpoint: bool = False  # written while the next steps run, from a copy in host memory
    keep_best: str = ""  # export the policy at each new best evaluation: sampled | greedy | "" (never)
    parity_tolerance: float = 1e-3  # mean |logprob(engine) - logprob(learner)| allowed after a weight sync
    evaluate_every_steps: int = 0  # evaluation on the validation tasks, else the held-out ones; 0: never
    evaluate_every_epochs: int = 0  # likewise at epoch ends; held-out: at start, stage ends and end always
    evaluation_modes: tuple[str, ...] = ("sampled", "greedy")  # at temperature 1 | the likeliest token
    critic: CriticConfig = field(default_factory=CriticConfig)


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
    protocol: str = "hermes"  # how a policy writes: hermes | llama | envtuning (a thought before all it does)
    hints: str = "none"  # errors as the simulators word them | envtuning: and a line on what to do about them
    types: str = "schema"  # wrong types are an error | official: are left to the simulator, as in BFCL
    at_limit: str = "end_turn"  # the next message is not run | force_quit: it runs and ends the episode
    mcp: str = "replay"  # MCP classes: replay recordings | record: run servers for what is not recorded
    cassettes: str = ""  # folder of the recordings of MCP classes
