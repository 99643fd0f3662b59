"""`rods doctor`: may a run start here?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rods.commands.common import UsageError, flag


def doctor(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="With --cluster, as for launch.py; default: +experiment=rods_qwen4b.",
        ),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Probe this directory; default: ./runs and the installation.")
    ] = None,
    cluster: Annotated[
        bool, flag("--cluster", help="Look at Slurm, for what the configuration asks of it.")
    ] = False,
    probe: Annotated[
        bool, flag("--probe", help="With --cluster: run one task on a compute node, by srun.")
    ] = False,
    as_json: Annotated[bool, flag("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Probe a directory's file system and the installation, or a cluster; exit 1 when a run would not be safe there.

    With --cluster: Slurm and its controller, partition, nodes and GPUs for both roles, preemption, signals, requeue,
    accounting and energy, accounts, weights, environment, W&B. With --probe too, one task of at most five minutes on
    a compute node looks for the runs folder, the environment, GPUs, NCCL and weights there.

    Examples:

    - `rods doctor --dir /lustre/me/runs`
    - `rods doctor --cluster`
    - `rods doctor --cluster +experiment=rods_qwen4b cluster=slurm_h100 cluster.partition=gpu --probe`
    """
    from rods.doctor import command

    if cluster:
        raise typer.Exit(command.doctor_cluster(directory, overrides or [], probe, as_json))
    if probe or overrides:
        raise UsageError("rods doctor: --probe and KEY=VALUE go with --cluster")
    raise typer.Exit(command.doctor(directory, as_json))
