"""How new weights reach model servers: through a folder that they see, or by NCCL from GPU to GPU.

Both send `lm_head.weight` even when it is tied, since vLLM would keep a stale head without a word. The NCCL way
uses vLLM's own weight transfer and was not run by us: it needs GPUs.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors.torch import save_file

from rods.rollout.wire import Thread, Wire, together

Weights = Iterable[tuple[str, torch.Tensor]]

_SHARD_BYTES = 2 * 2**30
_MEMORY = Path("/dev/shm")


class WeightPush(Protocol):
    """Brings weights to servers that are paused."""

    def send(self, weights: Weights) -> None:
        """Send all of them; every server has them when it returns.

        Raises:
            EngineServerError: a server did not take them.
        """

    def close(self) -> None:
        """Let go of what it holds."""


class DiskPush:
    """Writes safetensors into a folder and has the servers read it.

    Args:
        thread: where requests run.
        servers: they see the folder under the same path.
        folder: "" for this machine's memory.
    """

    def __init__(self, thread: Thread, servers: Sequence[Wire], folder: str) -> None:
        base = Path(folder) if folder else _MEMORY if _MEMORY.is_dir() else None
        self._folder = Path(tempfile.mkdtemp(prefix="rods-weights-", dir=base))
        self._thread, self._servers = thread, servers

    def send(self, weights: Weights) -> None:
        """See `WeightPush.send`."""
        for old in self._folder.iterdir():
            old.unlink()
        for number, shard in enumerate(_shards(weights)):
            save_file(shard, self._folder / f"model-{number:05d}.safetensors")
        body = {"method": "reload_weights", "kwargs": {"weights_path": str(self._folder)}}
        self._thread.run(together([server.post("/collective_rpc", body) for server in self._servers]))

    def close(self) -> None:
        """See `WeightPush.close`."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _shards(weights: Weights) -> Iterator[dict[str, torch.Tensor]]:
    """Pieces of at most `_SHARD_BYTES` or one tensor, so that never the whole model is held twice."""
    shard: dict[str, torch.Tensor] = {}
    size = 0
    for name, tensor in weights:
        if shard and size + tensor.nbytes > _SHARD_BYTES:
            yield shard
            shard, size = {}, 0
        shard[name] = tensor.contiguous().cpu()
        size += tensor.nbytes
    yield shard


class NcclPush:
    """vLLM's weight transfer: this process is rank 0 of an NCCL group, the servers' workers are the others.

    Args:
        thread: where requests run.
        servers: started with `--weight-transfer-config {"backend": "nccl"}`.
    """

    def __init__(self, thread: Thread, servers: Sequence[Wire]) -> None:
        self._client = _TransferClient(thread, servers)
        self._source: Any = None
        self._engine: Any = None

    def send(self, weights: Weights) -> None:
        """See `WeightPush.send`."""
        # In host memory first: a group of all servers must not wait in NCCL for a tensor that is refused.
        pairs = [(name, tensor.cpu()) for name, tensor in weights]
        if self._engine is None:
            self._open()
        self._source.pairs = pairs
        self._engine.send_weights()
        self._source.pairs = []

    def close(self) -> None:
        """See `WeightPush.close`."""
        if self._engine is not None:
            self._engine.shutdown()
            self._engine = None

    def _open(self) -> None:
        from vllm.distributed.weight_transfer import ParamMeta, WeightSource, WeightTransferTrainerFactory
        from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

        class Source(WeightSource):
            """The pairs of this sync."""

            def __init__(self) -> None:
                self.pairs: list[tuple[str, torch.Tensor]] = []

            def metadata(self) -> list[ParamMeta]:
                return [ParamMeta(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in self.pairs]

            def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
                return ((name, tensor.cuda()) for name, tensor in self.pairs)

        self._source = Source()
        address, port = _own_address(self._client.host)
        self._engine = WeightTransferTrainerFactory.trainer_init(
            NCCLTrainerInitInfo(address, port, 1 + sum(self._client.sizes()), rank=0),
            client=self._client,
            source=self._source,
        )


class _TransferClient:
    """vLLM's `VLLMWeightSyncClient` for several servers: their workers stand one after another in the group."""

    def __init__(self, thread: Thread, servers: Sequence[Wire]) -> None:
        self.host = servers[0].url.partition("://")[2].rpartition(":")[0]
        self._thread, self._servers = thread, servers

    def sizes(self) -> list[int]:
        """Workers of each server."""
        replies = self._thread.run(together([server.get("/get_world_size") for server in self._servers]))
        return [int(reply["world_size"]) for reply in replies]

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Each server is told which ranks its workers are."""
        sizes = self.sizes()
        bodies = [
            {"init_info": {**init_info, "rank_offset": init_info["rank_offset"] + sum(sizes[:place])}}
            for place in range(len(sizes))
        ]
        path = "/init_weight_transfer_engine"
        asked = [server.post(path, body) for server, body in zip(self._servers, bodies, strict=True)]
        self._thread.run(together(asked))

    def shutdown_weight_transfer_engine(self) -> None:
        """The group is at its end."""
        self._post("/shutdown_weight_transfer_engine")

    def start_weight_update(self) -> None:
        """Weights will follow."""
        self._post("/start_weight_update")

    def update_weights(self, update_info: Any) -> None:
        """Receive what is broadcast now."""
        self._post("/update_weights", {"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """All weights were sent."""
        self._post("/finish_weight_update", {"weight_version": weight_version} if weight_version else None)

    def _post(self, path: str, body: Any = None) -> None:
        self._thread.run(together([server.post(path, body) for server in self._servers]))


def _own_address(other: str) -> tuple[str, int]:
    """The address by which `other` reaches this machine, and a port that is free on it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((other, 1))  # sends nothing
        address = probe.getsockname()[0]
    with socket.socket() as holder:
        holder.bind((address, 0))
        return address, holder.getsockname()[1]
