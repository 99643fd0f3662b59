"""Leases while the daemon's other threads are busy: nothing that is worked on may go to another daemon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from synthesis_examples import Answers, seed_task
from test_synthesis_daemon import Waiting, answered, answers, daemon, put, records, serve_until

from rods.exchange.queue import Queue
from rods.exchange.rundir import RunDir
from rods.synthesis import daemon as daemons
from rods.synthesis.delivery import Delivery
from rods.synthesis.desk import Desk
from rods.synthesis.leases import LeaseKeeper

LEASE_S = 0.6


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path, "test", "0123456789abcdef")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "_POLL_S", 0.01)


def rival(run: RunDir) -> Queue:
    """The seeds as another daemon sees them."""
    return run.queue("seeds", lease_s=LEASE_S)


class Hogging(Answers):
    """Holds the event loop for longer than a lease, as a heavy simulation would; then looks for its own claim."""

    def __init__(self, run: RunDir) -> None:
        super().__init__()
        self._run, self.reaped = run, -1

    async def ask(self, agent: str, inputs: Mapping[str, Any], output: type[Any], rng_seed: int) -> Any:
        if agent == "planner":
            time.sleep(2 * LEASE_S)
            self.reaped = rival(self._run).reap()
        return await super().ask(agent, inputs, output, rng_seed)


def test_a_held_event_loop_costs_no_lease(run: RunDir) -> None:
    put(run, "k", seed_task())
    backend = Hogging(run)
    asyncio.run(serve_until(daemon(run, backend, lease_s=LEASE_S), run, answered(run, 1)))
    assert backend.reaped == 0
    assert [record["name"] for record in records(run)] == ["seed_claimed", "variant_published"]


def test_files_that_hang_cost_no_lease_and_hold_no_worker_up(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: what is worked on goes on, and is answered when the disk is back."""
    put(run, "k", seed_task())
    backend = Waiting()
    reaped: list[int] = []
    look = Desk.look

    def hang(desk: Desk, *arguments: Any) -> bool:
        if backend.started.is_set() and not reaped:
            time.sleep(2 * LEASE_S)
            reaped.append(rival(run).reap())
            assert backend.asked, "the worker did not go on meanwhile"
        return look(desk, *arguments)

    monkeypatch.setattr(Desk, "look", hang)

    async def scenario() -> None:
        asyncio.get_running_loop().call_later(LEASE_S, backend.go.set)
        await serve_until(daemon(run, backend, lease_s=LEASE_S), run, answered(run, 1))

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert reaped == [0]
    assert answers(run)["k"]["outcome"] == "published"


def test_what_was_claimed_while_the_job_is_cancelled_goes_back(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(run, "k", seed_task())
    look = Desk.look

    def slow(desk: Desk, *arguments: Any) -> bool:
        time.sleep(0.2)
        return look(desk, *arguments)

    monkeypatch.setattr(Desk, "look", slow)

    async def scenario() -> None:
        serving = asyncio.create_task(daemon(run, Answers()).serve())
        await asyncio.sleep(0.05)
        serving.cancel()
        await asyncio.wait([serving])

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert [record["name"] for record in records(run)] == ["seed_claimed", "seed_handed_back"]
    again = run.queue("seeds").claim("next")
    assert again is not None
    assert again.deliveries == 1


def test_a_lease_that_is_lost_is_told_once_and_one_that_ended_is_not(run: RunDir) -> None:
    for key in ("ends", "lost"):
        put(run, key, seed_task())
    told: list[Delivery] = []
    keeper = LeaseKeeper(60.0, told.append)
    ends, lost = (Delivery(claim) for claim in run.queue("seeds").claim_many("me", 2))
    keeper.hold(ends)
    keeper.hold(lost)
    ends.claim.commit()
    keeper.release(ends)
    lost.claim.release("another daemon took it")
    keeper.renew()
    keeper.renew()
    assert told == [lost]
