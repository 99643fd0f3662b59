"""`rods warmstart`: make the tiny policy again, measure it, and say what it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from rods.warmstart import card
from rods.warmstart.evaluation import Evaluation, evaluate
from rods.warmstart.recipe import TOKENS, run


def warmstart(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder of the checkpoint; files in it are replaced.")
    ],
    tokens: Annotated[int, typer.Option(help="To train on.")] = TOKENS,
    seed: Annotated[int, typer.Option(help="Of everything random.")] = 0,
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
) -> None:
    """Train the tiny policy from scratch into the folder OUT, evaluate it and write its card.

    Progress goes to standard output. Example: rods warmstart data/start
    """
    records: list[dict[str, Any]] = []

    def report(record: dict[str, Any]) -> None:
        records.append(record)
        print(
            f"step {record['step']}, {record['tokens']:,} tokens, "
            f"loss {record['loss']:.3f}, {record['seconds']:.0f} s",
            flush=True,
        )

    parameters, vocabulary = run(out, tokens, seed, threads, report)
    log = card.TrainingLog(tokens, seed, threads, parameters, vocabulary, tuple(records))
    print(f"evaluating {out} …", flush=True)
    evaluation = evaluate(out)
    card.write(out, log, evaluation)
    print(_summary(out, evaluation), flush=True)


def _summary(out: Path, evaluation: Evaluation) -> str:
    return (
        f"reward {evaluation.sampled.reward:.3f} at temperature 1, {evaluation.greedy.reward:.3f} greedy, "
        f"on {evaluation.tasks} tasks\n"
        f"zones: {json.dumps(evaluation.zones)}\n"
        f"checkpoint and card: {out}"
    )
