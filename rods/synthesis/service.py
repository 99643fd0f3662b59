"""The configured backend with everything it needs: model servers that the run starts itself, and the cache."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from rods.config import BackboneConfig, SynthesisConfig
from rods.exchange.atomic import make_dirs
from rods.serving.server import VLLM, ModelServer, ServerPlan, Waiting
from rods.synthesis.agents import BACKENDS, Backend, BackendUnavailableError
from rods.synthesis.endpoint import Backbone, Endpoint
from rods.synthesis.llm import OpenAIBackend, remote
from rods.synthesis.request_cache import RequestCache

_POLL_S = 0.5
_SERVED = "openai"


@asynccontextmanager
async def open_backend(
    config: SynthesisConfig, folder: Path, logs: Path, waiting: Waiting
) -> AsyncIterator[Backend]:
    """The backend of `config`, ready to answer; its servers are watched meanwhile and stopped at the end.

    Args:
        config: the run's synthesis settings.
        folder: where the request cache lies over restarts, `folder`/llm_cache.
        logs: for the servers' logs and key files, a folder of this start alone.
        waiting: called every half second while a server is not ready; what it raises ends the wait.

    Raises:
        ServerError: a server does not come up, or did not stay up: the body is cancelled then.
        BackendUnavailableError: a server that others run does not answer.
    """
    if config.backend != _SERVED:
        backend: Backend = BACKENDS.get(config.backend)(config)
        try:
            yield backend
        finally:
            await backend.close()
        return
    async with AsyncExitStack() as stack:
        servers, backbones = await _start(config, logs, stack)
        cache = RequestCache(folder / "llm_cache", config.cache_mib * 2**20) if config.cache_mib else None
        served = OpenAIBackend(config, backbones, cache)
        stack.push_async_callback(served.close)
        for server in servers:
            await server.until_ready(waiting)
        for endpoint in served.endpoints:
            await _until_there(endpoint, config.server.ready_timeout_s, waiting)
        try:
            async with asyncio.TaskGroup() as group:
                watchers = [group.create_task(server.watch()) for server in servers]
                yield served
                for watcher in watchers:
                    watcher.cancel()
        except BaseExceptionGroup as found:
            # A group of one: a watcher's failure cancels the body, and the body's failure the watchers.
            raise found.exceptions[0] from None


async def _start(
    config: SynthesisConfig, logs: Path, stack: AsyncExitStack
) -> tuple[Sequence[ModelServer], Sequence[Backbone]]:
    """Start the servers that are ours; the backbones in the configuration's order."""
    servers: list[ModelServer] = []
    backbones: list[Backbone] = []
    make_dirs(logs)
    for name, backbone in config.chosen_backbones().items():
        if backbone.base_url:
            backbones.append(remote(name, config))
            continue
        server = ModelServer(_plan(config, backbone), logs, f"server-{re.sub(r'[^A-Za-z0-9.-]', '_', name)}")
        stack.push_async_callback(server.stop)
        await server.start()
        servers.append(server)
        backbones.append(Backbone(backbone.model, server.url, backbone.weight, server.key))
    return servers, backbones


def _plan(config: SynthesisConfig, backbone: BackboneConfig) -> ServerPlan:
    server = config.server
    return ServerPlan(
        model=backbone.model,
        command=server.command or VLLM,
        args=backbone.server_args,
        env=backbone.server_env,
        host=server.host,
        ready_timeout_s=server.ready_timeout_s,
        max_restarts=server.max_restarts,
    )


async def _until_there(endpoint: Endpoint, timeout_s: float, waiting: Waiting) -> None:
    began = time.monotonic()
    while problem := await endpoint.problem():
        if time.monotonic() - began > timeout_s:
            raise BackendUnavailableError(
                f"{endpoint.backbone.base_url}: expected a server of {endpoint.backbone.model}, found none in "
                f"{timeout_s:g} s ({problem}). Start it, or correct the endpoint, the model's name or the key."
            )
        waiting(f"model {endpoint.backbone.model} at {endpoint.backbone.base_url}: {problem}")
        await asyncio.sleep(_POLL_S)
