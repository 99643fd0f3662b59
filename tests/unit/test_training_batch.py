"""Packing: every rollout once, within the budget, equally many micro-batches on every rank."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rods.training.batch import BatchError, check, lay, pack, plan, spread


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
            assert sum(lengths[index] for index in micro) <= budget


def test_ranks_that_run_short_keep_step_with_an_empty_micro_batch() -> None:
    # Rank 0 gets the 10 and a 6, which do not fit together; rank 1 the two that do.
    (mini,) = plan([10, 6, 6, 6], [0, 1, 2, 3], 1, 2, 12)
    assert mini.ranks == (((0,), (2,)), ((1, 3), ()))


def test_mini_batches_are_shared_equally_even_where_their_sizes_differ() -> None:
    # 6 rollouts are 3 a rank: mini-batches of 1 and 2 a rank, never of 3 for 2 ranks.
    minis = plan([4] * 6, range(6), 2, 2, 100)
    assert [mini.rollouts for mini in minis] == [(0, 1), (2, 4, 3, 5)]


def test_fewer_rollouts_than_mini_batches() -> None:
    minis = plan([4, 4], [1, 0], 5, 1, 100)
    assert [mini.rollouts for mini in minis] == [(1,), (0,)]


def test_rollouts_that_ranks_cannot_share_are_refused() -> None:
    with pytest.raises(BatchError, match="7 rollouts, which 2 ranks"):
        plan([4] * 7, range(7), 2, 2, 100)


def test_pack_takes_the_longest_first_and_fills_what_has_room() -> None:
    assert pack([0, 1, 2, 3], [5, 9, 5, 9], 18) == [(1, 3), (0, 2)]
    assert pack([0, 1, 2, 3], [7, 6, 4, 3], 10) == [(0, 3), (1, 2)]
    assert pack([0], [50], 18) == [(0,)]


def test_sequences_lie_end_to_end() -> None:
    packed = lay([(5, 6, 7), (8, 9)], [(0, 1, 1), (0, 1)], torch.device("cpu"))
    assert packed.ids.tolist() == [5, 6, 7, 8, 9]
    assert packed.positions.tolist() == [0, 1, 2, 0, 1]
    assert packed.chosen.tolist() == [1, 2, 4]
    assert packed.bounds.tolist() == [0, 3, 5]
    assert packed.lengths == (3, 2)
    nothing = lay([], [], torch.device("cpu"))
    assert (nothing.lengths, nothing.chosen.tolist()) == ((2,), [])


def test_a_rollouts_credit_is_one_number_or_one_a_token() -> None:
    spreads = spread([0.5, torch.tensor([1.0, 2.0]), torch.tensor(3.0)], [2, 2, 1], torch.device("cpu"))
    assert spreads.tolist() == [0.5, 0.5, 1.0, 2.0, 3.0]
    assert spread([], [], torch.device("cpu")).shape == (0,)


@pytest.mark.parametrize(
    ("rollouts", "advantages", "said"),
    [
        ([], [], "0 rollouts"),
        ([Sample()], [1.0, 2.0], "1 rollouts and 2 advantages"),
        ([Sample(), replace(Sample(), mask=(0, 1))], [0.0, 0.0], "rollout 1: .* found 3, 2 and 3"),
        ([replace(Sample(), logprobs=())], [0.0], "found 3, 3 and 0"),
        ([Sample((1,), (0,), (0.0,))], [0.0], "≥ 2"),
        ([replace(Sample(), mask=(1, 1, 1))], [0.0], "nothing precedes"),
        ([Sample()], [torch.ones(3)], "one for each of 2 sampled tokens, found .* \\(3,\\)"),
        ([Sample((1,) * 9, (0,) * 9, (0.0,) * 9)], [0.0], "9 tokens do not fit .* 8"),
    ],
)
def test_nonsense_is_refused(
    rollouts: list[Sample], advantages: list[float | torch.Tensor], said: str
) -> None:
    with pytest.raises(BatchError, match=said):
        check(rollouts, advantages, 8)


def test_good_rollouts_pass() -> None:
    check([Sample(), Sample()], [0.0, torch.tensor([1.0, -1.0])], 8)
