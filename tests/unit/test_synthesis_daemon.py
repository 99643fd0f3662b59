"""The daemon on a real run directory: every seed answered once, poison set aside, claims handed back on a
stop.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from synthesis_examples import Answers, plan, seed_task

from rods import tasks
from rods.config import Config, SynthesisConfig, TasksConfig
from rods.exchange import heartbeat, journal, stop
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import RunDir
from rods.roles import synthesize
from rods.synthesis import daemon as daemons
from rods.synthesis import filters
from rods.synthesis.agents import Arguments, Query
from rods.synthesis.daemon import Daemon
from rods.synthesis.errors import FAILURES
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.scripted import build
from rods.tasks.model import Origin, Task


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path, "test", "0123456789abcdef")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the queue and do the chores often, so that the tests need not wait."""
    monkeypatch.setattr(daemons, "_POLL_S", 0.01)
    monkeypatch.setattr(daemons, "_CHORES_S", 0.02)


def message(task: Any, key: str) -> dict[str, Any]:
    return {"key": key, "step": 1, "epoch": 1, "phi": 1.0, "depth_shift": 0, "task": task}


def put(run: RunDir, key: str, task: Task) -> None:
    assert run.queue("seeds").put(key, message(task.to_json(), key))


def daemon(run: RunDir, backend: Any, attempt: int = 1, workers: int = 2, **more: Any) -> Daemon:
    pipeline = Pipeline(SynthesisConfig(), backend, 0)
    return Daemon(run, attempt, pipeline, backend, workers, **more)


async def serve_until(made: Daemon, run: RunDir, done: Any, attempt: int = 1) -> None:
    """Serve until `done()` holds (or a minute is over), then ask for a stop through the run directory."""
    serving = asyncio.create_task(made.serve())
    for _ in range(6000):
        if done() or serving.done():
            break
        await asyncio.sleep(0.01)
    stop.request(run, attempt, "test")
    await serving


def answered(run: RunDir, count: int) -> Any:
    return lambda: (
        run.queue("variants").counts()["ready"] >= count and not run.queue("seeds").counts()["claimed"]
    )


def answers(run: RunDir) -> dict[str, dict[str, Any]]:
    return dict(run.queue("variants").iter_ready())


def records(run: RunDir, attempt: int = 1) -> list[dict[str, Any]]:
    return journal.read(run.journal_file("synthesis", attempt))[0]


def test_six_seeds_poison_and_a_dropped_one(run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
    seeds = tasks.load(TasksConfig(source="scripted", train_count=6, heldout_count=0)).train
    for index, seed in enumerate(seeds):
        put(run, f"{index:06d}-{seed.id}", seed)
    put(run, "no-calls", Task.from_json(seeds[0].to_json() | {"turns": []}))
    queue = run.queue("seeds")
    queue.put("poison-form", message({"id": "half a task"}, "poison-form"))
    queue.put("poison-class", message(seed_task().to_json() | {"classes": ["Nobody"]}, "poison-class"))
    queue.put("poison-empty", {})

    asyncio.run(serve_until(daemon(run, build(SynthesisConfig())), run, answered(run, 10)))

    assert queue.counts() == {"ready": 0, "claimed": 0, "done": 7, "quarantine": 3, "dropped": 0}
    assert "Nobody" in queue.failures("poison-class")[0].reason
    assert "missing keys" in queue.failures("poison-form")[0].reason
    found = answers(run)
    assert Counter(answer["outcome"] for answer in found.values()) == {"published": 6, "dropped": 4}
    for key, answer in found.items():
        assert answer["seed_key"] == key
        assert set(answer) == {"key", "seed_key", "tasks", "outcome", "reason", "attempts", "errors"}
        assert bool(answer["reason"]) == (answer["outcome"] == "dropped")
        for task in map(Task.from_json, answer["tasks"]):
            assert task.origin is Origin.VARIANT
            assert filters.failed_turns(task) == ()
    names = Counter(record["name"] for record in records(run))
    assert names == {
        "seed_claimed": 10,
        "variant_published": 6,
        "seed_dropped": 1,
        "attempt_failed": 1,
        "seed_quarantined": 3,
    }
    last = read_metrics(run.metrics / "synthesis.jsonl")[-1]
    expected = {"claimed": 10, "accepted": 6, "dropped": 4, "quarantined": 3, "attempts": 7, "llm_calls": 0}
    assert {name: last[name] for name in expected} == expected
    assert last["errors"] == {kind: int(kind == "func_sample_failed") for kind in FAILURES}
    assert heartbeat.read_all(run.heartbeats)["synthesis"].info["attempt"] == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].endswith(" synthesis: seeds and variants so far: 10 claimed, 6 accepted, 4 rejected")
    assert len(lines) == 2, "the first answer and the end; between them a minute must pass"
    stages = last["stages"]
    assert set(stages) == {"plan", "execute", "ground", "critique", "challenge", "check"}
    assert {name: clock["count"] for name, clock in stages.items()} == dict.fromkeys(stages, 6)
    assert all(0 <= clock["p50_s"] <= clock["p95_s"] <= clock["seconds"] for clock in stages.values())


