"""`rods estimate`."""

from __future__ import annotations

from typing import Annotated

import typer

from rods.commands.common import flag


def estimate(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="As for launch.py: +experiment=rods_qwen4b …"),
    ] = None,
    gpu: Annotated[
        str, typer.Option(help="a100, a100-40g, h100 or h200; default: what cluster.gpu_type says.")
    ] = "",
    tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Mean tokens of an episode. Default: a third of model.max_length."),
    ] = None,
    sampled: Annotated[
        int | None, typer.Option(min=1, help="Of these, tokens of the policy. Default: a third.")
    ] = None,
    as_json: Annotated[bool, flag("--json", help="Print the estimate as JSON.")] = False,
) -> None:
    """Memory of a GPU, time of a step and GPU-hours of a run, before it is started; exit 1 when it does not fit.

    Example: rods estimate +experiment=rods_qwen4b --tokens 6000 --sampled 2000
    """
    from rods.config.compose import compose
    from rods.estimate import command

    config = compose(overrides or ())
    if not overrides:
        typer.echo(
            "no experiment was named, so this is conf/config.yaml as it stands: +experiment=NAME", err=True
        )
    found = command.estimate(config, gpu, tokens, sampled)
    command.show(found, config, as_json)
    raise typer.Exit(0 if found.fits else 1)
