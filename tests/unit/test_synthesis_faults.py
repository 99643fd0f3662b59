"""The daemon while the model's server misbehaves: it lives, says what happened, and works on when that is over."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from llm_server import HALF, LLMServer, Reply, Script, completion, error, file_task_answer, running
from synthesis_examples import seed_task
from tenacity import wait_none

from rods.config import ServerConfig, SynthesisConfig
from rods.exchange import heartbeat, journal, stop
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import RunDir
from rods.serving.server import ServerPlan
from rods.synthesis import daemon as daemons
from rods.synthesis import llm
from rods.synthesis.agents import Backend
from rods.synthesis.daemon import Daemon
from rods.synthesis.endpoint import Backbone, Patience
from rods.synthesis.llm import OpenAIBackend
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.service import open_backend

CONFIG = SynthesisConfig(backend="openai", model="m")
QUICK = Patience(deadline_s=20.0, retry=wait_none(), probe_s=0.01)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path, "test", "0123456789abcdef")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the queue and do the chores often, so that the tests need not wait."""
    monkeypatch.setattr(daemons, "_POLL_S", 0.01)
    monkeypatch.setattr(daemons, "_CHORES_S", 0.02)


def put(run: RunDir, key: str) -> None:
    message = {"key": key, "step": 1, "phi": 1.0, "depth_shift": 0, "task": seed_task().to_json()}
    assert run.queue("seeds").put(key, message)


def answers(run: RunDir) -> dict[str, dict[str, Any]]:
    return dict(run.queue("variants").iter_ready())


def counters(run: RunDir) -> dict[str, Any]:
    return read_metrics(run.metrics / "synthesis.jsonl")[-1]


def records(run: RunDir) -> list[dict[str, Any]]:
    return journal.read(run.journal_file("synthesis", 1))[0]


def phase(run: RunDir) -> str:
    beat = heartbeat.read_all(run.heartbeats).get("synthesis")
    return "" if beat is None else beat.phase


async def until(condition: Callable[[], Any], serving: asyncio.Task[None]) -> None:
    """Wait until the daemon has brought this about; it must not end meanwhile."""
    async with asyncio.timeout(60):
        while not condition():
            assert not serving.done(), serving
            await asyncio.sleep(0.01)


def serving(run: RunDir, backend: Backend, workers: int = 2) -> asyncio.Task[None]:
    pipeline = Pipeline(CONFIG, backend, 0)
    return asyncio.create_task(Daemon(run, 1, pipeline, backend, workers).serve())


async def finish(run: RunDir, daemon: asyncio.Task[None]) -> None:
    stop.request(run, 1, "test")
    await daemon


def served(url: str, patience: Patience = QUICK) -> OpenAIBackend:
    return OpenAIBackend(CONFIG, [Backbone("m", url)], patience=patience)


def always(reply: Reply) -> Script:
    return lambda _: reply


def rejecting_judge(body: dict[str, Any]) -> Reply:
    if body["response_format"]["json_schema"]["name"] == "judge":
        return completion(json.dumps({"accepted": False, "issues": ["stiff"]}))
    return file_task_answer(body)


TROUBLE = {
    "500": (always(error(500)), "pipeline_exception", "gives no answer"),
    "half a reply": (always(HALF), "pipeline_exception", "gives no answer"),
    "malformed answer": (
        always(completion('{"narrative": "A st')),
        "func_sample_failed",
        "no valid answer in 2 tries",
    ),
    "rejecting judge": (rejecting_judge, "conversation_construct_failed", "stiff"),
}


@pytest.mark.parametrize("what", TROUBLE)
def test_a_seed_in_lasting_trouble_is_dropped_with_its_reason_and_the_next_is_published(
    run: RunDir, what: str
) -> None:
    bad, kind, reason = TROUBLE[what]

    async def scenario(server: LLMServer) -> None:
        backend = served(server.url)
        daemon = serving(run, backend)
        put(run, "unlucky")
        await until(lambda: "unlucky" in answers(run), daemon)
        server.script = file_task_answer
        put(run, "lucky")
        await until(lambda: "lucky" in answers(run), daemon)
        await finish(run, daemon)
        await backend.close()

    with running(bad) as server:
        asyncio.run(scenario(server))
    found = answers(run)
    assert {key: answer["outcome"] for key, answer in found.items()} == {
        "unlucky": "dropped",
        "lucky": "published",
    }
    assert found["unlucky"]["errors"] == {kind: CONFIG.max_attempts}
    assert reason in found["unlucky"]["reason"]
    last = counters(run)
    assert (last["accepted"], last["dropped"], last["quarantined"]) == (1, 1, 0)
    assert last["errors"][kind] == CONFIG.max_attempts
    assert last["llm_calls"] == len(server.requests)
    assert run.queue("seeds").counts()["done"] == 2


