"""The daemon on seeds that share a file: one lease, an answer for each, and an ending of its own for each."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from synthesis_examples import Answers, seed_task
from test_synthesis_daemon import Waiting, answered, answers, daemon, message, serve_until

from rods.exchange import stop
from rods.exchange.queue import Message
from rods.exchange.rundir import RunDir
from rods.synthesis import daemon as daemons


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path, "test", "0123456789abcdef")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "_POLL_S", 0.01)
    monkeypatch.setattr(daemons, "_CHORES_S", 0.02)


def put_batch(run: RunDir, **tasks: Any) -> None:
    made = [Message(key, message(task, key)) for key, task in tasks.items()]
    assert run.queue("seeds").put_many(made, len(made)) == set(tasks)


def test_every_seed_of_a_batch_is_answered_under_one_claim(run: RunDir) -> None:
    put_batch(run, **{key: seed_task().to_json() for key in "abc"})
    asyncio.run(serve_until(daemon(run, Answers(), workers=1), run, answered(run, 3)))
    assert {key: body["outcome"] for key, body in answers(run).items()} == dict.fromkeys("abc", "published")
    assert run.queue("seeds").counts()["done"] == 3
    assert len(list((run.path / "queues" / "seeds" / "done").iterdir())) == 1


def test_a_poison_seed_of_a_batch_is_set_aside_alone(run: RunDir) -> None:
    put_batch(run, good=seed_task().to_json(), poison={"no": "task"})
    done = lambda: sum(run.queue("seeds").counts()[state] for state in ("done", "quarantine")) == 2  # noqa: E731
    asyncio.run(serve_until(daemon(run, Answers()), run, done))
    assert run.queue("seeds").keys("done") == ["good"]
    assert run.queue("seeds").keys("quarantine") == ["poison"]
    assert answers(run)["good"]["outcome"] == "published"
    assert answers(run)["poison"]["outcome"] == "dropped"


def test_a_stop_hands_back_what_is_unfinished_and_keeps_what_is_answered(run: RunDir) -> None:
    put_batch(run, a=seed_task().to_json(), b=seed_task().to_json())
    run.queue("variants").put("a", {"put": "before the crash"})

    async def scenario() -> None:
        backend = Waiting()
        serving = asyncio.create_task(daemon(run, backend).serve())
        await backend.started.wait()
        stop.request(run, 1, "test")
        await serving

    asyncio.run(asyncio.wait_for(scenario(), 60))
    seeds = run.queue("seeds")
    assert (seeds.keys("done"), seeds.keys("ready")) == (["a"], ["b"])
    again = seeds.claim("next")
    assert again is not None
    assert (again.key, again.deliveries) == ("b", 1)
    assert answers(run) == {"a": {"put": "before the crash"}}


def test_a_lost_lease_ends_all_jobs_of_its_batch(run: RunDir) -> None:
    put_batch(run, a=seed_task().to_json(), b=seed_task().to_json())

    async def scenario() -> None:
        backend = Waiting()
        made = daemon(run, backend)
        serving = asyncio.create_task(made.serve())
        await backend.started.wait()
        (claimed,) = (run.path / "queues" / "seeds" / "claimed").iterdir()
        claimed.unlink()
        while made._jobs:
            await asyncio.sleep(0.01)
        stop.request(run, 1, "test")
        await serving

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert answers(run) == {}
