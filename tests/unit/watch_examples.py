"""Run directories as `rods` finds them in the middle of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from launchers import jobs
from launchers.jobs import SubmittedJob
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.metrics import MetricsWriter
from rods.exchange.rundir import RunDir

STEP = {
    "epoch": 2,
    "epochs_total": 5,
    "steps_total": 20,
    "reward_mean": 0.4375,
    "zones": {"hard": 3, "boundary": 7, "mastered": 2},
    "pool_active": 52,
    "pool_seeds": 48,
    "pool_variants": 4,
    "waiting": 1,
}


def make_run(tmp_path: Path) -> RunDir:
    """A run directory as it looks in the middle of a run."""
    run = RunDir.create(tmp_path / "runs", "watched", "0" * 64)
    folder = run.attempt_dir(run.next_attempt())
    (folder / "train.out").write_text("step 7 done\n")
    (folder / "train.err").write_text("a warning\n")
    writer = MetricsWriter(run.metrics / "train.jsonl")
    for step in range(5, 9):
        writer.write({**STEP, "step": step, "time": 1000.0 + 10 * step})
    evaluation = {"event": "evaluation", "split": "heldout", "mode": "greedy", "mean": 0.5, "count": 48}
    writer.write({"epoch": 1, "step": 4, **evaluation})
    MetricsWriter(run.metrics / "synthesis.jsonl").write(
        {"claimed": 9, "accepted": 6, "dropped": 2, "attempts": 11}
    )
    run.queue("seeds").put("s1", {"task": {}})
    Heartbeat(run.heartbeats, "train").beat("rollout")
    return run


def beat_of_a_dead_process(run: RunDir, role: str) -> None:
    """A heartbeat whose writer has ended without saying so."""
    code = (
        "import sys; from pathlib import Path; from rods.exchange.heartbeat import Heartbeat; "
        "Heartbeat(Path(sys.argv[1]), sys.argv[2]).beat('following')"
    )
    subprocess.run([sys.executable, "-c", code, str(run.heartbeats), role], check=True)


def submitted(
    run: RunDir,
    job_id: str,
    *roles: str,
    coschedule: str = "het",
    attempt: int = 1,
    replica: int | None = None,
) -> None:
    """Note a submission of the run, with 8 GPUs a role."""
    gpus = dict.fromkeys(roles, 8)
    jobs.record(run, SubmittedJob(job_id, roles, coschedule, attempt, 1796028335.0, gpus, replica))
