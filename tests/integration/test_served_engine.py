"""vLLM's own server as the engine: the same scores and messages as transformers, before and after new weights."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import random_policy

from rods.config import ModelConfig, RolloutConfig
from rods.rollout.engine import Completion, Engine, Request, RequestError, Sampling, build

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]
MAX_LENGTH = 96
MODEL = ModelConfig(max_length=MAX_LENGTH)


@pytest.fixture(scope="module")
def served(policy_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    pytest.importorskip("vllm", reason="vllm is not installed: pip install -e '.[cpu]'")
    logs = tmp_path_factory.mktemp("logs")
    rollout = RolloutConfig(placement="served", max_concurrent=4, answer_timeout_s=120.0)
    engine = build(policy_dir, MODEL, rollout, 0, logs)
    yield engine
    engine.close()
    engine.close()
    assert not list(logs.glob("*.key"))


@pytest.fixture
def hf(policy_dir: Path) -> Engine:
    return build(policy_dir, MODEL, RolloutConfig(engine="hf", max_concurrent=4), 0)


def request(name: str, prompt: list[int], temperature: float, seed: int = 0) -> Request:
    return Request(name, tuple(prompt), Sampling(temperature, 1.0, 10, seed))


def run(engine: Engine, requests: list[Request]) -> dict[str, Completion]:
    for item in requests:
        engine.submit(item)
    done: dict[str, Completion] = {}
    while len(done) < len(requests):
        done |= {completion.id: completion for completion in engine.step()}
    return done


def sequences() -> list[list[int]]:
    ragged = [[(17 * i + 7 * j) % 250 + 7 for j in range(2 + 9 * i)] for i in range(7)]
    return [*ragged, [(11 * j) % 250 + 7 for j in range(MAX_LENGTH)]]


def assert_equal(served: Engine, hf: Engine) -> None:
    for found, expected in zip(served.score(sequences()), hf.score(sequences()), strict=True):
        assert found == pytest.approx(expected, abs=1e-3)
    requests = [request(str(index), ids, 0.0) for index, ids in enumerate(sequences()[:-1])]
    messages = run(served, requests)
    for name, expected_message in run(hf, requests).items():
        assert messages[name].token_ids == expected_message.token_ids
        assert messages[name].logprobs == pytest.approx(expected_message.logprobs, abs=1e-3)
        assert messages[name].stopped == expected_message.stopped


def test_it_is_the_policy_before_and_after_a_weight_sync(served: Engine, hf: Engine) -> None:
    assert_equal(served, hf)
    before = served.score(sequences())
    fresh = random_policy.weights(random_policy.model(seed=1))
    for engine in (served, hf):
        engine.update_weights(iter(fresh), version=7)
        assert engine.version == 7
    assert_equal(served, hf)
    assert served.score(sequences())[-1] != pytest.approx(before[-1], abs=0.1)
    again = random_policy.weights(random_policy.model(seed=0))
    served.update_weights(iter(again), version=8)
    assert served.score(sequences())[-1] == pytest.approx(before[-1], abs=1e-3)


def test_a_draw_depends_on_the_seed_and_not_on_company(served: Engine) -> None:
    requests = [request(str(index), ids, 1.0, seed=index) for index, ids in enumerate(sequences()[:6])]
    together = run(served, requests)
    for item in requests:
        assert run(served, [item])[item.id].token_ids == together[item.id].token_ids
    others = [request(r.id, list(r.prompt_ids), 1.0, seed=2**63 + 50 + i) for i, r in enumerate(requests)]
    assert any(message.token_ids != together[name].token_ids for name, message in run(served, others).items())


def test_weights_wait_for_requests_and_what_cannot_be_served_is_refused(served: Engine) -> None:
    with pytest.raises(RequestError, match="max_length = 96"):
        served.submit(request("a", [7] * MAX_LENGTH, 1.0))
    served.submit(request("a", [7], 1.0))
    with pytest.raises(RequestError, match="already in flight"):
        served.submit(request("a", [7], 1.0))
    with pytest.raises(RequestError, match="in flight"):
        served.update_weights([], 1)
    assert served.step()
    assert served.step() == []


def test_a_server_of_others_is_used_and_left_running(served: Any, policy_dir: Path, monkeypatch: Any) -> None:
    (server,) = served._client.servers
    monkeypatch.setenv("VLLM_API_KEY", server._client.headers["Authorization"].removeprefix("Bearer "))
    rollout = RolloutConfig(placement="served", servers=(server.url,), max_concurrent=4)
    other = build(policy_dir, MODEL, rollout, 0)
    assert other.score(sequences()) == served.score(sequences())
    other.close()
    assert served.score(sequences())


def test_the_key_is_in_the_environment_of_the_server_alone(served: Any) -> None:
    (server,) = served._client.servers
    key = server._client.headers["Authorization"].removeprefix("Bearer ")
    assert len(key) > 20
    assert key not in os.environ.values()
