"""The gradient: a policy inside a DeepSpeed engine that takes rollouts and gives weights.

One `update` is one training step: its rollouts are shuffled into mini-batches (one optimizer step each),
shared over ranks and cut into micro-batches of sequences that lie end to end. All averages are taken over the
whole mini-batch, so the result does not depend on how it was cut (paper, "Training"; facts on GRPO loops:
global token counts).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from rods.config import ModelConfig, TrainingConfig
from rods.training import batch, distributed, export, policy, state
from rods.training.batch import Credit, Micro, MiniBatch, Packed, Sequenced
from rods.training.beside import Writers
from rods.training.capture import host_copier
from rods.training.checkpoint import Saves
from rods.training.critic import Critic
from rods.training.loss import Tokens, policy_loss, token_weights
from rods.training.meter import Meter
from rods.training.optimizer import Optimized, warmup_steps


@dataclass
class _Piece:
    """A micro-batch of this rank: its N sampled tokens have N advantages, weights and log-probabilities."""

    packed: Packed
    chunks: int
    advantages: torch.Tensor
    weights: torch.Tensor
    engine: torch.Tensor
    old: torch.Tensor | None = None  # None: the weights have not moved since, so the forward pass gives it


class Learner:
    """The policy being trained, and under PPO its critic.

    Under several ranks every rank holds a Learner and calls the same methods with the same arguments; the
    learner takes its share.

    Args:
        model_dir: the Hugging Face folder of the start; also the KL reference, whatever is loaded later.
        model: dtype of the weights.
        training: optimizer, loss and ZeRO settings.
        total_steps: planned calls of `update`, for the warm-up.
        seed: of the order in which rollouts fall into mini-batches.

    Attributes:
        critic: under `training.algorithm: ppo`, else None.
        steps: updates so far.

    Raises:
        DistributedError, WeightsMissingError, UnsupportedModelError: see their modules.
    """

    def __init__(
        self, model_dir: Path | str, model: ModelConfig, training: TrainingConfig, total_steps: int, seed: int
    ) -> None:
        if training.threads is not None:
            torch.set_num_threads(training.threads)
        self.device = distributed.start()
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.training, self.model_dir = training, model_dir
        self.order = torch.Generator().manual_seed(seed)
        self.steps = 0
        self.policy = policy.load(model_dir, model.dtype, training.entropy_coefficient > 0)
        policy.recompute_activations(self.policy.model, training, self.device)
        self.reference = self._load_reference(model)
        planned = total_steps * training.mini_batches
        warmup = warmup_steps(training.warmup_fraction, planned)
        self._optimized = Optimized(self.policy, training, model.dtype, training.learning_rate, warmup)
        self.engine = self._optimized.engine
        self.critic: Critic | None = None
        if training.algorithm == "ppo":
            self.critic = Critic(model_dir, model.dtype, training, planned, seed, self.device)

    def update(
        self,
        rollouts: Sequence[Sequenced],
        advantages: Sequence[Credit],
        on_progress: Callable[[], None] = lambda: None,
    ) -> dict[str, float]:
        """Train the policy on one step's rollouts.

        Args:
            rollouts: all of the step's, on every rank.
            advantages: of each rollout: one number, or a tensor of one per sampled token.
            on_progress: called after every micro-batch.

        Returns:
            loss, kl, entropy, clip_fraction (…_low, …_high), ratio_max, logprob_gap (mean |engine − learner|
            before the step), grad_norm (before clipping), learning_rate (of the last optimizer step), tokens,
            sampled_tokens. Means are over sampled tokens; loss and grad_norm over optimizer steps.

        Raises:
            BatchError, LossError: rollouts that cannot be trained on; the weights are untouched.
            DivergedError: a loss or gradient norm that is not finite.
        """
        batch.check(rollouts, advantages, self.training.micro_batch_tokens)
        minis = batch.plan(
            [len(rollout.token_ids) for rollout in rollouts],
            torch.randperm(len(rollouts), generator=self.order).tolist(),
            self.training.mini_batches,
            self.world_size,
            self.training.micro_batch_tokens,
        )
        pieces = [self._pieces(mini, rollouts, advantages) for mini in minis]
        # The first mini-batch meets the weights of the step's start anyway: its own forward gives `old`.
        for piece in (piece for mini in pieces[1:] for piece in mini):
            piece.old = self._logprobs(self.engine, piece)
            on_progress()
        meter = Meter(len(minis))
        for mini in pieces:
            self._optimizer_step(mini, meter, on_progress)
        self.steps += 1
        return meter.summary() | {
            "tokens": float(sum(len(rollout.token_ids) for rollout in rollouts)),
            "sampled_tokens": float(sum(sum(rollout.mask) for rollout in rollouts)),
        }

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Current weights under their Hugging Face names, gathered and copied, the output head
        named even when tied.

        vLLM keeps a stale head unless `lm_head.weight` is sent. Collective under ZeRO-3: exhaust the iterator
        on every rank.
        """
        for name, parameter in self.policy.named_weights():
            with distributed.gathered(parameter, self.training):
                tensor = parameter.detach().clone()
            yield name, tensor

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """Log-probabilities of tokens 1..n−1 of each sequence under the current weights, temperature 1."""
        lengths = [len(sequence) for sequence in sequences]
        scores: list[list[float]] = [[] for _ in sequences]
        for micro in batch.pack(range(len(sequences)), lengths, self.training.micro_batch_tokens):
            marks = [[0] + [1] * (lengths[index] - 1) for index in micro]
            packed = batch.lay([sequences[index] for index in micro], marks, self.device)
            chunks = self._chunks(len(packed.chosen))
            with torch.no_grad():
                logprobs = self.engine(packed, chunks)[0]
            parts = logprobs.cpu().split([lengths[index] - 1 for index in micro])
            for index, part in zip(micro, parts, strict=True):
                scores[index] = part.tolist()
        return scores

    def save(self, folder: Path) -> None:
        """Write weights, optimizer, schedule, step count and random state below `folder`. Collective."""
        state.save(self, folder)

    def capture(self) -> AbstractContextManager[Saves]:
        """Copy what `save` writes to host memory, until the next call. Collective.

        Returns:
            on rank 0 what writes it, all ranks' parts, in any thread; to be left when it need not be written any more.
        """
        return self._writers.share(state.take(self, self._to_host))

    def load(self, folder: Path) -> None:
        """Continue from what `save` wrote, bit for bit on CPU with as many ranks. Collective.

        Raises:
            StateError: it is missing, or was written by another ZeRO stage or algorithm.
            ReshardingError: another number of ranks wrote it, and it cannot be cut anew.
        """
        state.load(self, folder)

    def capture_policy(self) -> export.Policy:
        """The policy in host memory, to be written in any thread. Collective."""
        return export.capture(self)

    def export(self, folder: Path) -> None:
        """Write a plain Hugging Face folder (weights, config, tokenizer) that transformers and vLLM load."""
        self.capture_policy().export(folder)

    @cached_property
    def _writers(self) -> Writers:
        return Writers()

    @cached_property
    def _to_host(self) -> Callable[[dict[str, Any]], Any]:
        return host_copier(self.device)

    def _load_reference(self, model: ModelConfig) -> policy.Policy | None:
        """The frozen start for the KL term; without one it would only hold memory."""
        if not self.training.kl_coefficient:
            return None
        reference = policy.load(self.model_dir, model.dtype, False)
        return reference.requires_grad_(False).eval().to(self.device)

    def _pieces(
        self, mini: MiniBatch, rollouts: Sequence[Sequenced], advantages: Sequence[Credit]
    ) -> list[_Piece]:
        """This rank's micro-batches, with each token's share of the average over the whole mini-batch."""
        counts = [sum(rollout.mask) for rollout in rollouts]
        shares = token_weights([counts[index] for index in mini.rollouts], self.training.loss_aggregation)
        weights = dict(zip(mini.rollouts, shares, strict=True))
        return [
            self._piece(micro, self._rank_chunks(mini, number, counts), rollouts, advantages, weights)
            for number, micro in enumerate(mini.ranks[self.rank])
        ]

    def _piece(
        self,
        micro: Micro,
        chunks: int,
        rollouts: Sequence[Sequenced],
        advantages: Sequence[Credit],
        weights: dict[int, float],
    ) -> _Piece:
        mine = [rollouts[index] for index in micro]
        counts = [sum(rollout.mask) for rollout in mine]
        return _Piece(
            batch.lay_rollouts(mine, self.device),
            chunks,
            batch.spread([advantages[index] for index in micro], counts, self.device),
            batch.spread([weights[index] for index in micro], counts, self.device),
            batch.engine_logprobs(mine, self.device),
        )

    def _optimizer_step(self, pieces: list[_Piece], meter: Meter, on_progress: Callable[[], None]) -> None:
        meter.start(self.device)
        for piece in pieces:
            reference = self._logprobs(self.reference, piece) if self.reference else None
            new, entropy = self.engine(piece.packed, piece.chunks)
            old = new.detach() if piece.old is None else piece.old
            tokens = Tokens(piece.advantages, piece.weights, old, piece.engine, reference)
            loss, terms = policy_loss(new, entropy, tokens, self.training)
            self._optimized.backward(loss)
            meter.add(loss.detach(), entropy.detach(), tokens, terms)
            on_progress()
        meter.stepped(*self._optimized.step(meter.close()))

    @torch.no_grad()
    def _logprobs(self, module: torch.nn.Module, piece: _Piece) -> torch.Tensor:
        return module(piece.packed, piece.chunks)[0]

    def _rank_chunks(self, mini: MiniBatch, number: int, counts: Sequence[int]) -> int:
        """Pieces for the logits of every rank's `number`-th micro-batch: equal, since ZeRO-3 gathers per piece."""
        return self._chunks(max(sum(counts[index] for index in rank[number]) for rank in mini.ranks))

    def _chunks(self, tokens: int) -> int:
        return policy.chunks_for(tokens, self.policy.model.config.vocab_size)
