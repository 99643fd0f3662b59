"""The transformers engine against transformers itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import random_policy
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedModel

from rods.config import ModelConfig, RolloutConfig
from rods.rollout.draw import uniforms
from rods.rollout.engine import Completion, Engine, Request, RequestError, Sampling, build
from rods.rollout.hf_engine import HfEngine, UnsupportedModelError
from rods.rollout.row_cache import ATTENTION

MAX_LENGTH = 96
END = 2


@pytest.fixture(scope="module")
def plain(policy_dir: Path) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(policy_dir, attn_implementation="eager")
    return model


@pytest.fixture
def engine(policy_dir: Path) -> Iterator[Engine]:
    engine = make(policy_dir)
    yield engine
    engine.close()


def make(folder: Path, rows: int = 4) -> Engine:
    return build(
        folder, ModelConfig(max_length=MAX_LENGTH), RolloutConfig(engine="hf", max_concurrent=rows), 0
    )


def request(
    name: str, prompt: Sequence[int], seed: int = 0, temperature: float = 1.0, tokens: int = 12
) -> Request:
    return Request(name, tuple(prompt), Sampling(temperature, 1.0, tokens, seed))


def run(engine: Engine, requests: Sequence[Request]) -> dict[str, Completion]:
    for item in requests:
        engine.submit(item)
    return drain(engine, len(requests))


def drain(engine: Engine, count: int) -> dict[str, Completion]:
    done: dict[str, Completion] = {}
    for _ in range(1000):
        done |= {completion.id: completion for completion in engine.step()}
        if len(done) == count:
            return done
    raise AssertionError(f"{len(done)} of {count} requests finished")


def prompts(count: int) -> list[list[int]]:
    """Ragged: 3, 8, 13, … tokens."""
    return [[(17 * i + 7 * j) % 250 + 7 for j in range(3 + 5 * i)] for i in range(count)]


def reference(plain: PreTrainedModel, sequence: Sequence[int]) -> list[float]:
    """Log-probability of tokens 1…n-1 by one plain forward pass."""
    ids = torch.tensor([sequence])
    with torch.no_grad():
        logprobs = torch.log_softmax(plain(ids).logits[0, :-1], -1)
    return logprobs.gather(1, ids[0, 1:, None])[:, 0].tolist()


def assert_logprobs(plain: PreTrainedModel, prompt: Sequence[int], completion: Completion) -> None:
    expected = reference(plain, [*prompt, *completion.token_ids])[len(prompt) - 1 :]
    assert completion.logprobs == pytest.approx(expected, abs=1e-4)


def test_greedy_equals_transformers_generate(engine: Engine, plain: PreTrainedModel) -> None:
    done = run(engine, [request(str(i), prompt, temperature=0.0) for i, prompt in enumerate(prompts(7))])
    for i, prompt in enumerate(prompts(7)):
        expected = plain.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=12)
        assert done[str(i)].token_ids == tuple(expected[0, len(prompt) :].tolist())


def test_logprobs_of_ragged_batches_and_continued_episodes_equal_a_plain_forward(
    engine: Engine, plain: PreTrainedModel
) -> None:
    episodes = {str(i): prompt for i, prompt in enumerate(prompts(6))}
    for turn in range(3):
        # Fewer episodes each turn, so that rows are dropped while others keep what they have cached.
        episodes = dict(list(episodes.items())[turn:])
        done = run(engine, [request(name, ids, seed=turn) for name, ids in episodes.items()])
        for name, completion in done.items():
            assert_logprobs(plain, episodes[name], completion)
            episodes[name] = [*episodes[name], *completion.token_ids, 10 + turn, 20, 30]


def test_an_episode_that_continues_while_others_run_is_not_disturbed(
    engine: Engine, plain: PreTrainedModel
) -> None:
    transcripts = {str(i): prompt for i, prompt in enumerate(prompts(4))}
    for name, ids in transcripts.items():
        engine.submit(request(name, ids, seed=int(name), tokens=4 + 5 * int(name)))
    turns = 0
    while turns < 10:
        for completion in engine.step():
            assert_logprobs(plain, transcripts[completion.id], completion)
            transcripts[completion.id] = [*transcripts[completion.id], *completion.token_ids, 44]
            if len(transcripts[completion.id]) < 60:
                engine.submit(request(completion.id, transcripts[completion.id], seed=turns, tokens=6))
            turns += 1


def test_a_prompt_that_departs_from_the_cached_episode_is_computed_afresh(
    engine: Engine, plain: PreTrainedModel
) -> None:
    for prompt in ([9, 8, 7, 6, 5], [9, 8, 40, 41], [9, 8], [9, 8, 40, 41, 50, 51]):
        assert_logprobs(plain, prompt, run(engine, [request("same", prompt)])["same"])


def test_a_prompt_longer_than_a_chunk_goes_in_pieces(
    engine: Engine, plain: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rods.rollout.hf_engine._CHUNK_TOKENS", 5)
    for i, completion in run(engine, [request(str(i), p) for i, p in enumerate(prompts(4))]).items():
        assert_logprobs(plain, prompts(4)[int(i)], completion)


def test_a_draw_depends_on_the_seed_and_not_on_company_or_order(policy_dir: Path) -> None:
    requests = [request(str(i), prompt, seed=i) for i, prompt in enumerate(prompts(6))]
    together = run(make(policy_dir, rows=6), requests)
    few_rows = run(make(policy_dir, rows=2), requests[::-1])
    assert {name: c.token_ids for name, c in together.items()} == {
        name: c.token_ids for name, c in few_rows.items()
    }
    other = run(make(policy_dir), [request(r.id, r.prompt_ids, seed=100 + i) for i, r in enumerate(requests)])
    assert all(other[name].token_ids != together[name].token_ids for name in together)


def test_each_token_inverts_the_cumulative_distribution_at_its_own_number(
    engine: Engine, plain: PreTrainedModel
) -> None:
    prompt = [9, 8, 7]
    message = run(engine, [request("a", prompt, seed=5, temperature=0.8)])["a"].token_ids
    with torch.no_grad():
        logits = plain(torch.tensor([[*prompt, *message]])).logits[0, len(prompt) - 1 : -1]
    cumulative = torch.softmax(logits.double() / 0.8, -1).cumsum(-1)
    for token, row, number in zip(message, cumulative, uniforms(5, len(message)), strict=True):
        assert int((row <= number).sum()) == token


def test_the_same_requests_give_bitwise_the_same_completions(policy_dir: Path) -> None:
    requests = [request(str(i), prompt, seed=i) for i, prompt in enumerate(prompts(6))]
    assert run(make(policy_dir), requests) == run(make(policy_dir), requests)


def test_a_message_ends_with_the_end_token_or_at_its_length(engine: Engine) -> None:
    requests = [request(str(seed), [5, 6, 7], seed=seed, tokens=40) for seed in range(60)]
    done = run(engine, requests).values()
    assert {completion.stopped for completion in done} == {True, False}
    for completion in done:
        assert (END in completion.token_ids) == completion.stopped
        assert END not in completion.token_ids[:-1]
        assert completion.stopped or len(completion.token_ids) == 40


def test_a_message_never_outgrows_the_context(engine: Engine) -> None:
    done = run(engine, [request("long", [7] * (MAX_LENGTH - 3), tokens=50, temperature=0.0)])
    assert len(done["long"].token_ids) == 3
    assert not done["long"].stopped


def test_impossible_requests_are_refused(engine: Engine) -> None:
    with pytest.raises(RequestError, match="max_length = 96"):
        engine.submit(request("a", [7] * MAX_LENGTH))
    with pytest.raises(RequestError, match="at least one token"):
        engine.submit(request("a", []))
    with pytest.raises(RequestError, match="max_tokens = 0"):
        engine.submit(request("a", [7], tokens=0))
    assert engine.step() == []
    engine.submit(request("a", [7]))
    with pytest.raises(RequestError, match="already in flight"):
        engine.submit(request("a", [7, 8]))
    for action in (lambda: engine.update_weights([], 1), lambda: engine.score([[1, 2]])):
        with pytest.raises(RequestError, match="1 requests are in flight"):
            action()


def test_scores_equal_a_plain_forward_whatever_the_batching(
    engine: Engine, plain: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    sequences = [[7, 8], *prompts(8)[::-1], [9] * MAX_LENGTH]
    for budget in (64, 8192):
        monkeypatch.setattr("rods.rollout.hf_engine._CHUNK_TOKENS", budget)
        for sequence, scores in zip(sequences, engine.score(sequences), strict=True):
            assert scores == pytest.approx(reference(plain, sequence), abs=1e-4)
    assert engine.score([]) == []


@pytest.mark.parametrize("length", [0, 1, MAX_LENGTH + 1])
def test_sequences_without_a_score_are_refused(engine: Engine, length: int) -> None:
    with pytest.raises(RequestError, match=f"sequence 1 has {length} tokens"):
        engine.score([[1, 2, 3], [7] * length])


@pytest.mark.parametrize("tied", [True, False])
def test_new_weights_replace_the_policy_and_what_it_cached(tmp_path: Path, tied: bool) -> None:
    engine = make(random_policy.save(tmp_path, seed=0, tied=tied))
    first = run(engine, [request("a", [5, 6, 7])])["a"]
    fresh = random_policy.model(seed=1, tied=tied)
    engine.update_weights(random_policy.weights(fresh), version=3)
    assert engine.version == 3
    prompt = [5, 6, 7, *first.token_ids, 9]
    completion = run(engine, [request("a", prompt)])["a"]
    assert_logprobs(fresh, prompt, completion)
    assert completion.logprobs != pytest.approx(
        reference(random_policy.model(0, tied), [*prompt, *completion.token_ids])[len(prompt) - 1 :], abs=0.01
    )


def test_another_architecture_works() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=263,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        intermediate_size=64,
        initializer_range=0.15,
    )
    config._attn_implementation = ATTENTION
    model = LlamaForCausalLM(config)
    engine = HfEngine(model, END, MAX_LENGTH, max_rows=3)
    done = run(engine, [request(str(i), prompt) for i, prompt in enumerate(prompts(5))])
    plain = LlamaForCausalLM(LlamaConfig(**{**config.to_dict(), "attn_implementation": "eager"}))
    plain.load_state_dict(model.state_dict())
    for i, completion in done.items():
        assert_logprobs(plain.eval(), prompts(5)[int(i)], completion)


def test_a_model_with_another_attention_is_refused() -> None:
    model = random_policy.model(seed=0)
    model.config._attn_implementation = ATTENTION
    model.config.layer_types = ["full_attention", "sliding_attention"]
    with pytest.raises(UnsupportedModelError, match="sliding_attention"):
        HfEngine(model, END, MAX_LENGTH, max_rows=1)


def test_it_does_not_sleep_over_requests_and_wakes_as_it_was(policy_dir: Path) -> None:
    engine = build(policy_dir, ModelConfig(max_length=60), RolloutConfig(engine="hf", max_concurrent=2), 0)
    before = engine.score([[5, 6, 7]])
    engine.submit(Request("a", (5, 6), Sampling(1.0, 1.0, 2, 0)))
    with pytest.raises(RequestError, match="sleep: 1 requests are in flight"):
        engine.sleep()
    while not engine.step():
        pass
    engine.sleep()
    engine.wake()
    assert engine.score([[5, 6, 7]]) == before
