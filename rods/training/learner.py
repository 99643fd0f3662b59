"""The gradient: a policy inside a DeepSpeed engine that takes rollouts and gives weights.

One `update` is one training step: its rollouts are shuffled into mini-batches (one optimizer step each),
shared over ranks and cut into micro-batches. All averages are taken over the whole mini-batch, so the result
does not depend on how it was cut (paper, "Training"; facts on GRPO loops: global token counts).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.optim.lr_scheduler import LambdaLR

from rods.config import ModelConfig, TrainingConfig
from rods.errors import RodsError
from rods.training import batch, distributed, export, policy, state
from rods.training.batch import Micro, MiniBatch, Padded, Sequenced
from rods.training.loss import Tokens, policy_loss, token_weights
from rods.training.meter import Meter


class DivergedError(RodsError):
    """A loss or gradient that is not finite: continue from a checkpoint."""


class Learner:
    """The policy being trained.

    Under several ranks every rank holds a Learner and calls the same methods with the same arguments; the
    learner takes its share.

    Args:
        model_dir: the Hugging Face folder of the start; also the KL reference, whatever is loaded later.
        model: dtype of the weights.
        training: optimizer, loss and ZeRO settings.
        total_steps: planned calls of `update`, for the warm-up.
        seed: of the order in which rollouts fall into mini-batches.

    Raises:
        DistributedError, UnsupportedModelError: see their modules.
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
        if self.device.type != "cpu":
            self.policy.model.gradient_checkpointing_enable({"use_reentrant": False})
        self.reference = self._load_reference(model)
        self.engine = self._start_engine(model, total_steps * training.mini_batches)

    def update(
        self,
        rollouts: Sequence[Sequenced],
        advantages: Sequence[float],
        on_progress: Callable[[], None] = lambda: None,
    ) -> dict[str, float]:
        """Train on one step's rollouts.

        Args:
            rollouts: all of the step's, on every rank.
            advantages: one per rollout.
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
        weights = [self._weights(mini, rollouts) for mini in minis]
        # The first mini-batch meets the weights of the step's start anyway: its own forward gives `old`.
        old: list[list[torch.Tensor | None]] = [[None] * len(minis[0].ranks[self.rank])]
        old += [self._old_logprobs(mini, rollouts, on_progress) for mini in minis[1:]]
        meter = Meter(len(minis))
        for mini, share, before in zip(minis, weights, old, strict=True):
            self._optimizer_step(mini, rollouts, advantages, share, before, meter, on_progress)
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
            padded = batch.pad([sequences[index] for index in micro], marks, self.device)
            logprobs = self._logprobs(self.engine, padded, self._chunks(int(padded.mask.sum())))
            parts = logprobs.cpu().split([lengths[index] - 1 for index in micro])
            for index, part in zip(micro, parts, strict=True):
                scores[index] = part.tolist()
        return scores

    def save(self, folder: Path) -> None:
        """Write weights, optimizer, schedule, step count and random state below `folder`. Collective."""
        state.save(self, folder)

    def load(self, folder: Path) -> None:
        """Continue from what `save` wrote, bit for bit on CPU. Collective.

        Raises:
            StateError: it is missing, or was written by another world size, ZeRO stage or DeepSpeed.
        """
        state.load(self, folder)

    def export(self, folder: Path) -> None:
        """Write a plain Hugging Face folder (weights, config, tokenizer) that transformers and vLLM load."""
        export.export(self, folder)

    def _load_reference(self, model: ModelConfig) -> policy.Policy | None:
        """The frozen start for the KL term; without one it would only hold memory."""
        if not self.training.kl_coefficient:
            return None
        reference = policy.load(self.model_dir, model.dtype, False)
        return reference.requires_grad_(False).eval().to(self.device)

    def _start_engine(self, model: ModelConfig, optimizer_steps: int) -> Any:
        training = self.training
        optimizer = torch.optim.AdamW(
            self.policy.parameters(),
            lr=training.learning_rate,
            betas=training.adam_betas,
            weight_decay=training.weight_decay,
        )
        warmup = math.ceil(training.warmup_fraction * optimizer_steps)
        schedule = LambdaLR(optimizer, lambda done: min(1.0, (done + 1) / (warmup + 1)))
        engine = distributed.initialize(self.policy, optimizer, schedule, training, model.dtype)
        self._deepspeed_clips = distributed.reports_norm(training, model.dtype)
        if not self._deepspeed_clips:
            optimizer.register_step_pre_hook(self._clip)
        engine.train()
        return engine

    def _clip(self, *_: Any) -> None:
        """Runs inside the optimizer's step, when gradients are summed over ranks."""
        self._norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.training.gradient_clip)

    def _optimizer_step(
        self,
        mini: MiniBatch,
        rollouts: Sequence[Sequenced],
        advantages: Sequence[float],
        weights: dict[int, float],
        old: list[torch.Tensor | None],
        meter: Meter,
        on_progress: Callable[[], None],
    ) -> None:
        meter.start(self.device)
        for number, micro in enumerate(mini.ranks[self.rank]):
            padded, chunks = self._padded(micro, rollouts), self._micro_chunks(mini, number, rollouts)
            new, entropy = self.engine(padded.ids, padded.mask, chunks)
            before = old[number]
            reference = self._logprobs(self.reference, padded, chunks) if self.reference else None
            tokens = Tokens(
                self._spread(micro, rollouts, [advantages[index] for index in micro]),
                self._spread(micro, rollouts, [weights[index] for index in micro]),
                new.detach() if before is None else before,
                self._engine_logprobs(micro, rollouts),
                reference,
            )
            loss, terms = policy_loss(new, entropy, tokens, self.training)
            # DeepSpeed averages gradients over ranks; the weights are shares of a sum.
            self.engine.backward(loss * self.world_size)
            meter.add(loss.detach(), entropy.detach(), tokens, terms)
            on_progress()
        self._refuse_divergence("loss", meter.close())
        rate = self.engine.get_lr()[0]
        self.engine.step()
        norm = float(self.engine.get_global_grad_norm() if self._deepspeed_clips else self._norm)
        self._refuse_divergence("gradient norm", norm)
        meter.stepped(norm, rate)

    def _refuse_divergence(self, what: str, value: float) -> None:
        if not math.isfinite(value):
            raise DivergedError(
                f"training step {self.steps}: expected a finite {what}, found {value}; the weights are spoilt: "
                "lower training.learning_rate and resume from the last checkpoint"
            )

    def _weights(self, mini: MiniBatch, rollouts: Sequence[Sequenced]) -> dict[int, float]:
        counts = [sum(rollouts[index].mask) for index in mini.rollouts]
        shares = token_weights(counts, self.training.loss_aggregation)
        return dict(zip(mini.rollouts, shares, strict=True))

    def _old_logprobs(
        self, mini: MiniBatch, rollouts: Sequence[Sequenced], on_progress: Callable[[], None]
    ) -> list[torch.Tensor | None]:
        old: list[torch.Tensor | None] = []
        for number, micro in enumerate(mini.ranks[self.rank]):
            padded, chunks = self._padded(micro, rollouts), self._micro_chunks(mini, number, rollouts)
            old.append(self._logprobs(self.engine, padded, chunks))
            on_progress()
        return old

    @torch.no_grad()
    def _logprobs(self, module: torch.nn.Module, padded: Padded, chunks: int) -> torch.Tensor:
        return module(padded.ids, padded.mask, chunks)[0]

    def _padded(self, micro: Micro, rollouts: Sequence[Sequenced]) -> Padded:
        return batch.pad(
            [rollouts[index].token_ids for index in micro],
            [rollouts[index].mask for index in micro],
            self.device,
        )

    def _micro_chunks(self, mini: MiniBatch, number: int, rollouts: Sequence[Sequenced]) -> int:
        """Pieces for the logits of every rank's `number`-th micro-batch: equal, since ZeRO-3 gathers per piece."""
        return self._chunks(max(sum(sum(rollouts[i].mask) for i in rank[number]) for rank in mini.ranks))

    def _chunks(self, tokens: int) -> int:
        return policy.chunks_for(tokens, self.policy.model.config.vocab_size)

    def _spread(self, micro: Micro, rollouts: Sequence[Sequenced], values: Sequence[float]) -> torch.Tensor:
        """One value per rollout → one per sampled token."""
        counts = torch.tensor([sum(rollouts[index].mask) for index in micro], dtype=torch.long)
        return torch.tensor(values, dtype=torch.float32).repeat_interleave(counts).to(self.device)

    def _engine_logprobs(self, micro: Micro, rollouts: Sequence[Sequenced]) -> torch.Tensor:
        flat = [
            logprob
            for index in micro
            for logprob, sampled in zip(rollouts[index].logprobs, rollouts[index].mask, strict=True)
            if sampled
        ]
        return torch.tensor(flat, dtype=torch.float32, device=self.device)
