"""`rods warmstart`: make the shipped tiny policy again."""

from __future__ import annotations

import typer

# The options are those of the command behind it, which imports torch.
CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def warmstart(context: typer.Context) -> None:
    """Train the shipped tiny policy from scratch (about 14 minutes on one core); its own --help has the options."""
    from rods.warmstart.command import warmstart as command

    standalone = typer.Typer(name="rods warmstart", add_completion=False, pretty_exceptions_enable=False)
    standalone.command()(command)
    standalone(args=context.args, prog_name="rods warmstart")
