"""The second job and its language models."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    simulation_processes: int = 0  # that replay finished variants; 0: the event loop's own process
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
