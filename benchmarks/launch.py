"""Launching beside Hydra and hydra-submitit-launcher: `python -m benchmarks.launch --json`.

submit_50  from the command line until 50 runs are in the queue of a private Slurm. The peer puts a job array
           there, whose configuration it composes when the jobs start; ours are 50 run directories with frozen code
           and configuration, and 50 jobs. All are held back (--begin), so that nothing runs meanwhile.
plan_50    50 runs composed, checked and priced. The peer composes them with Hydra's own sweeper and does nothing.
help       `--help`, the same configuration under Hydra alone as peer.
status     `rods status` of a run. No peer: nothing else reads these run directories.

Every figure is seconds of a fresh process, the sides alternating: wall time, and beside it CPU time, on which other
load weighs less.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from benchmarks.launch_cluster import Cost, cluster, cpu_seconds, missing, until_queued
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.metrics import MetricsWriter
from rods.exchange.rundir import RunDir

RUNS = 50
SUBMITIT, HYDRA = "hydra-submitit-launcher 1.2.0", "hydra-core 1.3.8, basic sweeper"
_ROOT = Path(__file__).parents[1]
_OURS = [sys.executable, str(_ROOT / "launch.py")]
_PEER = [sys.executable, str(_ROOT / "benchmarks" / "launch_peer.py")]
_SWEEP = ["-m", "+experiment=rods_tiny", f"seed=range({RUNS})"]
_LATER = "now+1hour"

Side = Callable[[Path], Cost]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--base-port", type=int, default=21000, help="of the private Slurm")
    options = parser.parse_args()
    figures = {
        "submit_50": _submit(options.repeats, options.base_port),
        "plan_50": _compare(_plan, _plan_peer, HYDRA, options.repeats),
        "help": _compare(_help, _help_peer, HYDRA, options.repeats),
        "status": _alone(_status, options.repeats),
    }
    if options.json:
        print(json.dumps(figures, indent=1))
    else:
        for name, figure in figures.items():
            print(f"{name}: {figure}")


def _submit(repeats: int, base_port: int) -> dict[str, object]:
    absent = missing()
    if find_spec("hydra_plugins.hydra_submitit_launcher") is None:
        absent = "hydra-submitit-launcher is not installed (extra bench)"
    if absent:
        return {"ours": None, "peer": None, "peer_name": SUBMITIT, "unit": "s", "not_measured": absent}
    with cluster(base_port):
        return _compare(_submit_ours, _submit_peer, SUBMITIT, repeats)


def _submit_ours(folder: Path) -> Cost:
    options = ["cluster=slurm_test", "launch.mode=submit", f"+cluster.extra.begin={_LATER}"]
    return until_queued([*_OURS, *_SWEEP, *options], folder, RUNS)


def _submit_peer(folder: Path) -> Cost:
    launcher = {
        "nodes": 2,
        "gpus_per_node": 8,
        "tasks_per_node": 1,
        "cpus_per_task": 2,
        "timeout_min": 30,
    }
    options = ["hydra/sweeper=basic", "hydra/launcher=submitit_slurm", f"hydra.sweep.dir={folder}/sweep"]
    options += [f"hydra.launcher.{key}={value}" for key, value in launcher.items()]
    options += [f"+hydra.launcher.additional_parameters.begin={_LATER}"]
    return until_queued([*_PEER, *_SWEEP, *options], folder, RUNS)


def _plan(folder: Path) -> Cost:
    return _seconds([*_OURS, *_SWEEP, "launch.mode=plan"], folder)


def _plan_peer(folder: Path) -> Cost:
    return _seconds([*_PEER, *_SWEEP, "hydra/sweeper=basic", f"hydra.sweep.dir={folder}"], folder)


def _help(folder: Path) -> Cost:
    return _seconds([*_OURS, "--help"], folder)


def _help_peer(folder: Path) -> Cost:
    return _seconds([*_PEER, "--help"], folder)


def _status(folder: Path) -> Cost:
    run = RunDir.create(folder, "benchmark", "0" * 64)
    run.next_attempt()
    writer = MetricsWriter(run.metrics / "train.jsonl")
    for step in range(1, 500):
        counts = {"epoch": 1, "epochs_total": 5, "step": step, "steps_total": 600, "reward_mean": 0.5}
        writer.write(counts | {"time": 1000.0 + step})
    Heartbeat(run.heartbeats, "train").beat("rollout")
    return _seconds([str(Path(sys.executable).parent / "rods"), "status", str(run.path)], folder)


def _seconds(command: list[str], folder: Path) -> Cost:
    start = time.monotonic()
    with (folder / "output").open("w") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        ended = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(ended[1]):
        raise RuntimeError(f"{command}: {(folder / 'output').read_text()[-2000:]}")
    return Cost(time.monotonic() - start, cpu_seconds(ended))


def _compare(ours: Side, peer: Side, peer_name: str, repeats: int) -> dict[str, object]:
    costs: dict[str, list[Cost]] = {"ours": [], "peer": []}
    for _ in range(repeats):
        costs["ours"].append(_in_fresh_folder(ours))
        costs["peer"].append(_in_fresh_folder(peer))
    figure = _told("ours", costs["ours"]) | _told("peer", costs["peer"])
    ratios = {
        "ratio": _median(costs["peer"], "wall") / _median(costs["ours"], "wall"),
        "ratio_cpu": _median(costs["peer"], "cpu") / _median(costs["ours"], "cpu"),
    }
    return figure | {"peer_name": peer_name, "unit": "s"} | {key: round(r, 2) for key, r in ratios.items()}


def _alone(ours: Side, repeats: int) -> dict[str, object]:
    costs = [_in_fresh_folder(ours) for _ in range(repeats)]
    return _told("ours", costs) | {"peer": None, "unit": "s"}


def _told(side: str, costs: list[Cost]) -> dict[str, object]:
    walls = [round(cost.wall, 2) for cost in costs]
    return {
        side: round(_median(costs, "wall"), 2),
        f"{side}_spread": (min(walls), max(walls)),
        f"{side}_cpu": round(_median(costs, "cpu"), 2),
    }


def _median(costs: list[Cost], what: str) -> float:
    return statistics.median(getattr(cost, what) for cost in costs)


def _in_fresh_folder(side: Side) -> Cost:
    with tempfile.TemporaryDirectory(prefix="rods-bench-") as folder:
        return side(Path(folder))


if __name__ == "__main__":
    main()
