"""What happens to the runs that the tests look at. Each scenario is one run from its submission to its end.

They go side by side (most of a Slurm test is waiting); a test waits for the scenario that it looks at. A run that
something is to happen to is held at the end of its first epoch, so that it cannot finish before.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from slurm_runs import STATIC, Run, launch, processes_on

Cluster = dict[str, str]
Scenario = Callable[[Cluster, Path], Run]
TWO_NODES = ("cluster.train.nodes=2", "training.ranks_per_node=1")
WAIT_S = 10  # of the job that takes a run's nodes away


def straight(cluster: Cluster, folder: Path) -> Run:
    """Nothing happens."""
    run = Run.start(cluster, folder, mode="wait")
    run.until_over()
    return run


def time_limit(cluster: Cluster, folder: Path) -> Run:
    """One minute, of which it is warned after 20 to 50 seconds (Slurm looks every 30); held, it needs a second start.

    That one gets half an hour: on a loaded machine the run would need a start for each step.
    """
    limit = ("cluster.time_hours=0.0167", "cluster.signal_seconds=10", "launch.stop_deadline_s=5")
    run = Run.start(cluster, folder, *limit)
    run.hold()
    run.until_attempt(2)
    for component in range(2):
        run.slurm("scontrol", "update", f"JobId={int(run.job()) + component}", "TimeLimit=30")
    run.until_over()
    return run


def _take_nodes(run: Run) -> None:
    nodes = ",".join(row[2] for row in run.starts())
    run.slurm(
        *("sbatch", "--partition=main", f"--nodelist={nodes}", "--gpus-per-node=8", "--time=2"),
        *("--output=/dev/null", f"--wrap=sleep {WAIT_S}"),
    )


def preempted_with_grace(cluster: Cluster, folder: Path) -> Run:
    """As one job of two nodes; Slurm warns it and waits."""
    run = Run.start(cluster, folder, "cluster.coschedule=single", "cluster.partition=graced")
    run.hold()
    run.until_trained()
    _take_nodes(run)
    run.until_attempt(2)
    run.until_over()
    return run


def preempted_at_once(cluster: Cluster, folder: Path) -> Run:
    """Slurm takes the nodes; a few seconds later (KillWait) it kills."""
    run = Run.start(cluster, folder, "cluster.partition=low")
    run.hold()
    run.until_trained()
    _take_nodes(run)
    run.until_attempt(2)
    run.until_over()
    return run


def pair(cluster: Cluster, folder: Path) -> Run:
    """Two jobs; the daemon is killed while the trainer waits for it."""
    run = Run.start(cluster, folder, "cluster.coschedule=pair")
    run.hold()
    run.until_trained()
    os.kill(run.process("synthesis"), signal.SIGKILL)
    run.until_over()
    return run


def component_cancelled(cluster: Cluster, folder: Path) -> Run:
    """A person cancels the synthesis alone, sees the run end, and resumes it."""
    run = Run.start(cluster, folder)
    run.until_trained()
    run.slurm("scancel", f"{run.job()}+1")
    run.until_over()
    run.notes = {"attempts": run.attempts(), "outcome": run.outcome(1), "starts": run.starts()}
    run.resume()
    run.until_over()
    return run


def trainer_killed(cluster: Cluster, folder: Path) -> Run:
    """As an out-of-memory kill ends it: without a word."""
    run = Run.start(cluster, folder)
    run.hold()
    run.until_trained()
    os.kill(run.process("train"), signal.SIGKILL)
    run.until_over()
    return run


def no_progress(cluster: Cluster, folder: Path) -> Run:
    """Signalled before its first step, when that may happen once only."""
    run = Run.start(cluster, folder, *STATIC, "launch.max_stalled_attempts=1")
    run.process("train")
    run.slurm("scancel", "--signal=USR2", run.job())
    run.until_over()
    return run


def sweep(cluster: Cluster, folder: Path) -> Run:
    """Six points for one node: one runs, the others wait their turn."""
    done = launch(
        cluster,
        *(*STATIC, "cluster.partition=one", f"launch.runs_dir={folder}", "launch.mode=submit"),
        *("seed=1,2,3,4,5,6", "-m"),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    points = [Run(cluster, path, done.stdout) for path in sorted(folder.iterdir())]
    last = max(points, key=lambda point: int(point.job()))
    last.notes = {"points": points, "queue": last.slurm("squeue", "-h", "-p", "one", "-o", "%T %r")}
    last.notes["status"] = last.status()
    for point in points:
        point.until_over()
    return last


def two_nodes(cluster: Cluster, folder: Path) -> Run:
    """The trainer has a rank on each of two nodes, and synthesis a node beside them."""
    run = Run.start(cluster, folder, *TWO_NODES)
    run.until_over()
    return run


def second_node_lost(cluster: Cluster, folder: Path) -> Run:
    """Everything on the trainer's second node dies at once, and rank 0 notices before Slurm does."""
    run = Run.start(cluster, folder, *TWO_NODES)
    run.hold()
    run.until_trained()
    _, second = run.slurm("scontrol", "show", "hostnames", run.starts()[0][2]).split()
    _kill_node(cluster, second)
    run.until((run.path / "attempts" / "0002" / "start").exists, "the second start")
    os.kill(run.process("synthesis"), signal.SIGCONT)
    run.until_attempt(2)
    run.until_over()
    run.slurm("slurmd", "-N", second)
    return run


def _kill_node(cluster: Cluster, node: str) -> None:
    state = Path(cluster["SLURM_CONF"]).parent
    daemon = int((state / "run" / f"slurmd-{node}.pid").read_text())
    for process in (daemon, *processes_on(node, cluster["SLURM_CONF"])):
        with contextlib.suppress(ProcessLookupError):  # it died with the one before
            os.kill(process, signal.SIGKILL)


def node_lost(cluster: Cluster, folder: Path) -> Run:
    """Everything on the trainer's node dies at once; Slurm gives the node up after its timeout."""
    run = Run.start(cluster, folder)
    run.hold()
    run.until_trained()
    node = run.starts()[0][2]
    _kill_node(cluster, node)
    run.until((run.path / "attempts" / "0002" / "start").exists, "the second start")
    os.kill(run.process("synthesis"), signal.SIGCONT)  # it finds that it is overtaken, and makes room
    run.until_attempt(2)
    run.until_over()
    run.slurm("slurmd", "-N", node)
    return run


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        node_lost,
        second_node_lost,
        two_nodes,
        sweep,
        preempted_with_grace,
        time_limit,
        straight,
        preempted_at_once,
        component_cancelled,
        pair,
        trainer_killed,
        no_progress,
    )
}
