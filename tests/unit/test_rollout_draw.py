"""Draws follow the distribution they are given."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rods.rollout.draw import draw, uniforms
from rods.rollout.engine import Sampling

LOGITS = [0.0, 2.0, -1.0, 1.0, -30.0]


def counts(temperature: float, top_p: float, grid: int = 4000) -> Counter[int]:
    """How often each token is drawn when the uniform numbers are an even grid."""
    settings = [Sampling(temperature, top_p, 1, 0)] * grid
    tokens, _ = draw(torch.tensor([LOGITS] * grid), settings, [(i + 0.5) / grid for i in range(grid)])
    return Counter(tokens)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_frequencies_are_the_softmax(temperature: float) -> None:
    expected = torch.softmax(torch.tensor(LOGITS) / temperature, -1) * 4000
    found = counts(temperature, 1.0)
    for token, count in enumerate(expected.tolist()):
        assert found[token] == pytest.approx(count, abs=1.5)


def test_top_p_keeps_the_smallest_sufficient_set_in_proportion() -> None:
    # Probabilities .64 .24 .09 .03: 0.8 needs the first two.
    found = counts(1.0, 0.8)
    assert set(found) == {1, 3}
    assert found[1] / found[3] == pytest.approx(torch.e, rel=0.01)
    assert set(counts(1.0, 1e-6)) == {1}


def test_logprobs_are_those_of_temperature_one_without_the_cut() -> None:
    logits = torch.tensor([LOGITS] * 3)
    settings = [Sampling(0.0, 1.0, 1, 0), Sampling(0.3, 1.0, 1, 0), Sampling(1.0, 0.5, 1, 0)]
    tokens, logprobs = draw(logits, settings, [0.99, 0.5, 0.5])
    assert tokens[0] == 1
    expected = torch.log_softmax(logits[0], -1)
    assert logprobs == pytest.approx([expected[token].item() for token in tokens])


@given(st.integers(-(2**70), 2**70), st.integers(1, 50))
def test_uniform_numbers_depend_on_the_seed_alone(seed: int, count: int) -> None:
    numbers = uniforms(seed, count)
    assert numbers == uniforms(seed, count + 5)[:count]
    assert all(0 <= number < 1 for number in numbers)
    assert numbers != uniforms(seed + 1, count)


@given(
    st.lists(st.floats(-50, 50), min_size=2, max_size=20),
    st.floats(0, 1, exclude_max=True),
    st.floats(0.01, 1),
)
def test_a_token_without_probability_is_never_drawn(
    logits: list[float], uniform: float, top_p: float
) -> None:
    masked = torch.tensor([[-torch.inf, *logits, -torch.inf]])
    (token,), (logprob,) = draw(masked, [Sampling(1.0, top_p, 1, 0)], [uniform])
    assert 1 <= token <= len(logits)
    assert logprob > -torch.inf
