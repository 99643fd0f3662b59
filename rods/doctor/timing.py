"""How fast, how soon, by whose clock: what the waits in the configuration should be."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from rods.config import ExchangeConfig
from rods.doctor.finding import Finding, Level
from rods.doctor.processes import beside
from rods.exchange import server_clock
from rods.exchange.atomic import write_bytes

_WRITES = 60
_SLOW_MS = 20.0
_NOT_DURABLE_MS = 0.02
_SIGHTINGS = 10
_EVERY_S = 0.05
_SIGHT_S = 35.0  # other clients of a network file system may miss a file for about 30 s


def durable_writes(folder: Path, exchange: ExchangeConfig) -> Finding:
    """Small files written as the exchange does it: write, fsync, rename, fsync of the folder."""
    taken = []
    for number in range(_WRITES):
        start = time.perf_counter()
        write_bytes(folder / f"durable-{number % 4}", bytes(2048))
        taken.append(1000 * (time.perf_counter() - start))
    median, p99 = statistics.median(taken), statistics.quantiles(taken, n=100)[-1]
    figures = {"median_ms": median, "p99_ms": p99}
    measured = f"median {median:.2f} ms, p99 {p99:.2f} ms"
    if median > _SLOW_MS:
        advice = (
            f"Each durable record costs about {median:.0f} ms: set exchange.fsync=step, and exchange.seed_batch "
            f"to a step's seeds (now {exchange.seed_batch})."
        )
        return Finding("durable write", Level.warning, measured, advice, figures)
    if median < _NOT_DURABLE_MS:
        advice = "Too fast for a disk: memory, or a cache that a power cut empties. Kills are survived all the same."
        return Finding("durable write", Level.note, measured, advice, figures)
    advice = f"exchange.fsync={exchange.fsync} is affordable."
    return Finding("durable write", Level.ok, measured, advice, figures)


def clock(folder: Path, exchange: ExchangeConfig) -> Finding:
    """The file server's clock against this node's."""
    before = time.time()
    served = server_clock.now(folder)
    skew = served - (before + time.time()) / 2
    figures = {"skew_s": skew}
    measured = f"the server is {abs(skew):.3f} s {'ahead' if skew > 0 else 'behind'}"
    if abs(skew) < 1:
        return Finding(
            "clock", Level.ok, measured, "Leases and heartbeats are judged by file times.", figures
        )
    meaning = (
        "Leases and heartbeats are judged by file times, so this alone breaks nothing. File systems whose clients "
        f"stamp files (Lustre) need nodes that agree to well within exchange.lease_s={exchange.lease_s:g}: keep NTP "
        "running."
    )
    level = Level.warning if abs(skew) > exchange.lease_s / 4 else Level.note
    return Finding("clock", level, measured, meaning, figures)


def visibility(folder: Path, exchange: ExchangeConfig) -> Finding:
    """How long after a rename another process of this node sees the file in a listing."""

    def publish() -> None:
        for number in range(_SIGHTINGS):
            time.sleep(_EVERY_S)
            (folder / "hidden").write_text("")
            os.rename(folder / "hidden", folder / f"seen-{number}-{time.monotonic_ns()}")

    delays: dict[str, float] = {}
    deadline = time.monotonic() + _SIGHT_S
    with beside(publish):
        while len(delays) < _SIGHTINGS and time.monotonic() < deadline:
            now = time.monotonic_ns()
            for name in os.listdir(folder):
                if name.startswith("seen-"):
                    delays.setdefault(name, (now - int(name.split("-")[2])) / 1e9)
            time.sleep(0.001)
    if len(delays) < _SIGHTINGS:
        return Finding(
            "visibility",
            Level.unfit,
            f"{_SIGHTINGS - len(delays)} of {_SIGHTINGS} renamed files were not seen within {_SIGHT_S:g} s",
            "Messages would not arrive. Look for a mount option that caches listings (acdirmax, lookupcache), or use "
            "another file system.",
        )
    worst = max(0.0, *delays.values())
    measured = f"at most {1000 * worst:.1f} ms from rename to sight, on this node"
    late = worst > exchange.lease_s / 4
    meaning = (
        f"Set exchange.lease_s above {4 * worst:.0f} (now {exchange.lease_s:g})."
        if late
        else f"exchange.lease_s={exchange.lease_s:g} leaves room, also for the 30 s that other nodes may lag."
    )
    return Finding("visibility", Level.warning if late else Level.ok, measured, meaning, {"worst_s": worst})
