"""What lies beside a checkpoint: the log of its training and a model card with its figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rods.warmstart.evaluation import Evaluation

_CARD = """\
# Tiny policy

A {parameters:,}-parameter Qwen3-architecture model with a {vocabulary}-token tokenizer, made by `rods warmstart` \
from nothing but scripted conversations on BFCL's file-system simulator. It knows the tools by heart (no \
documentation in its prompt) and answers with Hermes tool calls. It is a start for reinforcement learning on \
scripted tasks and good for nothing else.

Recipe: stage 1, {stage1_tokens:,} tokens of solved episodes; stage 2, {stage2_tokens:,} tokens of \
demonstrations of mixed quality; seed {seed}; {threads} thread(s), {minutes:.0f} minutes on the wall here. \
`training_log.json` has the losses. Weights are float16; run them in float32.

Progress reward on {tasks} fresh scripted tasks ({plays} sampled episodes each, one greedy):

| kind | temperature 1 | greedy |
|---|---|---|
{rows}

Of these tasks {zones} at temperature 1.
"""


@dataclass(frozen=True)
class TrainingLog:
    """How a checkpoint was made.

    Attributes:
        stage1_tokens: budget of stage 1.
        stage2_tokens: budget of stage 2.
        seed: of everything random.
        threads: torch's CPU threads.
        parameters: of the model, tied ones once.
        vocabulary: tokens of the tokenizer.
        records: progress as `recipe.run` reported it.
    """

    stage1_tokens: int
    stage2_tokens: int
    seed: int
    threads: int
    parameters: int
    vocabulary: int
    records: Sequence[Mapping[str, Any]]

    @property
    def seconds(self) -> float:
        """Wall time of all stages: the last report of each, summed."""
        last = {record["stage"]: float(record["seconds"]) for record in self.records}
        return sum(last.values())


def write(folder: Path, log: TrainingLog, evaluation: Evaluation) -> None:
    """Write training_log.json and README.md into a checkpoint's folder."""
    content = {**asdict(log), "evaluation": asdict(evaluation)}
    (folder / "training_log.json").write_text(json.dumps(content, indent=1) + "\n")
    (folder / "README.md").write_text(_text(log, evaluation))


def _text(log: TrainingLog, evaluation: Evaluation) -> str:
    sampled, greedy = evaluation.sampled, evaluation.greedy
    rows = [
        f"| {kind} | {sampled.by_kind[kind]:.2f} | {greedy.by_kind[kind]:.2f} |" for kind in sampled.by_kind
    ]
    rows.append(f"| **all** | **{sampled.reward:.3f}** | **{greedy.reward:.3f}** |")
    return _CARD.format(
        **{key: value for key, value in asdict(log).items() if key != "records"},
        minutes=log.seconds / 60,
        tasks=evaluation.tasks,
        plays=evaluation.plays,
        rows="\n".join(rows),
        zones=", ".join(f"{share:.0%} are {name}" for name, share in evaluation.zones.items()),
    )
