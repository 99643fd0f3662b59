"""How well the synthesis daemon keeps a model server busy: `python -m benchmarks.synthesis --json`.

The real daemon, pipeline and OpenAI client work on a full queue against `tests.llm_server` in a process of its own,
each pinned to one core. The server answers as a good model would, with log-normal latency (median 2 s, 5% ten
times slower, 1% errors).

Utilisation is the share of workers × wall time in which the *server* holds a worker's request; what is missing
to 1 is the client: its CPU time, its queues and files, its pauses after errors. The window begins when all
workers have started and ends before the daemon is stopped. The peer is the ideal, a client that costs nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles
from typing import Any

from aiohttp import web

from rods.config import SynthesisConfig
from rods.exchange.rundir import RunDir
from rods.synthesis.daemon import Daemon
from rods.synthesis.llm import build
from rods.synthesis.pipeline import Pipeline
from rods.tasks.model import Call, Task, TaskType, Turn
from tests.llm_server import Latency, LLMServer, file_task_answer, running

WORKERS = (8, 64, 256)
_LATENCY = Latency(median_s=2.0, sigma=0.5, slow_fraction=0.05, slow_factor=10.0)
_ERROR_RATE = 0.01
_WARM_UP_S = 5.0
_TICK_S = 0.01
_STATE = {
    "GorillaFileSystem": {
        "root": {
            "workspace": {
                "type": "directory",
                "contents": {
                    "notes.txt": {"type": "file", "content": "one\ntwo"},
                    "docs": {"type": "directory", "contents": {}},
                },
            }
        }
    }
}
SEED = Task(
    "seed",
    TaskType.BASE,
    ("GorillaFileSystem",),
    _STATE,
    (
        Turn("How many lines has notes.txt?", (Call("wc", {"file_name": "notes.txt", "mode": "l"}),)),
        Turn("Make log.txt.", (Call("touch", {"file_name": "log.txt"}),)),
    ),
)


class TimedServer(LLMServer):
    """Knows from when to when it held each request, those it holds just now included."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.spans: list[list[float]] = []

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        span = [time.monotonic(), float("inf")]
        self.spans.append(span)
        try:
            return await super()._complete(request)
        finally:
            span[1] = time.monotonic()


@dataclass(frozen=True)
class Measurement:
    """One number of workers, over one window.

    Attributes:
        utilisation: see the module.
        cpu: the client's CPU seconds by wall second.
        calls: requests by accepted variant.
        lag: event-loop lag, median and 99th percentile, in seconds.
    """

    workers: int
    utilisation: float
    per_hour: float
    cpu: float
    calls: float
    lag: tuple[float, float]


def measure(workers: int, window_s: float) -> Measurement:
    """Run the daemon with `workers` for a warm-up and `window_s` seconds."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(theirs, _other_core()), daemon=True
    )
    server.start()
    config = SynthesisConfig(backend="openai", model="m", base_url=ours.recv(), workers=workers, cache_mib=0)
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir.create(Path(folder), "benchmark", "0" * 64)
        _fill(run, int(workers * (4 + window_s / 4)))
        try:
            return asyncio.run(_measure(run, config, window_s, ours))
        finally:
            ours.send(None)
            server.join(30)


async def _measure(run: RunDir, config: SynthesisConfig, window_s: float, server: Connection) -> Measurement:
    backend = build(config)
    daemon = Daemon(run, 1, Pipeline(config, backend, 0), backend, config.workers)
    serving = asyncio.create_task(daemon.serve())
    await asyncio.sleep(_WARM_UP_S)
    lags: list[float] = []
    ticking = asyncio.create_task(_tick(lags))
    cpu, begin, calls, made = time.process_time(), time.monotonic(), backend.llm_calls, _accepted(run)
    await asyncio.sleep(window_s)
    cpu, end = time.process_time() - cpu, time.monotonic()
    calls, made = backend.llm_calls - calls, _accepted(run) - made
    server.send((begin, end))
    busy = await asyncio.to_thread(server.recv)
    left = run.queue("seeds").counts()["ready"]
    for task in (ticking, serving):
        task.cancel()
    await asyncio.gather(ticking, serving, return_exceptions=True)
    await backend.close()
    assert left, "the queue ran dry within the window"
    cuts = quantiles(lags, n=100)
    return Measurement(
        workers=config.workers,
        utilisation=busy / (config.workers * (end - begin)),
        per_hour=made / (end - begin) * 3600,
        cpu=cpu / (end - begin),
        calls=calls / max(made, 1),
        lag=(cuts[49], cuts[98]),
    )


async def _tick(lags: list[float]) -> None:
    while True:
        due = time.monotonic() + _TICK_S
        await asyncio.sleep(_TICK_S)
        lags.append(time.monotonic() - due)


def _serve(pipe: Connection, core: int | None) -> None:
    """The server's process: says its address, then the busy seconds of each window asked for."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    with _timed() as server:
        pipe.send(server.url)
        while (window := pipe.recv()) is not None:
            begin, end = window
            pipe.send(sum(max(0.0, min(span[1], end) - max(span[0], begin)) for span in list(server.spans)))


