"""The batch texts of each profile, as agreed.

RENEW_GOLDEN=1 writes the golden files anew; read the difference before it is committed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from launchers.batches import batches
from launchers.texts import batch_text, file_name
from rods.config import (
    Config,
    from_mapping,
)

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
RUN = Path("/lustre/runs/golden-0a1b2c3d-x1y2z3")
SITE = ("cluster.partition=gpu", "cluster.account=lab", "cluster.setup=[module load cuda]")
CONTAINERS = {
    "apptainer": ("cluster.container.image=/lustre/rods.sif", "cluster.container.mounts=[/weights]"),
    "pyxis": ("cluster.container.image=/lustre/rods.sqsh", "cluster.container.mounts=[/weights:/models:ro]"),
}
CASES: dict[str, tuple[str, ...]] = {
    f"{profile}.{kind}": (f"cluster={profile}", f"cluster.coschedule={kind}")
    for profile, kind in product(("slurm_a100", "slurm_h100", "slurm_test"), ("het", "single", "pair"))
}
CASES |= {
    f"slurm_a100.{name}": ("cluster=slurm_a100", f"cluster.container.kind={name}", *more)
    for name, more in CONTAINERS.items()
}
CASES["slurm_a100.static"] = ("cluster=slurm_a100", "synthesis.enabled=false")
CASES["slurm_a100.chain"] = ("cluster=slurm_a100", "launch.chain=3")


def composed(*overrides: str) -> Config:
    with initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "conf")):
        return from_mapping(compose("config", overrides=["+experiment=rods_tiny", *overrides]))


@pytest.mark.parametrize("case", CASES)
def test_each_profiles_texts_are_the_golden_ones(case: str) -> None:
    config = composed(*CASES[case], *SITE)
    for batch in batches(config):
        text = batch_text(batch, config, RUN, 1)
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
        golden = GOLDEN / f"{case}.{file_name(batch)}"
        found = text.replace(sys.executable, "/env/bin/python")
        if os.environ.get("RENEW_GOLDEN"):
            golden.write_text(found)
        assert found == golden.read_text()