class Waiting(Answers):
    """Does not answer before `go` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.started = asyncio.Event()

    async def ask(self, agent: str, inputs: Mapping[str, Any], output: type[Any], rng_seed: int) -> Any:
        self.started.set()
        await self.go.wait()
        return await super().ask(agent, inputs, output, rng_seed)


def test_a_stop_hands_claims_back_without_a_delivery(run: RunDir) -> None:
    put(run, "k", seed_task())

    async def scenario() -> None:
        backend = Waiting()
        await serve_until(daemon(run, backend), run, backend.started.is_set)

    asyncio.run(scenario())
    queue = run.queue("seeds")
    assert queue.counts() == {"ready": 1, "claimed": 0, "done": 0, "quarantine": 0, "dropped": 0}
    assert run.queue("variants").counts()["ready"] == 0
    assert [record["name"] for record in records(run)] == ["seed_claimed", "seed_handed_back"]
    claim = queue.claim("next")
    assert claim is not None
    assert claim.deliveries == 1


def test_the_next_attempt_answers_and_goes_on_counting(run: RunDir) -> None:
    started = time.process_time()
    put(run, "a", seed_task())
    asyncio.run(serve_until(daemon(run, Answers(), attempt=1), run, answered(run, 1), attempt=1))
    put(run, "b", seed_task())
    stop.clear_stale(run, 2)
    asyncio.run(serve_until(daemon(run, Answers(), attempt=2), run, answered(run, 2), attempt=2))
    first, last = read_metrics(run.metrics / "synthesis.jsonl")
    assert (first["accepted"], last["accepted"]) == (1, 2)
    assert last["llm_calls"] == 2 * first["llm_calls"] > 0
    assert 0 < first["cpu_seconds"] < last["cpu_seconds"] <= time.process_time() - started
    assert [record["name"] for record in records(run, 2)] == ["seed_claimed", "variant_published"]


def test_leases_are_renewed_while_a_job_works(run: RunDir) -> None:
    """Also after a pause in which the lease ran out unnoticed: the daemon must not reap its own claim."""
    put(run, "k", seed_task())

    async def scenario() -> None:
        backend = Waiting()
        serving = asyncio.create_task(daemon(run, backend).serve())
        await backend.started.wait()
        (claimed,) = (run.path / "queues" / "seeds" / "claimed").iterdir()
        long_ago = claimed.stat().st_mtime - 3600
        os.utime(claimed, (long_ago, long_ago))
        while claimed.stat().st_mtime < long_ago + 1800:
            await asyncio.sleep(0.01)
        backend.go.set()
        while not answered(run, 1)():
            await asyncio.sleep(0.01)
        stop.request(run, 1, "test")
        await serving

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert run.queue("seeds").counts()["done"] == 1


def test_a_lost_lease_is_given_up_and_the_job_ends(run: RunDir) -> None:
    put(run, "k", seed_task())

    async def scenario() -> None:
        backend = Waiting()
        made = daemon(run, backend)
        serving = asyncio.create_task(made.serve())
        await backend.started.wait()
        # Another daemon took the seed, as it may after a pause longer than the lease.
        (claimed,) = (run.path / "queues" / "seeds" / "claimed").iterdir()
        claimed.unlink()
        while made._jobs:
            await asyncio.sleep(0.01)
        stop.request(run, 1, "test")
        await serving

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert run.queue("variants").counts()["ready"] == 0


def test_an_answer_that_was_put_before_a_crash_is_not_put_again(run: RunDir) -> None:
    put(run, "k", seed_task())
    run.queue("variants").put("k", {"put": "before the crash"})
    done = lambda: run.queue("seeds").counts()["done"] == 1  # noqa: E731
    asyncio.run(serve_until(daemon(run, Answers()), run, done))
    assert answers(run) == {"k": {"put": "before the crash"}}


def test_a_bug_in_one_seed_is_set_aside_and_logged_and_the_others_go_on(
    run: RunDir, caplog: pytest.LogCaptureFixture
) -> None:
    put(run, "a-bug", seed_task())
    put(run, "b-good", seed_task())
    backend = Answers(planner=[ZeroDivisionError("boom"), Answers()._answers["planner"]])
    with caplog.at_level(logging.ERROR):
        asyncio.run(serve_until(daemon(run, backend, workers=1), run, answered(run, 2)))
    found = answers(run)
    assert found["a-bug"]["reason"] == "quarantined: ZeroDivisionError: boom"
    assert found["b-good"]["outcome"] == "published"
    assert run.queue("seeds").keys("quarantine") == ["a-bug"]
    assert caplog.records[0].exc_info is not None


def test_a_seed_is_asked_for_the_depth_that_its_message_says(run: RunDir) -> None:
    for shift in (-1, 0, 1, 2, "deep", None, [1]):
        key = f"k{shift}"
        assert run.queue("seeds").put(key, {**message(seed_task().to_json(), key), "depth_shift": shift})
    run.queue("seeds").put("kmissing", {"task": seed_task().to_json()})
    turns = {-1: plan(["wc"]), 0: plan(["wc"], ["touch"]), 1: plan(["wc"], ["touch"], ["ls"])}
    calls = {"wc": {"file_name": "notes.txt", "mode": "w"}, "touch": {"file_name": "plan.md"}, "ls": {}}
    backend = Answers(
        planner=lambda inputs: turns[inputs["seed"].shift],
        arguments=lambda inputs: Arguments(arguments=calls[inputs["function"]]),
        query=lambda inputs: Query(text=f"Please, number {inputs['turn']}: notes.txt, plan.md"),
    )
    asyncio.run(serve_until(daemon(run, backend), run, answered(run, 8)))
    found = answers(run)
    assert [len(found[f"k{shift}"]["tasks"][0]["turns"]) for shift in (-1, 0, 1)] == [1, 2, 3]
    assert set(run.queue("seeds").keys("quarantine")) == {"k2", "k[1]", "kNone", "kdeep", "kmissing"}


def test_two_daemons_answer_each_seed_once_and_alike(run: RunDir, tmp_path: Path) -> None:
    seeds = tasks.load(TasksConfig(source="scripted", train_count=6, heldout_count=0)).train
    alone = RunDir.create(tmp_path, "alone", "0123456789abcdef")
    for where in (run, alone):
        for index, seed in enumerate(seeds):
            put(where, f"{index}", seed)

    async def scenario() -> None:
        both = [daemon(run, build(SynthesisConfig()), attempt=attempt, workers=1) for attempt in (1, 2)]
        serving = [asyncio.create_task(made.serve()) for made in both]
        while run.queue("seeds").counts()["done"] < 6:
            await asyncio.sleep(0.01)
        (run.stop_file).write_text("stop")
        await asyncio.gather(*serving)

    asyncio.run(asyncio.wait_for(scenario(), 120))
    asyncio.run(serve_until(daemon(alone, build(SynthesisConfig()), workers=6), alone, answered(alone, 6)))
    assert answers(run) == answers(alone)


def test_the_role_loads_the_frozen_configuration_and_stops_when_asked(run: RunDir) -> None:
    config = Config(tasks=TasksConfig(train_count=2, heldout_count=0))
    plain = json.loads(json.dumps(config.to_dict(), default=str))
    run.config_file.write_text(yaml.safe_dump(plain))
    stop.request(run, 1, "before it began")
    assert synthesize.main(str(run.path), 1) == 0
    assert records(run) == []