def _timed() -> Any:
    return running(file_task_answer, latency=_LATENCY, error_rate=_ERROR_RATE, kind=TimedServer)


def _other_core() -> int | None:
    """Pin this process to one core and name another, where there are two."""
    cores = sorted(os.sched_getaffinity(0) if len(os.sched_getaffinity(0)) > 1 else _ALL_CORES)
    if len(cores) < 2:
        return None
    os.sched_setaffinity(0, {cores[0]})
    return cores[1]


_ALL_CORES = os.sched_getaffinity(0)


def _fill(run: RunDir, count: int) -> None:
    queue = run.queue("seeds")
    for index in range(count):
        key = f"k{index:06d}"
        queue.put(key, {"key": key, "step": 1, "epoch": 1, "phi": 1.0, "task": SEED.to_json()})


def _accepted(run: RunDir) -> int:
    queue = run.queue("variants")
    return sum(queue.read("ready", key)["outcome"] == "published" for key in queue.keys("ready"))


def figures(found: Sequence[Measurement]) -> dict[str, Mapping[str, Any]]:
    """The figures by name; ratio above 1 is better than the peer."""
    shown: dict[str, Mapping[str, Any]] = {}
    for one in found:
        ideal = one.per_hour / one.utilisation if one.utilisation else 0.0
        shown[f"utilisation_{one.workers}"] = _figure(one.utilisation, 1.0, "fraction")
        shown[f"variants_per_hour_{one.workers}"] = _figure(one.per_hour, ideal, "1/h")
        shown[f"client_cpu_{one.workers}"] = _figure(one.cpu, None, "CPU s/s")
        shown[f"calls_per_variant_{one.workers}"] = _figure(one.calls, None, "requests")
        for name, lag in zip(("p50", "p99"), one.lag, strict=True):
            shown[f"loop_lag_{name}_{one.workers}"] = _figure(lag * 1000, None, "ms")
    return shown


def _figure(ours: float, peer: float | None, unit: str) -> Mapping[str, Any]:
    ratio = round(ours / peer, 4) if peer else None
    name = "ideal: a client that costs nothing" if peer else "none"
    rounded = None if peer is None else round(peer, 4)
    return {"ours": round(ours, 4), "peer": rounded, "peer_name": name, "unit": unit, "ratio": ratio}


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--seconds", type=float, default=30.0, help="window of each measurement")
    given = parser.parse_args()
    found = figures([measure(workers, given.seconds) for workers in given.workers])
    if given.json:
        print(json.dumps(found, indent=1))
        return
    for name, figure in found.items():
        print(f"{name:28} {figure['ours']:>10} {figure['unit']}")


if __name__ == "__main__":
    main()
