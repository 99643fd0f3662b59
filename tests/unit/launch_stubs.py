"""Run directories whose roles are small functions: test doubles for the roles, started by the real launcher.

A copy of the source tree gets another `rods/roles/train.py` and `synthesize.py` and is frozen into the run
directory, so that snapshot, executor, controller, entry and supervisor are all the real ones.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from launchers import snapshot
from launchers.identity import config_hash
from rods.config import Config, from_mapping
from rods.exchange.rundir import RunDir

ROOT = Path(__file__).parents[2]

_HEAD = """
import os, signal, sys, time
from pathlib import Path
from rods.errors import RodsError
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.rundir import RunDir

def main(run_dir, attempt):
    run = RunDir.open(Path(run_dir))
    (run.path / f"{ROLE}-{attempt}.pid").write_text(str(os.getpid()))
    print("hello from", ROLE)
"""
BODIES = {
    "finish": "    return 0",
    "finish when the other runs": """
    while not (run.path / f"{OTHER}-{attempt}.pid").exists():
        time.sleep(0.05)
    return 0""",
    "until stopped": """
    while not run.stop_file.exists():
        time.sleep(0.05)
    (run.path / f"{ROLE}-{attempt}.stopped").touch()
    return 75 if ROLE == "train" else 0""",
    "finish although asked to stop": """
    while not run.stop_file.exists():
        time.sleep(0.05)
    return 0""",
    "crash": '    raise ValueError("the learner lost its gradient")',
    "refuse": '    raise RodsError("expected weights, found none")',
    "exit 7": "    return 7",
    "die of SIGKILL": "    os.kill(os.getpid(), signal.SIGKILL)",
    "ignore everything": """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(0.05)""",
    "leave a child": """
    import subprocess
    child = subprocess.Popen(["sleep", "600"])
    (run.path / "child.pid").write_text(str(child.pid))
    return 0""",
}


def source_with(tmp_path: Path, train: str, synthesis: str) -> Path:
    """A copy of the packages whose roles do what `BODIES` says."""
    source = tmp_path / "source"
    ignore = shutil.ignore_patterns("__pycache__", "assets")
    for name in ("rods", "launchers", "analysis"):
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    roles = {"train": ("train.py", train, "synthesis"), "synthesis": ("synthesize.py", synthesis, "train")}
    for role, (file, body, other) in roles.items():
        names = f"ROLE, OTHER = {role!r}, {other!r}\n"
        (source / "rods" / "roles" / file).write_text(names + _HEAD + BODIES[body] + "\n")
    return source


def stub_run(tmp_path: Path, train: str, synthesis: str, config: Config | None = None) -> RunDir:
    """A frozen run directory whose roles do what `BODIES` says."""
    config = config or from_mapping({"experiment": "stub"})
    run = RunDir.create(tmp_path / "runs", config.experiment, config_hash(config))
    snapshot.freeze(run, config, ["+experiment=stub"], source=source_with(tmp_path, train, synthesis))
    return run


def write_srun(folder: Path) -> None:
    """A stand-in for srun: runs one task a node of each component, one after another, with its node's number."""
    srun = folder / "srun"
    srun.write_text(
        "#!/bin/bash\n"
        "shift\nargs=()\nexport SLURM_NODEID=0\n"
        'for a in "$@" :; do\n'
        'if [ "$a" != : ]; then args+=("$a"); continue; fi\n'
        "nodes=1\n"
        'while [[ "${args[0]}" == --* ]]; do\n'
        '[[ "${args[0]}" == --nodes=* ]] && nodes="${args[0]#*=}"\n'
        'args=("${args[@]:1}")\ndone\n'
        'for ((node = 0; node < nodes; node++)); do "${args[@]}" || exit; SLURM_NODEID=$((SLURM_NODEID + 1)); done\n'
        "args=()\ndone\n"
    )
    srun.chmod(0o755)


def pid_of(run: RunDir, role: str, attempt: int = 1) -> int:
    """The process id that a stub role noted."""
    return int((run.path / f"{role}-{attempt}.pid").read_text())
