"""Both engines hold the same policy: equal scores, equal greedy messages, before and after a weight sync."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import random_policy
import torch

from rods.config import ModelConfig, RolloutConfig
from rods.rollout.engine import Completion, Engine, Request, RequestError, Sampling, WeightsError, build

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]
MAX_LENGTH = 96
END = 2


def make(name: str, folder: Path) -> Engine:
    return build(folder, ModelConfig(max_length=MAX_LENGTH), RolloutConfig(engine=name, max_concurrent=4), 0)


@pytest.fixture(scope="module")
def vllm(policy_dir: Path) -> Iterator[Engine]:
    pytest.importorskip("vllm", reason="vllm is not installed: pip install -e '.[cpu]'")
    engine = make("vllm", policy_dir)
    yield engine
    engine.close()
    engine.close()


@pytest.fixture
def hf(policy_dir: Path, vllm: Engine) -> Engine:
    vllm.update_weights(random_policy.weights(random_policy.model(seed=0)), version=0)
    return make("hf", policy_dir)


def request(
    name: str, prompt: list[int], temperature: float = 1.0, seed: int = 0, tokens: int = 10
) -> Request:
    return Request(name, tuple(prompt), Sampling(temperature, 1.0, tokens, seed))


def run(engine: Engine, requests: list[Request]) -> dict[str, Completion]:
    for item in requests:
        engine.submit(item)
    done: dict[str, Completion] = {}
    for _ in range(1000):
        done |= {completion.id: completion for completion in engine.step()}
        if len(done) == len(requests):
            return done
    raise AssertionError(f"{len(done)} of {len(requests)} requests finished")


def sequences() -> list[list[int]]:
    ragged = [[(17 * i + 7 * j) % 250 + 7 for j in range(2 + 9 * i)] for i in range(7)]
    return [*ragged, [(11 * j) % 250 + 7 for j in range(MAX_LENGTH)]]


def assert_equal_scores(one: Engine, other: Engine) -> None:
    for found, expected in zip(one.score(sequences()), other.score(sequences()), strict=True):
        assert found == pytest.approx(expected, abs=1e-3)


def test_scores_agree(vllm: Engine, hf: Engine) -> None:
    assert_equal_scores(vllm, hf)


def test_greedy_messages_and_their_logprobs_agree(vllm: Engine, hf: Engine) -> None:
    requests = [request(str(i), ids, temperature=0.0) for i, ids in enumerate(sequences()[:-1])]
    found, expected = run(vllm, requests), run(hf, requests)
    for name, completion in expected.items():
        assert found[name].token_ids == completion.token_ids
        assert found[name].stopped == completion.stopped
        assert found[name].logprobs == pytest.approx(completion.logprobs, abs=1e-3)


def test_sampled_messages_carry_the_policys_logprobs_over_several_turns(vllm: Engine, hf: Engine) -> None:
    episodes = {str(i): ids for i, ids in enumerate(sequences()[:5])}
    for turn in range(3):
        # Sharper than the policy: the logprobs must be those of temperature 1 all the same.
        done = run(vllm, [request(name, ids, 0.7, seed=turn) for name, ids in episodes.items()])
        for name, completion in done.items():
            prompt = episodes[name]
            (expected,) = hf.score([[*prompt, *completion.token_ids]])
            assert completion.logprobs == pytest.approx(expected[len(prompt) - 1 :], abs=1e-3)
            episodes[name] = [*prompt, *completion.token_ids, 20, 30]


def test_a_draw_depends_on_the_seed_and_not_on_company(vllm: Engine, hf: Engine) -> None:
    requests = [request(str(i), ids, seed=i) for i, ids in enumerate(sequences()[:6])]
    together = run(vllm, requests)
    for item in requests:
        assert run(vllm, [item])[item.id].token_ids == together[item.id].token_ids
    other = run(
        vllm, [request(r.id, list(r.prompt_ids), seed=2**63 + 50 + i) for i, r in enumerate(requests)]
    )
    assert any(other[name].token_ids != together[name].token_ids for name in together)


def test_messages_end_at_the_end_token_or_their_length(vllm: Engine, hf: Engine) -> None:
    done = run(vllm, [request(str(seed), [5, 6, 7], seed=seed, tokens=40) for seed in range(40)]).values()
    assert {completion.stopped for completion in done} == {True, False}
    for completion in done:
        assert END not in completion.token_ids[:-1]
        assert (completion.token_ids[-1] == END) == completion.stopped
    (full,) = run(vllm, [request("full", [7] * (MAX_LENGTH - 3), 0.0, tokens=50)]).values()
    assert len(full.token_ids) == 3


def test_new_weights_change_the_policy_and_keep_the_engines_equal(vllm: Engine, hf: Engine) -> None:
    before = vllm.score(sequences())
    cached = run(vllm, [request("cached", sequences()[5], 0.0)])["cached"]
    fresh = random_policy.weights(random_policy.model(seed=1))
    for engine in (vllm, hf):
        engine.update_weights(iter(fresh), version=7)
        assert engine.version == 7
    assert_equal_scores(vllm, hf)
    assert vllm.score(sequences())[-1] != pytest.approx(before[-1], abs=0.1)
    again = request("cached", sequences()[5], 0.0)
    (found,), (expected,) = run(vllm, [again]).values(), run(hf, [again]).values()
    assert found.token_ids == expected.token_ids != cached.token_ids


def test_impossible_requests_are_refused(vllm: Engine, hf: Engine) -> None:
    with pytest.raises(RequestError, match="max_length = 96"):
        vllm.submit(request("a", [7] * MAX_LENGTH))
    with pytest.raises(RequestError, match="97 tokens"):
        vllm.score([[7] * (MAX_LENGTH + 1)])
    assert vllm.step() == []
    vllm.submit(request("a", [7]))
    with pytest.raises(RequestError, match="already in flight"):
        vllm.submit(request("a", [7]))
    with pytest.raises(RequestError, match="in flight"):
        vllm.update_weights([], 1)
    while not vllm.step():
        pass


def test_starting_it_leaves_the_process_as_it_was(vllm: Engine) -> None:
    assert not [name for name in os.environ if name in ("LD_PRELOAD", "LOCAL_WORLD_SIZE")]
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    assert torch.get_num_threads() == threads + 1
    torch.set_num_threads(threads)


def test_weights_that_do_not_fit_close_the_engine(vllm: Engine, hf: Engine) -> None:
    """Last in this file: it ends the shared engine."""
    partial = dict(random_policy.weights(random_policy.model(seed=1)))
    del partial["lm_head.weight"]
    with pytest.raises(WeightsError, match=r"lm_head\.weight"):
        vllm.update_weights(partial.items(), version=1)
    with pytest.raises(RequestError, match="closed"):
        vllm.submit(request("a", [7]))
