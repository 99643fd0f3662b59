"""`rods doctor`: probe, print, and say by the exit status whether a run may start here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rods.config import Config, ConfigError, ExchangeConfig, LaunchConfig
from rods.doctor import examine, show
from rods.doctor.finding import Finding, is_fit
from rods.doctor.stack import stack

CLUSTER_DEFAULT = ("+experiment=rods_qwen4b",)


def doctor(directory: Path | None, as_json: bool) -> int:
    """Examine `directory`; without one, the configured runs directory and the installation.

    Returns:
        0, or 1 when the directory (or the installation) is unfit for a run.
    """
    path = directory or Path(LaunchConfig().runs_dir)
    findings = examine.directory(path, ExchangeConfig())
    installed = [] if directory else stack()
    if as_json:
        print(json.dumps(show.to_json(str(path), findings, installed), indent=1, ensure_ascii=False))
    else:
        console = Console()
        show.table(f"directory {path}", findings, console)
        if installed:
            show.table("installation", installed, console)
    return 0 if is_fit([*findings, *installed]) else 1


def doctor_cluster(directory: Path | None, overrides: Sequence[str], with_probe: bool, as_json: bool) -> int:
    """Examine the cluster for what a launch with `overrides` would ask of it.

    Args:
        directory: where the runs would lie; default: the configured one.
        overrides: as for launch.py; none: `CLUSTER_DEFAULT`.
        with_probe: run one task on a compute node too.

    Returns:
        0, or 1 when the cluster is unfit for that.

    Raises:
        ConfigError: a configuration that cannot run, or one that needs no cluster.
    """
    from rods.config.compose import compose  # Hydra

    config = compose(list(overrides) or list(CLUSTER_DEFAULT))
    if config.cluster.kind != "slurm":
        raise ConfigError(
            f"cluster.kind = {config.cluster.kind}: expected a profile for Slurm, as in `rods doctor --cluster "
            f"{' '.join(overrides)} cluster=slurm_a100`"
        )
    tables = _cluster_tables(config, directory or Path(config.launch.runs_dir), with_probe)
    findings = [finding for table in tables.values() for finding in table]
    if as_json:
        body = {name: [finding.to_json() for finding in table] for name, table in tables.items()}
        print(json.dumps({"fit": is_fit(findings), **body}, indent=1, ensure_ascii=False))
    else:
        for name, table in tables.items():
            show.table(name, table, Console())
    return 0 if is_fit(findings) else 1


def _cluster_tables(config: Config, runs: Path, with_probe: bool) -> dict[str, list[Finding]]:
    from launchers.scheduler import ask
    from rods.doctor import cluster, files, node

    controller = cluster.examine(config, ask)
    if not is_fit(controller[:2]):
        return {"cluster": controller, "files": files.examine(config)}
    seen = node.probe(config, runs) if with_probe else [node.announce(config, runs.absolute())]
    return {"cluster": controller, "files": files.examine(config), "compute node": seen}
