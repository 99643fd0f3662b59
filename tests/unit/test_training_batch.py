"""Packing: every rollout once, within the budget, equally many micro-batches on every rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rods.training.batch import BatchError, check, pack, pad, plan


@dataclass(frozen=True)
class Sample:
    token_ids: tuple[int, ...] = (5, 6, 7)
    mask: tuple[int, ...] = (0, 1, 1)
    logprobs: tuple[float, ...] = (0.0, -1.0, -2.0)


@given(
    lengths=st.lists(st.integers(2, 60), min_size=1, max_size=40),
    budget=st.integers(60, 200),
    data=st.data(),
)
def test_plan_uses_every_rollout_once(lengths: list[int], budget: int, data: st.DataObject) -> None:
    ranks = data.draw(st.sampled_from([1, 2, 3]))
    lengths = lengths * ranks * 2
    order = data.draw(st.permutations(range(len(lengths))))
    minis = plan(lengths, order, 2, ranks, budget)
    assert len(minis) == 2
    assert sorted(index for mini in minis for index in mini.rollouts) == list(range(len(lengths)))
    for mini in minis:
        assert len({len(micros) for micros in mini.ranks}) == 1
        shares = [sum(len(micro) for micro in micros) for micros in mini.ranks]
        assert len(set(shares)) == 1
        for micro in (micro for micros in mini.ranks for micro in micros if micro):
            assert len(micro) * max(lengths[index] for index in micro) <= budget


def test_ranks_that_run_short_keep_step_with_an_empty_micro_batch() -> None:
    # Rank 0 gets the 10 and a 6, which do not fit together; rank 1 the two that do.
    (mini,) = plan([10, 6, 6, 6], [0, 1, 2, 3], 1, 2, 12)
    assert mini.ranks == (((0,), (2,)), ((1, 3), ()))


def test_fewer_rollouts_than_mini_batches() -> None:
    minis = plan([4, 4], [1, 0], 5, 1, 100)
    assert [mini.rollouts for mini in minis] == [(1,), (0,)]


def test_indivisible_mini_batch_is_refused() -> None:
    with pytest.raises(BatchError, match="mini-batch 0 of 2 has 3 rollouts, which 2 ranks"):
        plan([4] * 6, range(6), 2, 2, 100)


def test_pack_is_by_length_and_ties_keep_their_order() -> None:
    assert pack([0, 1, 2, 3], [5, 9, 5, 9], 18) == [(1, 3), (0, 2)]
    assert pack([0], [50], 18) == [(0,)]


def test_pad() -> None:
    padded = pad([(5, 6, 7), (8, 9)], [(0, 1, 1), (0, 1)], torch.device("cpu"))
    assert padded.ids.tolist() == [[5, 6, 7], [8, 9, 0]]
    assert padded.mask.tolist() == [[False, True, True], [False, True, False]]
    nothing = pad([], [], torch.device("cpu"))
    assert nothing.ids.shape == (1, 2)
    assert not nothing.mask.any()


@pytest.mark.parametrize(
    ("rollouts", "advantages", "said"),
    [
        ([], [], "0 rollouts"),
        ([Sample()], [1.0, 2.0], "1 rollouts and 2 advantages"),
        ([Sample(), replace(Sample(), mask=(0, 1))], [0.0, 0.0], "rollout 1: .* found 3, 2 and 3"),
        ([replace(Sample(), logprobs=())], [0.0], "found 3, 3 and 0"),
        ([Sample((1,), (0,), (0.0,))], [0.0], "≥ 2"),
        ([replace(Sample(), mask=(1, 1, 1))], [0.0], "nothing precedes"),
        ([Sample((1,) * 9, (0,) * 9, (0.0,) * 9)], [0.0], "9 tokens do not fit .* 8"),
    ],
)
def test_nonsense_is_refused(rollouts: list[Sample], advantages: list[float], said: str) -> None:
    with pytest.raises(BatchError, match=said):
        check(rollouts, advantages, 8)


def test_good_rollouts_pass() -> None:
    check([Sample(), Sample()], [0.0, 1.0], 8)
