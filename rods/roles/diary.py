"""What the training role is at, in sentences: one line a step, an evaluation and a checkpoint, for `rods logs`.

They go to standard error, which lies in the attempt's folder. A full disk takes a line away, never the role.
"""

from __future__ import annotations

import time
from typing import Any

from launchers.resources import TRAIN
from rods.exchange.pressure import say
from rods.watch.steps import total_text

# The other phases come at every step, whose line says all.
_PHASES = {
    "loading": "loading the tasks, the model and the engine",
    "starting": "model and engine are loaded",
    "evaluation": "evaluating the policy",
    "barrier": "waiting for the answers of synthesis",
    "checkpoint": "writing a checkpoint",
}
# Of a step's metrics, what tells that something goes wrong.
_FIGURES = (
    ("reward", "reward_mean", ".3f"),
    ("zero variance", "zero_variance", ".0%"),
    ("entropy", "entropy", ".3f"),
    ("kl", "kl", ".4f"),
    ("clipped", "clip_fraction", ".1%"),
    ("engine gap", "logprob_gap", ".1e"),
    ("tokens/s", "generated_tokens_per_second", ".0f"),
)


class Diary:
    """Writes the lines of one process."""

    def __init__(self) -> None:
        self._step: int | None = None

    def phase(self, name: str, step: int | None) -> None:
        """A phase begins; `step`: that it belongs to, where there is one."""
        self._step = self._step if step is None else step
        if name in _PHASES:
            self.write(_PHASES[name] + ("" if step is None else f" (step {step})"))

    def record(self, record: dict[str, Any]) -> None:
        """A line of the metrics: of a step, an epoch or an evaluation."""
        self.write(_sentence(record))

    def end(self, finished: bool) -> None:
        """The role ends by itself."""
        after = "" if self._step is None else f" after step {self._step}"
        self.write(f"finished{after}" if finished else f"stopped{after}, as asked")

    def write(self, sentence: str) -> None:
        """One line with the time and the role before it."""
        say(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {TRAIN}: {sentence}")


def _sentence(record: dict[str, Any]) -> str:
    match record.get("event"):
        case "evaluation":
            result = f"{record['mean']:.3f} over {record['count']} tasks"
            split = "held out" if record["split"] == "heldout" else record["split"]
            return f"{split}, {record['mode']}: {result} (step {record['step']})"
        case "epoch":
            return f"epoch {record['epoch']} is over (step {record['step']})"
        case _:
            return _step(record)


def _step(record: dict[str, Any]) -> str:
    total = total_text(record["step"], record["steps_total"], record.get("steps_estimated", False))
    parts = [f"step {record['step']} of {total}", f"epoch {record['epoch']}"]
    parts += [f"{name} {record[key]:{form}}" for name, key, form in _FIGURES if key in record]
    return ", ".join([*parts, f"{record['seconds']:.1f} s"])
