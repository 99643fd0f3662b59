"""The learner on DeepSpeed against the same update written in plain PyTorch, and across a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import learner_examples as examples
import pytest
import torch
from learner_examples import TRAINING, learner, plain_update, samples
from transformers import AutoModelForCausalLM, AutoTokenizer

from rods.exchange.rundir import RunDir
from rods.training import checkpoint
from rods.training.batch import BatchError
from rods.training.learner import Learner
from rods.training.optimizer import DivergedError
from rods.training.state import StateError


def weights(trained: Learner) -> dict[str, torch.Tensor]:
    return dict(trained.weights())


def largest_difference(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[name] - b[name]).abs().max()) for name in a)


# Adam divides by a gradient's own size: where that is rounding noise the step is too, and only a small learning
# rate keeps it below the tolerance. A wrong gradient would show at 1e-4, a wrong scale in the norm.
SMALL = replace(TRAINING, learning_rate=1e-4)


@pytest.mark.parametrize("zero_stage", [0, 1, 2, 3])
@pytest.mark.parametrize(("mini_batches", "aggregation"), [(1, "seq-mean-token-mean"), (2, "token-mean")])
def test_update_equals_plain_pytorch(
    policy_dir: Path, zero_stage: int, mini_batches: int, aggregation: str
) -> None:
    config = replace(SMALL, zero_stage=zero_stage, mini_batches=mini_batches, loss_aggregation=aggregation)
    rollouts, advantages = samples(12)
    trained = learner(policy_dir, config)
    before = weights(trained)
    metrics = trained.update(rollouts, advantages)
    expected, norm = plain_update(policy_dir, rollouts, advantages, config)
    assert largest_difference(weights(trained), before) > 0.9e-4
    # Adam divides small gradients by their own size, so rounding, which differs between processors, comes out
    # as a share of a step (1e-4 here); another aggregation or another share is a whole one.
    assert largest_difference(weights(trained), expected) <= 5e-6
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-5)
    assert norm > config.gradient_clip  # clipping was at work
    assert metrics["sampled_tokens"] == sum(sum(rollout.mask) for rollout in rollouts)
    assert metrics["tokens"] == sum(len(rollout.token_ids) for rollout in rollouts)


def test_an_update_tells_of_every_micro_batch(policy_dir: Path) -> None:
    (rollout, *_), advantages = samples(12)
    rollouts, told = [rollout] * 12, []
    for tokens in (3 * len(rollout.token_ids), len(rollout.token_ids)):
        calls: list[None] = []
        config = replace(TRAINING, mini_batches=2, micro_batch_tokens=tokens)
        learner(policy_dir, config).update(rollouts, advantages, lambda calls=calls: calls.append(None))
        told.append(len(calls))
    # The second mini-batch is also scored before the first step: three times the micro-batches of 6 rollouts.
    assert told == [6, 18]


def test_later_mini_batches_are_measured_against_the_start_of_the_step(policy_dir: Path) -> None:
    # Large steps, so that the second mini-batch sees ratios far from 1 and clips some.
    config = replace(TRAINING, learning_rate=1e-2, mini_batches=2)
    rollouts, advantages = samples(12)
    metrics = learner(policy_dir, config).update(rollouts, advantages)
    _, norm = plain_update(policy_dir, rollouts, advantages, config)
    assert metrics["clip_fraction"] > 0
    assert metrics["ratio_max"] > 1.3
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-4)


def test_partitioned_weights_arrive_whole(tmp_path: Path) -> None:
    # ZeRO-3 keeps small tensors on every rank; this embedding is large enough to be partitioned.
    import random_policy
    from transformers import Qwen3ForCausalLM

    config = random_policy.model(0).config
    config.vocab_size = 2048
    start = Qwen3ForCausalLM(config)
    start.save_pretrained(tmp_path)
    trained = learner(tmp_path, replace(SMALL, zero_stage=3))
    embedding = trained.policy.model.get_input_embeddings().weight
    assert embedding.numel() == 0
    assert largest_difference(weights(trained), start.state_dict()) == 0
    rollouts, advantages = samples(6)
    trained.update(rollouts, advantages)
    expected, _ = plain_update(tmp_path, rollouts, advantages, SMALL)
    assert largest_difference(weights(trained), expected) <= 1e-6


def test_what_the_policy_did_not_sample_has_no_influence(policy_dir: Path) -> None:
    rollouts, advantages = samples(6)
    noisy = [
        replace(
            rollout,
            logprobs=tuple(
                value if mark else 99.0 for value, mark in zip(rollout.logprobs, rollout.mask, strict=True)
            ),
        )
        for rollout in rollouts
    ]
    one, other = learner(policy_dir, TRAINING), learner(policy_dir, TRAINING)
    assert one.update(rollouts, advantages) == other.update(noisy, advantages)
    assert largest_difference(weights(one), weights(other)) == 0


def test_metrics_of_an_untouched_policy(policy_dir: Path) -> None:
    trained = learner(policy_dir, TRAINING)
    rollouts, advantages = samples(6)
    scores = trained.score([rollout.token_ids for rollout in rollouts])
    exact = [
        replace(rollout, logprobs=(0.0, *score)) for rollout, score in zip(rollouts, scores, strict=True)
    ]
    metrics = trained.update(exact, advantages)
    assert metrics["logprob_gap"] == pytest.approx(0, abs=1e-5)
    assert metrics["kl"] == pytest.approx(0, abs=1e-6)
    assert metrics["ratio_max"] == 1.0
    assert metrics["clip_fraction"] == 0.0
    assert trained.update(exact, advantages)["kl"] > 1e-4


def test_without_a_kl_term_there_is_no_reference(policy_dir: Path) -> None:
    trained = learner(policy_dir, replace(TRAINING, kl_coefficient=0.0))
    assert trained.reference is None
    assert trained.update(*samples(4))["kl"] == 0.0


def test_scores_equal_transformers(policy_dir: Path) -> None:
    trained = learner(policy_dir, TRAINING)
    sequences = [rollout.token_ids for rollout in samples(7, seed=5)[0]]
    model = AutoModelForCausalLM.from_pretrained(policy_dir, dtype=torch.float32)
    for sequence, score in zip(sequences, trained.score(sequences), strict=True):
        log_probs = model(torch.tensor([sequence])).logits[0, :-1].log_softmax(-1)
        expected = log_probs.gather(1, torch.tensor(sequence[1:]).unsqueeze(1))[:, 0]
        torch.testing.assert_close(torch.tensor(score), expected.detach(), rtol=0, atol=2e-5)


@pytest.mark.parametrize("zero_stage", [0, 2])
def test_resumed_training_equals_a_straight_run_bit_for_bit(
    policy_dir: Path, tmp_path: Path, zero_stage: int
) -> None:
    config = replace(TRAINING, zero_stage=zero_stage, mini_batches=2, warmup_fraction=0.5, learning_rate=1e-3)
    batches = [samples(8, seed=step) for step in range(6)]
    straight = learner(policy_dir, config, steps=6)
    told = [straight.update(*each) for each in batches]
    assert len({metrics["learning_rate"] for metrics in told}) > 3  # the schedule was still warming up

    first = learner(policy_dir, config, steps=6)
    for each in batches[:3]:
        first.update(*each)
    run = RunDir(tmp_path)
    checkpoint.save(run, checkpoint.Position(3, 1, 30), first, {"position": 7}, keep=1)
    torch.manual_seed(999)

    second = learner(policy_dir, config, steps=6)
    second.update(*samples(8, seed=77))
    newest = checkpoint.latest(run)
    assert newest is not None
    second.load(newest)
    assert checkpoint.read_extra(newest) == {"position": 7}
    assert [second.update(*each) for each in batches[3:]] == told[3:]
    assert largest_difference(weights(second), weights(straight)) == 0


def test_checkpoints_of_another_shape_are_refused(policy_dir: Path, tmp_path: Path) -> None:
    trained = learner(policy_dir, TRAINING)
    with pytest.raises(StateError, match=r"expected learner\.json"):
        trained.load(tmp_path)
    trained.save(tmp_path)
    with pytest.raises(StateError, match="zero_stage = 0, this run has 1"):
        learner(policy_dir, replace(TRAINING, zero_stage=1)).load(tmp_path)


def test_export_is_a_hugging_face_folder(policy_dir: Path, tmp_path: Path) -> None:
    trained = learner(policy_dir, TRAINING)
    trained.update(*samples(4))
    trained.export(tmp_path / "policy")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "policy", dtype=torch.float32)
    assert largest_difference(dict(model.state_dict()), weights(trained)) == 0
    text = "<|im_start|>user\nmove a.txt<|im_end|>\n<tool_call>"
    tokenizers = [AutoTokenizer.from_pretrained(folder) for folder in (policy_dir, tmp_path / "policy")]
    assert tokenizers[0].encode(text) == tokenizers[1].encode(text)
    assert tokenizers[0].eos_token == tokenizers[1].eos_token


def test_warm_up_rises_to_the_learning_rate_and_stays(policy_dir: Path) -> None:
    trained = learner(policy_dir, replace(TRAINING, warmup_fraction=0.4, learning_rate=1e-3), steps=10)
    rates = [trained.update(*samples(2))["learning_rate"] for _ in range(6)]
    assert rates == pytest.approx([0.2e-3, 0.4e-3, 0.6e-3, 0.8e-3, 1e-3, 1e-3])


def test_nothing_is_compiled_or_left_in_the_launch_variables(policy_dir: Path, monkeypatch: Any) -> None:
    import os

    from deepspeed.comm import comm

    learner(policy_dir, TRAINING)
    assert comm.cdb.shm_comm_op is None
    assert not {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} & os.environ.keys()


def test_refused_rollouts_leave_the_learner_as_it_was(policy_dir: Path) -> None:
    trained = learner(policy_dir, TRAINING)
    before = weights(trained)
    rollouts, advantages = samples(4)
    with pytest.raises(BatchError, match="0 rollouts"):
        trained.update([], [])
    too_long = examples.Sample((1,) * 61, (0,) + (1,) * 60, (0.0,) * 61)
    with pytest.raises(BatchError, match="rollout 4: 61 tokens"):
        trained.update([*rollouts, too_long], [*advantages, 1.0])
    assert largest_difference(weights(trained), before) == 0


def test_a_loss_that_is_not_finite_stops_the_run(policy_dir: Path) -> None:
    trained = learner(policy_dir, TRAINING)
    rollouts, advantages = samples(4)
    spoilt = replace(rollouts[0], logprobs=(float("nan"),) * len(rollouts[0].token_ids))
    with pytest.raises(DivergedError, match="finite loss, found nan"):
        trained.update([spoilt, *rollouts[1:]], advantages)


def test_bfloat16_trains(policy_dir: Path) -> None:
    trained = learner(policy_dir, replace(TRAINING, zero_stage=1), dtype="bfloat16")
    before = weights(trained)
    metrics = trained.update(*samples(4))
    assert metrics["grad_norm"] > 0
    assert {tensor.dtype for tensor in weights(trained).values()} == {torch.bfloat16}
    assert largest_difference(weights(trained), before) > 0