def test_passing_faults_cost_requests_and_no_attempt(run: RunDir) -> None:
    """Every third request fails, each time in another way; one hangs."""
    faults = [error(500), HALF, Reply(200, b"no JSON"), error(429), replace(completion("{}"), hang_s=60.0)]

    def script(body: dict[str, Any]) -> Reply:
        hurt = len(server.requests) % 3 == 0 and faults
        return faults.pop(0) if hurt else file_task_answer(body)

    async def scenario() -> None:
        backend = served(server.url, replace(QUICK, deadline_s=1.0))
        daemon = serving(run, backend)
        for key in ("a", "b", "c"):
            put(run, key)
        await until(lambda: len(answers(run)) == 3, daemon)
        await finish(run, daemon)
        await backend.close()

    with running(script) as server:
        asyncio.run(scenario())
    assert faults == []
    assert {answer["outcome"] for answer in answers(run).values()} == {"published"}
    last = counters(run)
    assert (last["attempts"], sum(last["errors"].values())) == (3, 0)
    assert sum(agent["failed"] for agent in last["agents"].values()) >= 5
    costs = [record["cost"] for record in records(run) if record["name"] == "variant_published"]
    assert sum(cost["requests"] for cost in costs) == last["llm_calls"] == len(server.requests)
    for tokens in ("prompt_tokens", "completion_tokens"):
        assert sum(cost[tokens] for cost in costs) == last[tokens] > 0
    assert min(cost["requests"] for cost in costs) >= 9, "every seed bears what it asked"
    assert last["calls_per_accepted"] == last["llm_calls"] / 3


def test_seeds_are_kept_while_the_server_is_away(run: RunDir) -> None:
    async def scenario() -> None:
        put(run, "k")
        with running(always(replace(completion("{}"), hang_s=60.0))) as first:
            backend = served(first.url)
            daemon = serving(run, backend)
            await until(lambda: first.requests, daemon)
        await until(lambda: phase(run) == "waiting for the server of m", daemon)
        assert run.queue("seeds").counts()["claimed"] == 1
        assert answers(run) == {}
        with running(file_task_answer, port=int(first.url.split(":")[2].split("/")[0])):
            await until(lambda: answers(run), daemon)
            await finish(run, daemon)
        await backend.close()

    asyncio.run(scenario())
    assert answers(run)["k"]["outcome"] == "published"
    assert counters(run)["attempts"] == 1


def test_the_servers_process_dies_in_the_middle(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llm, "Patience", lambda **given: replace(QUICK, **given))
    monkeypatch.setattr(
        "rods.synthesis.service.ServerPlan", lambda **given: ServerPlan(**given, first_pause_s=0.01)
    )
    command = (sys.executable, str(Path(__file__).parents[1] / "llm_server.py"))
    # Two seeds need 18 answers: the second process does not reach its 14th.
    config = replace(
        CONFIG,
        server=ServerConfig(command=command, ready_timeout_s=30.0),
        server_args=("--die-after", "14"),
    )

    async def scenario() -> None:
        put(run, "a")
        put(run, "b")
        async with open_backend(config, run.path, run.attempt_dir(1), lambda _: None) as backend:
            daemon = serving(run, backend)
            await until(lambda: len(answers(run)) == 2, daemon)
            await finish(run, daemon)

    asyncio.run(scenario())
    (log,) = run.attempt_dir(1).glob("server-*.log")
    assert log.read_text().count("the stand-in dies") == 1
    assert {answer["outcome"] for answer in answers(run).values()} == {"published"}
    last = counters(run)
    assert (last["accepted"], last["attempts"], last["dropped"]) == (2, 2, 0)
    assert sum(agent["failed"] for agent in last["agents"].values()) > 0


def test_the_seed_that_kills_the_server_is_set_aside_and_its_neighbours_are_not(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seven seeds are owed answers at each death; the third finds the culprit alone, with restarts left."""
    monkeypatch.setattr(llm, "Patience", lambda **given: replace(QUICK, **given))
    monkeypatch.setattr(
        "rods.synthesis.service.ServerPlan", lambda **given: ServerPlan(**given, first_pause_s=0.01)
    )
    command = (sys.executable, str(Path(__file__).parents[1] / "llm_server.py"))
    config = replace(
        CONFIG,
        server=ServerConfig(command=command, ready_timeout_s=30.0, max_restarts=3),
        server_args=("--die-on", "P01S0N", "--median-s", "0.2"),
    )
    innocents = {f"k{index}" for index in range(7)}
    task = seed_task().to_json()
    poison = {**task, "turns": [{**task["turns"][0], "query": "P01S0N"}, *task["turns"][1:]]}
    message = {"key": "poison", "step": 1, "phi": 1.0, "depth_shift": 0, "task": poison}
    run.queue("seeds").put("poison", message)
    for key in innocents:
        put(run, key)

    async def scenario() -> None:
        async with open_backend(config, run.path, run.attempt_dir(1), lambda _: None) as backend:
            daemon = serving(run, backend, workers=8)
            await until(lambda: len(answers(run)) == 8, daemon)
            await finish(run, daemon)

    asyncio.run(scenario())
    found = answers(run)
    assert {found[key]["outcome"] for key in innocents} == {"published"}
    assert "went away 3 times in a row while it owed this seed an answer" in found["poison"]["reason"]
    assert run.queue("seeds").keys("quarantine") == ["poison"]
    (log,) = run.attempt_dir(1).glob("server-*.log")
    assert log.read_text().count("the stand-in dies") == 3
