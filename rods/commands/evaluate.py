"""`rods evaluate`: score a policy."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from rods.commands.common import LATEST, RUNS, UsageError, begins_a_run, find_run, flag


def evaluate(
    policy: Annotated[
        str,
        typer.Argument(
            metavar="POLICY",
            help="A run (its path, its name under ./runs or its beginning, 'latest'), a checkpoint's folder, a Hugging "
            "Face folder or name, or shipped/tiny.",
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="Of model., rollout., tasks., simulation.protocol, simulation.cassettes, seed: rollout.engine=vllm …",
        ),
    ] = None,
    suite: Annotated[str, typer.Option(help="bfcl_v3 or scripted.")] = "bfcl_v3",
    split: Annotated[str, typer.Option(help="heldout, validation or train.")] = "heldout",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the result; default: in evaluations/ of the run, or here. Begun before, it is gone on "
            "with."
        ),
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="result.json of another evaluation, to compare with.")
    ] = None,
    as_json: Annotated[bool, flag("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Score a policy with the official checker's verdicts, every trajectory kept; killed, the same command goes on.

    Example: rods evaluate latest --split validation --against evaluations/base/result.json
    """
    from rods.evaluation import result
    from rods.evaluation.show import table
    from rods.model_path import ModelNotFoundError
    from rods.roles.evaluate import Audience, Order, evaluate, prepare

    other = result.read(against) if against else None
    named = str(find_run(policy)) if policy == LATEST or begins_a_run(policy) else policy
    order = Order(named, suite, split, out, tuple(overrides or ()))
    try:
        folder, found = evaluate(prepare(order), Audience(_tell, _say))
    except ModelNotFoundError as error:
        if Path(named).exists():
            raise
        raise UsageError(
            f"POLICY = {policy}: no run under ./{RUNS}, no folder, no cached model. {error}"
        ) from error
    except KeyboardInterrupt:
        typer.echo("stopped; what was played is kept, the same command goes on", err=True)
        raise typer.Exit(130) from None
    comparison = None if other is None else result.compare(found, other)
    if as_json:
        shown: dict[str, Any] = found if comparison is None else {**found, "against": asdict(comparison)}
        typer.echo(json.dumps(shown, indent=1))
    else:
        typer.echo(table(found, comparison, folder))


def _say(sentence: str) -> None:
    typer.echo(sentence, err=True)


def _tell(done: int, count: int) -> None:
    """One line, written over on a terminal; elsewhere one a tenth."""
    terminal = sys.stderr.isatty()
    if terminal or done == count or done % max(1, count // 10) == 0:
        begin = "\r" if terminal else ""
        end = "" if terminal and done < count else "\n"
        sys.stderr.write(f"{begin}{done} of {count} tasks{end}")
        sys.stderr.flush()
