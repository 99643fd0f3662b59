"""What lies beside a checkpoint: the log of its training and a model card with its figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rods.warmstart.evaluation import Evaluation

_CARD = """\
# Tiny policy

A {parameters:,}-parameter Qwen3-architecture model with a {vocabulary}-token tokenizer, made by `rods warmstart` \
from nothing but scripted conversations of one and two requests on BFCL's simulators of a file system, a ticket \
desk and a messenger. It knows the tools by heart (names, but no documentation in its prompt) and answers with Hermes \
tool calls. It is a start for reinforcement learning on scripted tasks and good for nothing else.

Recipe: {tokens:,} tokens of solved episodes; seed {seed}; {threads} thread(s), {minutes:.0f} minutes on the wall \
here. `training_log.json` has the losses. Weights are float16; run them in float32.

Progress reward on {tasks} fresh scripted tasks of one to four requests ({plays} sampled episodes each, one greedy):

| | temperature 1 | greedy |
|---|---|---|
{rows}

Of these tasks {zones} at temperature 1.
"""


@dataclass(frozen=True)
class TrainingLog:
    """How a checkpoint was made.

    Attributes:
        tokens: budget of the training.
        seed: of everything random.
        threads: torch's CPU threads.
        parameters: of the model, tied ones once.
        vocabulary: tokens of the tokenizer.
        records: progress as `recipe.run` reported it.
    """

    tokens: int
    seed: int
    threads: int
    parameters: int
    vocabulary: int
    records: Sequence[Mapping[str, Any]]

    @property
    def seconds(self) -> float:
        """Wall time of the training: its last report's."""
        return float(self.records[-1]["seconds"]) if self.records else 0.0


def write(folder: Path, log: TrainingLog, evaluation: Evaluation) -> None:
    """Write training_log.json and README.md into a checkpoint's folder."""
    content = {**asdict(log), "evaluation": asdict(evaluation)}
    (folder / "training_log.json").write_text(json.dumps(content, indent=1) + "\n")
    (folder / "README.md").write_text(_text(log, evaluation))


def _text(log: TrainingLog, evaluation: Evaluation) -> str:
    return _CARD.format(
        **{key: value for key, value in asdict(log).items() if key != "records"},
        minutes=log.seconds / 60,
        tasks=evaluation.tasks,
        plays=evaluation.plays,
        rows="\n".join(_rows(evaluation)),
        zones=", ".join(f"{share:.0%} are {name}" for name, share in evaluation.zones.items()),
    )


def _rows(evaluation: Evaluation) -> Iterator[str]:
    sampled, greedy = evaluation.sampled, evaluation.greedy
    for table, rows in sampled.tables.items():
        yield f"| *by {table}* | | |"
        for name, reward in rows.items():
            yield f"| {name} | {reward:.2f} | {greedy.tables[table][name]:.2f} |"
    yield f"| **all** | **{sampled.reward:.3f}** | **{greedy.reward:.3f}** |"
