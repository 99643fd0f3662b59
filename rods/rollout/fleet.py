"""The model servers of `rollout.placement=served`: others', or started here and ended with the trainer.

Started servers run vLLM with its development endpoints, which take weights and ask for no key; so they listen on
the loopback unless `rollout.server.host` says otherwise, and belong on a network of one's own.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

import torch

from rods.config import ModelConfig, RolloutConfig
from rods.rollout.wire import EngineServerError, Thread, Wire
from rods.serving.server import VLLM, ModelServer, ServerPlan

_POLL_S = 0.5
_CPU_BATCH_TOKENS = 8192
_GIB = 2**30
_ENVIRONMENT = {
    "VLLM_SERVER_DEV_MODE": "1",  # the endpoints that take weights
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}


@dataclass(frozen=True)
class Address:
    """How to reach a server: http://HOST:PORT, and its key ("" for none)."""

    url: str
    key: str


class Fleet:
    """Servers that this process started.

    Args:
        thread: where they are watched.
        model_dir: what they load.
        folder: for their logs and key files.
    """

    def __init__(
        self, thread: Thread, model_dir: Path, model: ModelConfig, rollout: RolloutConfig, folder: Path
    ) -> None:
        self._thread = thread
        self._timeout_s = rollout.server.ready_timeout_s
        count = max(1, len(rollout.server.devices))
        self._servers = [
            ModelServer(plan(model_dir, model, rollout, place), folder, f"engine-{place}")
            for place in range(count)
        ]

    @property
    def addresses(self) -> list[Address]:
        """Of the servers, in their order."""
        return [Address(server.url.removesuffix("/v1"), server.key) for server in self._servers]

    def start(self) -> None:
        """Start all and wait until they answer.

        Raises:
            ServerError: one does not come up; with the last lines of its log.
        """
        self._thread.run(self._start())

    def obituary(self) -> str:
        """What is known of servers that ended; "" while all run."""
        ended = [server for server in self._servers if server.exit_status() is not None]
        return "\n".join(
            f"A server ended with status {server.exit_status()}. The last lines of {server.log_file}:\n{server.tail()}"
            for server in ended
        )

    def stop(self) -> None:
        """End all."""
        self._thread.run(self._stop())

    async def _start(self) -> None:
        for server in self._servers:
            await server.start()
        for server in self._servers:
            await server.until_ready(lambda _: None)

    async def _stop(self) -> None:
        await asyncio.gather(*(server.stop() for server in self._servers))


def plan(model_dir: Path, model: ModelConfig, rollout: RolloutConfig, place: int) -> ServerPlan:
    """What the server number `place` runs."""
    devices = rollout.server.devices
    share = ceil(rollout.max_concurrent / max(1, len(devices)))
    options = ["--dtype", model.dtype, "--max-model-len", str(model.max_length), "--max-num-seqs", str(share)]
    options += ["--generation-config", "vllm", "--enable-prefix-caching", "--disable-uvicorn-access-log"]
    on_gpu = bool(devices) or torch.cuda.is_available()
    options += _gpu_options(rollout) if on_gpu else _cpu_options(model, rollout)
    environment = _ENVIRONMENT | ({} if on_gpu else {"VLLM_CPU_OMP_THREADS_BIND": "nobind"})
    return ServerPlan(
        model=str(model_dir),
        command=rollout.server.command or VLLM,
        args=(*options, *rollout.server.args),
        env=environment | ({"CUDA_VISIBLE_DEVICES": devices[place]} if devices else {}),
        host=rollout.server.host,
        ready_timeout_s=rollout.server.ready_timeout_s,
    )


def _gpu_options(rollout: RolloutConfig) -> list[str]:
    return [] if rollout.transfer == "disk" else ["--weight-transfer-config", '{"backend": "nccl"}']


def _cpu_options(model: ModelConfig, rollout: RolloutConfig) -> list[str]:
    # As in vllm_engine: chunks would rewind a seeded request's generator, which CPU generators refuse.
    batch = max(_CPU_BATCH_TOKENS, model.max_length)
    cache = rollout.cpu_cache_gib * _GIB
    options = ["--enforce-eager", "--no-enable-chunked-prefill", "--max-num-batched-tokens", str(batch)]
    return [*options, "--kv-cache-memory-bytes", str(cache)]


async def served_model(wire: Wire, timeout_s: float) -> str:
    """The name of the one model that a server of others serves; waits until it answers.

    Raises:
        EngineServerError: it does not in time, or it serves none or several.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            listed = await wire.get("/v1/models")
            break
        except EngineServerError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(_POLL_S)
    names = [model["id"] for model in listed["data"]]
    if len(names) != 1:
        raise wire.error("/v1/models", f"{len(names)} models ({', '.join(names)}), not one")
    return names[0]


def key_of_others() -> str:
    """The key for servers that others run: the environment variable VLLM_API_KEY."""
    return os.environ.get("VLLM_API_KEY", "")


def wires(addresses: Sequence[Address], timeout_s: float) -> list[Wire]:
    """A wire to each."""
    return [Wire(address.url, address.key, timeout_s) for address in addresses]
