"""One side of the figure `update`, in a process of its own: `python -m benchmarks.training_update_sides`.

Both sides train the shipped policy on the same rollouts with the same objective, in fp32 on the same number of
threads, an update at a time. The first update warms up; each of the others is timed. The answer is one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from rods.config import ModelConfig, TrainingConfig
from rods.rollout.episode import Rollout

Groups = list[list[Rollout]]


@dataclass
class Answer:
    """What a side measured.

    Attributes:
        wall_s: per timed update.
        cpu_s: per timed update, over all threads.
        grad_norm: of the first update: equal on both sides when they train the same.
        peak_mib: resident memory at its height, above what the process held before the model was loaded.
    """

    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    grad_norm: float = 0.0
    peak_mib: float = 0.0


class Clock:
    """Times updates; the first one only warms up."""

    def __init__(self, answer: Answer) -> None:
        self._answer, self._warm = answer, False

    def start(self) -> None:
        """An update begins."""
        self._started = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        """It ended."""
        wall, cpu = self._started
        if self._warm:
            self._answer.wall_s.append(time.perf_counter() - wall)
            self._answer.cpu_s.append(time.process_time() - cpu)
        self._warm = True


def ours(groups: Groups, model_dir: Path, training: TrainingConfig, updates: int) -> Answer:
    """Our learner, advantages included."""
    from rods.training import distributed, objective
    from rods.training.learner import Learner

    distributed.start()  # imports DeepSpeed, as the other side has imported its own
    answer, before = Answer(), _resident("VmRSS")
    learner = Learner(model_dir, ModelConfig(), training, updates + 1, seed=0)
    clock = Clock(answer)
    for number in range(updates + 1):
        clock.start()
        told = objective.update(learner, groups, lambda: None)
        clock.stop()
        answer.grad_norm = answer.grad_norm if number else told["grad_norm"]
    answer.peak_mib = _resident("VmHWM") - before
    return answer


def trl(groups: Groups, model_dir: Path, training: TrainingConfig, updates: int, rows: int) -> Answer:
    """TRL's GRPOTrainer; its own `rollout_func` hands it the stored rollouts, rewards and masks."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    from datasets import Dataset
    from transformers import AutoTokenizer, TrainerCallback
    from trl import GRPOTrainer

    answer, before = Answer(), _resident("VmRSS")
    clock = Clock(answer)

    class Watch(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % training.mini_batches == 0:
                clock.start()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % training.mini_batches == 0:
                clock.stop()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if "grad_norm" in (logs or {}) and state.global_step == 1:
                answer.grad_norm = logs["grad_norm"]

    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    trainer = GRPOTrainer(
        model=str(model_dir),
        reward_funcs=lambda prompts, completions, earned, **_: earned,
        args=_trl_config(training, len(groups), updates, rows),
        train_dataset=Dataset.from_dict({"prompt": [str(place) for place in range(len(groups))]}),
        processing_class=tokenizer,
        rollout_func=replay(groups),
        callbacks=[Watch()],
    )
    trainer.train()
    answer.peak_mib = _resident("VmHWM") - before
    return answer


def _trl_config(training: TrainingConfig, groups: int, updates: int, rows: int) -> Any:
    from trl import GRPOConfig

    steps = groups * training.group_size // rows
    return GRPOConfig(
        output_dir=tempfile.mkdtemp(),
        use_cpu=True,
        bf16=False,
        seed=0,
        model_init_kwargs={"dtype": "float32"},
        gradient_checkpointing=False,
        per_device_train_batch_size=rows,
        gradient_accumulation_steps=steps // training.mini_batches,
        steps_per_generation=steps,
        num_generations=training.group_size,
        max_steps=(updates + 1) * training.mini_batches,
        learning_rate=training.learning_rate,
        lr_scheduler_type="constant",
        weight_decay=training.weight_decay,
        adam_beta1=training.adam_betas[0],
        adam_beta2=training.adam_betas[1],
        max_grad_norm=training.gradient_clip,
        loss_type="dapo",  # TRL's name for the token mean over the whole batch
        beta=training.kl_coefficient,
        epsilon=training.clip_low,
        epsilon_high=training.clip_high,
        delta=training.dual_clip,
        temperature=1.0,
        report_to=[],
        logging_steps=1,
        save_strategy="no",
        disable_tqdm=True,
    )


def replay(groups: Groups) -> Callable[[list[str], Any], dict[str, list[Any]]]:
    """A `rollout_func` for TRL: stored rollouts instead of new ones.

    A prompt is a group's number, and comes once for each of the group's rollouts; what the policy read before its
    first message is TRL's prompt, all that follows its completion.
    """

    def told_by(prompts: list[str], _: Any) -> dict[str, list[Any]]:
        seen: dict[str, int] = defaultdict(int)
        told: dict[str, list[Any]] = defaultdict(list)
        for prompt in prompts:
            rollout = groups[int(prompt)][seen[prompt] % len(groups[0])]
            seen[prompt] += 1
            start = rollout.mask.index(1)
            told["prompt_ids"].append(list(rollout.token_ids[:start]))
            told["completion_ids"].append(list(rollout.token_ids[start:]))
            told["env_mask"].append(list(rollout.mask[start:]))
            told["logprobs"].append(list(rollout.logprobs[start:]))
            told["earned"].append(rollout.reward)
        return dict(told)

    return told_by


def _resident(name: str) -> float:
    """A size from /proc/self/status in MiB."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None, f"no {name} in /proc/self/status: not Linux?"
    return int(found.group(1)) / 1024


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training_update_sides", description=__doc__)
    parser.add_argument("side", choices=["ours", "trl"])
    parser.add_argument("rollouts", type=Path, help="pickled (model folder, TrainingConfig, groups)")
    parser.add_argument("--updates", type=int, default=3)
    parser.add_argument("--mini-batches", type=int, default=1)
    parser.add_argument("--rows", type=int, default=16, help="TRL's per_device_train_batch_size")
    parser.add_argument("--threads", type=int, default=1)
    chosen = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(chosen.threads)
    model_dir, training, groups = pickle.loads(chosen.rollouts.read_bytes())
    training = replace(training, mini_batches=chosen.mini_batches, threads=chosen.threads)
    assert all(any(rollout.mask) for rollout in chain.from_iterable(groups))
    if chosen.side == "ours":
        answer = ours(groups, model_dir, training, chosen.updates)
    else:
        answer = trl(groups, model_dir, training, chosen.updates, chosen.rows)
    print(json.dumps(asdict(answer)))


if __name__ == "__main__":
    main()
