"""How episodes are generated, and where the engine runs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class EngineServerConfig:
    """Servers that the training role starts for `placement=served`."""

    command: tuple[str, ...] = ()  # program that takes vLLM's options; empty: vLLM's server of this Python
    args: tuple[str, ...] = ()  # further options, such as --tensor-parallel-size 2
    devices: tuple[
        str, ...
    ] = ()  # CUDA_VISIBLE_DEVICES of each server, such as [4,5]; empty: one server, on all
    host: str = "127.0.0.1"  # where they listen; vLLM's weight endpoints ask for no key
    ready_timeout_s: float = 1800.0  # from the start until all answer


@dataclass(frozen=True)
class RolloutConfig:
    """How episodes are generated."""

    engine: str = "auto"  # hf | vllm | auto (vllm when installed, else hf)
    placement: str = (
        "colocated"  # colocated: in the trainer's process | served: vLLM servers, on GPUs of their own
    )
    servers: tuple[str, ...] = ()  # served: http://HOST:PORT of servers that others run; empty: start some
    server: EngineServerConfig = field(default_factory=EngineServerConfig)
    transfer: str = "auto"  # served: weights by nccl | disk | auto (nccl where the trainer has a GPU)
    transfer_dir: str = ""  # disk: a folder that trainer and servers see; "": this machine's memory
    answer_timeout_s: float = 600.0  # served: longest silence of a server before the run ends
    one_step_off: bool = False  # the next step's rollouts are drawn while this step's update runs
    temperature: float = 1.0
    top_p: float = 1.0
    max_message_tokens: int = 80  # longest assistant message
    max_episode_tokens: int | None = None  # of a whole episode, prompt included; null: model.max_length
    max_concurrent: int = 64  # episodes in flight
    gpu_memory_fraction: float = 0.5  # vLLM on GPU, colocated with the learner
    cpu_cache_gib: int = 1  # vLLM on CPU: KV cache
