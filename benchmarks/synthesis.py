"""How well the synthesis daemon keeps a model server busy: `python -m benchmarks.synthesis --json`.

The real daemon, pipeline and OpenAI client work on BFCL's train tasks against `tests.llm_server` in a process of its
own, each pinned to one core where there are two. The server has log-normal latency (median 2 s, 5% ten times slower,
1% errors) and answers what the scripted backend answered to the same questions beforehand, so that attempts fail and
repeat as they do there.

Utilisation is the share of workers × wall time in which the *server* holds a worker's request; what is missing
to 1 is the client: its CPU time, its queues and files, its pauses after errors. The window begins when the workers
have got out of step and ends before the daemon is stopped. The peer is the ideal, a client that costs nothing.
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

from benchmarks.synthesis_answers import Book
from rods.config import SynthesisConfig
from rods.exchange import journal
from rods.exchange.rundir import RunDir
from rods.synthesis.daemon import Daemon
from rods.synthesis.llm import build
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.simulating import Simulation, simulation
from tests.llm_server import Latency, LLMServer, running

WORKERS = (8, 64, 256)
_LATENCY = Latency(median_s=2.0, sigma=0.5, slow_fraction=0.05, slow_factor=10.0)
_ERROR_RATE = 0.01
_WARM_UP_S = 60.0
_SEED_S = 40.0  # a seed takes longer: the queue must not run dry
_TICK_S = 0.01


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

    def busy(self, begin: float, end: float) -> tuple[float, float]:
        """Seconds of requests held in the window, and the mean of those that ended in it."""
        spans = list(self.spans)
        held = sum(max(0.0, min(span[1], end) - max(span[0], begin)) for span in spans)
        ended = [span[1] - span[0] for span in spans if begin <= span[1] < end]
        return held, sum(ended) / max(len(ended), 1)


@dataclass(frozen=True)
class Measurement:
    """One number of workers, over one window.

    Attributes:
        utilisation: see the module.
        per_hour: accepted variants.
        ideal: accepted variants an hour if workers did nothing but wait for the server.
        cpu: the client's CPU seconds by wall second.
        calls: requests by accepted variant, of the seeds that were finished: failed attempts and seeds included.
        lag: event-loop lag, median, 99th percentile and greatest, in seconds.
        load: the machine's load average at the end.
    """

    workers: int
    utilisation: float
    per_hour: float
    ideal: float
    cpu: float
    calls: float
    lag: tuple[float, float, float]
    load: float


def seeds_for(workers: int, window_s: float) -> int:
    """How many seeds keep the queue from running dry."""
    return int(workers * (2 + (_WARM_UP_S + window_s) / _SEED_S))


def measure(book: Book, workers: int, window_s: float, processes: int) -> Measurement:
    """Run the daemon with `workers` for a warm-up and `window_s` seconds; `processes` replay what is finished."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(theirs, book, _other_core()), daemon=True
    )
    server.start()
    config = SynthesisConfig(
        backend="openai",
        model="m",
        base_url=ours.recv(),
        workers=workers,
        cache_mib=0,
        simulation_processes=processes,
    )
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir.create(Path(folder), "benchmark", "0" * 64)
        queue = run.queue("seeds")
        for key, task in book.seeds(seeds_for(workers, window_s)):
            place = {"key": key, "step": 1, "epoch": 1, "phi": 1.0, "depth_shift": 0}
            queue.put(key, {**place, "task": task.to_json()})
        try:
            with simulation(processes) as replays:
                return asyncio.run(_measure(run, book, config, window_s, ours, replays))
        finally:
            ours.send(None)
            server.join(30)


