"""The NCCL way of new weights, as far as it goes without GPUs: vLLM's own trainer engine and its own server routes.

Replaced are the NCCL group and the broadcast itself, which need CUDA; the broadcast is checked for what it would send.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rods.rollout.weight_push import NcclPush
from rods.rollout.wire import EngineServerError, Thread, Wire

pytestmark = [pytest.mark.vllm, pytest.mark.slow]
WEIGHTS = [
    ("a.weight", torch.arange(6.0).reshape(2, 3)),
    ("lm_head.weight", torch.ones(2, dtype=torch.bfloat16)),
]


class Workers:
    """What stands behind a server's routes: notes what it is told."""

    def __init__(self, count: int) -> None:
        self.vllm_config = SimpleNamespace(parallel_config=SimpleNamespace(world_size_across_dp=count))
        self.told: list[tuple[str, Any]] = []
        self.fails = ""

    def _note(self, what: str, given: Any = None) -> None:
        if what == self.fails:
            raise RuntimeError("no such group")
        self.told.append((what, given))

    async def init_weight_transfer_engine(self, request: Any) -> None:
        self._note("init", request.init_info)

    async def start_weight_update(self) -> None:
        self._note("start")

    async def update_weights(self, request: Any) -> None:
        self._note("update", request.update_info)

    async def finish_weight_update(self, weight_version: str | None) -> None:
        self._note("finish", weight_version)

    async def shutdown_weight_transfer_engine(self) -> None:
        self._note("shutdown")


class Served:
    """vLLM's routes for `workers` on a free port."""

    def __init__(self, workers: Workers) -> None:
        import uvicorn
        from fastapi import FastAPI
        from vllm.entrypoints.rl.online.api_router import router

        app = FastAPI()
        app.include_router(router)
        app.state.engine_client = workers
        self._server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="critical"))
        self._thread = threading.Thread(target=lambda: asyncio.run(self._server.serve()), daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What vLLM's trainer engine opens and broadcasts, in order."""
    pytest.importorskip("vllm", reason="vllm is not installed: pip install -e '.[cpu]'")
    from vllm.distributed.weight_transfer import nccl_engine

    noted: list[Any] = []
    group = SimpleNamespace(destroy=lambda: noted.append("destroyed"))

    def opened(init_info: Any) -> Any:
        noted.append((init_info.rank, init_info.world_size, init_info.master_address))
        return group

    def broadcast(iterator: Iterator[tuple[str, torch.Tensor]], group: Any, src: int, **_: Any) -> None:
        noted.extend((src, name, tensor) for name, tensor in iterator)

    monkeypatch.setattr(nccl_engine, "open_trainer_endpoint", opened)
    monkeypatch.setattr(nccl_engine, "packed_nccl_broadcast_producer", broadcast)
    monkeypatch.setattr(
        nccl_engine.NCCLTrainerWeightTransferEngine, "_post_send_sync", lambda self: None, raising=False
    )
    monkeypatch.setattr(torch.Tensor, "cuda", lambda self: self)
    return noted


@pytest.fixture
def fleet(sent: list[Any]) -> Iterator[tuple[NcclPush, list[Workers]]]:
    """Two servers, of two workers and of one."""
    workers = [Workers(2), Workers(1)]
    served = [Served(each) for each in workers]
    thread = Thread()
    push = NcclPush(thread, [Wire(each.url, "", 30.0) for each in served])
    yield push, workers
    thread.close()
    for each in served:
        each.stop()


def test_weights_go_through_vllms_own_engine_and_routes(
    fleet: tuple[NcclPush, list[Workers]], sent: list[Any]
) -> None:
    push, workers = fleet
    push.send(iter(WEIGHTS))
    push.send(iter(WEIGHTS))
    push.close()
    meta = {
        "names": ["a.weight", "lm_head.weight"],
        "dtype_names": ["float32", "bfloat16"],
        "shapes": [[2, 3], [2]],
    }
    update = [("start", None), ("update", meta), ("finish", None)]
    for each, offset in zip(workers, (1, 3), strict=True):  # the trainer is rank 0
        (first, given), *rest = each.told
        assert first == "init"
        assert (given["rank_offset"], given["world_size"], given["packed"]) == (offset, 4, True)
        assert rest[:6] == update * 2
    assert sent[0] == (0, 4, "127.0.0.1")
    broadcast = [item for item in sent if len(item) == 3][1:]
    assert [(src, name) for src, name, _ in broadcast] == [(0, name) for name, _ in WEIGHTS] * 2
    for (_, _, tensor), (_, expected) in zip(broadcast, WEIGHTS * 2, strict=True):
        assert torch.equal(tensor, expected)
    assert sent[-1] == "destroyed"


@pytest.mark.parametrize("fails", ["init", "start", "update", "finish"])
def test_a_server_that_refuses_ends_the_push(
    fleet: tuple[NcclPush, list[Workers]], sent: list[Any], fails: str
) -> None:
    push, workers = fleet
    workers[1].fails = fails
    with pytest.raises(EngineServerError, match="status 500"):
        push.send(iter(WEIGHTS))


def test_the_engine_sleeps_and_wakes_as_vllm_has_it(sent: list[Any]) -> None:
    from vllm.v1.engine.llm_engine import LLMEngine
    from vllm.v1.worker.gpu_worker import Worker

    inspect.signature(LLMEngine.sleep).bind(None, 1)
    inspect.signature(LLMEngine.wake_up).bind(None)
    inspect.signature(Worker.sleep).bind(None, 1)
    inspect.signature(Worker.reload_weights).bind(None, weights_iterator=iter(()))
    inspect.signature(Worker.reload_weights).bind(None, weights_path="/folder")
