"""Multiruns for tests: points composed in this process, and launch.py of a copied source tree with stub roles."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from launch_stubs import ROOT, source_with

from launchers import sweep
from launchers.sweep import Point, Refused

CONF = ROOT / "conf"


def points(*overrides: str, conf: Path = CONF) -> list[Point | Refused]:
    """What a multirun of `overrides` consists of."""
    with initialize_config_dir(version_base="1.3", config_dir=str(conf)):
        loader = GlobalHydra.instance().config_loader()
        master = loader.load_configuration("config", list(overrides), RunMode.MULTIRUN)
        return sweep.points(loader, master, list(master.hydra.overrides.task))


def conf_with(tmp_path: Path, **experiments: str) -> Path:
    """A copy of conf/ with further experiments."""
    conf = tmp_path / "conf"
    shutil.copytree(CONF, conf)
    for name, text in experiments.items():
        (conf / "experiment" / f"{name}.yaml").write_text(
            f"# @package _global_\n{text}\nexperiment: {name}\n"
        )
    return conf


def source_tree(tmp_path: Path, train: str, synthesis: str) -> Path:
    """A source tree with stub roles that launch.py can be started from; returns its launch.py."""
    source = source_with(tmp_path, train, synthesis)
    for folder in ("conf", "hydra_plugins"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "launch.py", source)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "model" / "model.safetensors").touch()
    return source / "launch.py"


def command(launch: Path, *arguments: str) -> list[str]:
    """A multirun of the tiny experiment with a policy that nothing loads."""
    return [
        sys.executable,
        str(launch),
        "+experiment=rods_tiny",
        "model.path=model",
        "tracking.wandb=disabled",
        *arguments,
        "-m",
    ]


def launched(launch: Path, *arguments: str, path: str = "") -> subprocess.CompletedProcess[str]:
    """Run `command` to its end, beside the source tree. `path`: searched for programs before all else."""
    return subprocess.run(
        command(launch, *arguments),
        cwd=launch.parents[1],
        env=os.environ | {"PATH": f"{path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def runs_of(launch: Path) -> list[Path]:
    """The run directories of a launched sweep, by name."""
    return sorted((launch.parents[1] / "runs").glob("*/"))