async def _measure(
    run: RunDir,
    book: Book,
    config: SynthesisConfig,
    window_s: float,
    server: Connection,
    replays: Simulation,
) -> Measurement:
    backend = build(config)
    pipeline = Pipeline(config, backend, book.seed, book.known, replays)
    daemon = Daemon(run, 1, pipeline, backend, config.workers)
    serving = asyncio.create_task(daemon.serve())
    await asyncio.sleep(_WARM_UP_S)
    lags: list[float] = []
    ticking = asyncio.create_task(_tick(lags))
    cpu, begin, made = time.process_time(), time.monotonic(), _accepted(run)
    await asyncio.sleep(window_s)
    cpu, end, made = time.process_time() - cpu, time.monotonic(), _accepted(run) - made
    server.send((begin, end))
    held, mean_s = await asyncio.to_thread(server.recv)
    left = run.queue("seeds").counts()["ready"]
    for task in (ticking, serving):
        task.cancel()
    await asyncio.gather(ticking, serving, return_exceptions=True)
    await backend.close()
    assert left, "the queue ran dry within the window"
    calls, cuts = _calls(run), quantiles(lags, n=100)
    return Measurement(
        workers=config.workers,
        utilisation=held / (config.workers * (end - begin)),
        per_hour=made / (end - begin) * 3600,
        ideal=config.workers * 3600 / (calls * mean_s),
        cpu=cpu / (end - begin),
        calls=calls,
        lag=(cuts[49], cuts[98], max(lags)),
        load=os.getloadavg()[0],
    )


async def _tick(lags: list[float]) -> None:
    while True:
        due = time.monotonic() + _TICK_S
        await asyncio.sleep(_TICK_S)
        lags.append(time.monotonic() - due)


def _serve(pipe: Connection, book: Book, core: int | None) -> None:
    """The server's process: says its address, then the busy seconds of each window asked for."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    with running(book.answer, latency=_LATENCY, error_rate=_ERROR_RATE, kind=TimedServer) as server:
        assert isinstance(server, TimedServer)
        pipe.send(server.url)
        while (window := pipe.recv()) is not None:
            pipe.send(server.busy(*window))


def _other_core() -> int | None:
    """Pin this process to one core and name another, where there are two."""
    cores = sorted(_ALL_CORES)
    if len(cores) < 2:
        return None
    os.sched_setaffinity(0, {cores[0]})
    return cores[1]


_ALL_CORES = os.sched_getaffinity(0)


def _accepted(run: RunDir) -> int:
    """Variants accepted so far, by the newest line of the daemon's metrics."""
    with (run.metrics / "synthesis.jsonl").open("rb") as stream:
        stream.seek(max(0, stream.seek(0, os.SEEK_END) - 2**16))
        lines = stream.read().splitlines()
    return int(json.loads(lines[-1])["accepted"]) if lines else 0


def _calls(run: RunDir) -> float:
    """Requests by accepted variant, over the seeds that were finished."""
    records, _ = journal.read(run.journal_file("synthesis", 1))
    ended = [record for record in records if record["name"] in ("variant_published", "seed_dropped")]
    accepted = sum(record["name"] == "variant_published" for record in ended)
    return sum(record["cost"]["requests"] for record in ended) / max(accepted, 1)


def figures(book: Book, found: Sequence[Measurement]) -> dict[str, Mapping[str, Any]]:
    """The figures by name; ratio above 1 is better than the peer."""
    shown: dict[str, Mapping[str, Any]] = {
        "pipeline_cpu_per_attempt": _figure(book.work_s * 1000, None, "ms"),
        "pipeline_cpu_longest": _figure(book.longest_s * 1000, None, "ms"),
    }
    for one in found:
        shown[f"utilisation_{one.workers}"] = _figure(one.utilisation, 1.0, "fraction")
        shown[f"variants_per_hour_{one.workers}"] = _figure(one.per_hour, one.ideal, "1/h")
        shown[f"client_cpu_{one.workers}"] = _figure(one.cpu, None, "CPU s/s")
        shown[f"calls_per_variant_{one.workers}"] = _figure(one.calls, None, "requests")
        for name, lag in zip(("p50", "p99", "max"), one.lag, strict=True):
            shown[f"loop_lag_{name}_{one.workers}"] = _figure(lag * 1000, None, "ms")
        shown[f"load_{one.workers}"] = _figure(one.load, None, "load average")
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
    parser.add_argument("--seconds", type=float, default=60.0, help="window of each measurement")
    parser.add_argument("--processes", type=int, default=0, help="synthesis.simulation_processes")
    given = parser.parse_args()
    book = Book.written(seeds_for(max(given.workers), given.seconds))
    found = figures(
        book, [measure(book, workers, given.seconds, given.processes) for workers in given.workers]
    )
    if given.json:
        print(json.dumps(found, indent=1))
        return
    for name, figure in found.items():
        print(f"{name:28} {figure['ours']:>10} {figure['unit']}")


if __name__ == "__main__":
    main()
