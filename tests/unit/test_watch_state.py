"""The state of a run, read from its files and from what Slurm says; damage is told beside what is whole."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from rich.console import Console
from slurm_answers import FakeSlurm
from watch_examples import STEP, beat_of_a_dead_process, make_run, submitted

from launchers.scheduler import Scheduler
from rods.exchange import owner, stop
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.metrics import MetricsWriter
from rods.exchange.rundir import RunDir
from rods.watch.progress import LineView, view
from rods.watch.render import duration, line, panel
from rods.watch.state import eta_s, newest_evaluations, read_state, throughput


def test_the_state_is_read_from_the_files(tmp_path: Path) -> None:
    state = read_state(make_run(tmp_path))
    assert (state.status, state.attempt) == ("running", 1)
    assert (state.epoch, state.step, state.steps_total, state.reward) == (2, 8, 20, 0.4375)
    assert state.zones == {"hard": 3, "boundary": 7, "mastered": 2}
    assert state.pool == {"active": 52, "seeds": 48, "variants": 4, "waiting": 1}
    assert state.queues["seeds"]["ready"] == 1
    assert state.synthesis == {"claimed": 9, "accepted": 6, "dropped": 2, "attempts": 11}
    assert state.eta_s == 12 * 10.0
    assert state.evaluations[0]["mean"] == 0.5
    assert state.roles["train"]["phase"] == "rollout"


def test_a_heartbeat_of_an_earlier_attempt_is_not_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    Heartbeat(run.heartbeats, "train").finish(attempt=1)
    Heartbeat(run.heartbeats, "synthesis").beat("idle", attempt=1)
    assert set(read_state(run).roles) == {"train", "synthesis"}
    run.attempt_dir(run.next_attempt())
    assert read_state(run).roles == {}
    apart = RunDir(run.path, "synthesis")
    apart.attempt_dir(apart.next_attempt())
    assert set(read_state(run).roles) == {"synthesis"}, "a daemon apart numbers its own attempts"
    Heartbeat(run.heartbeats, "train").beat("loading", attempt=2)
    assert read_state(run).roles["train"]["phase"] == "loading"


def test_an_empty_run_has_a_state_too(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "empty", "0" * 64)
    state = read_state(run)
    assert state.status == "waiting"
    assert line(state) == "[rods] waiting | no role has started"


def test_the_pace_ignores_the_pause_of_a_restart() -> None:
    times = [(1, 10.0), (2, 20.0), (2, 5000.0), (3, 5010.0), (4, 5020.0)]
    assert eta_s([{"step": step, "time": time, "steps_total": 6} for step, time in times]) == 20.0


@pytest.mark.parametrize("steps", [[], [{"step": 1, "time": 1.0, "steps_total": 9}]])
def test_without_two_steps_there_is_no_eta(steps: list[dict[str, object]]) -> None:
    assert eta_s(steps) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (7.4, "7s"), (59.6, "1m00s"), (200, "3m20s"), (3720, "1h02m"), (90000, "25h00m")],
)
def test_durations_read_well(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_a_log_ends_with_the_panel(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    console = Console(record=True, width=100, file=open(os.devnull, "w"))  # noqa: SIM115
    with view(run, console) as shown:
        shown.tick()
    first, *rest = console.export_text().splitlines()
    assert first.startswith("[rods] ")
    assert run.name in rest[0]
    assert "attempt 1" in rest[-1]
    assert any("held out" in line for line in rest)


def test_a_log_gets_one_line_in_its_time(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    console = Console(record=True, width=20, file=open(os.devnull, "w"))  # noqa: SIM115
    lines_view = LineView(run, console, every_s=3600)
    lines_view.tick()
    lines_view.tick()
    lines = console.export_text().splitlines()
    assert len(lines) == 1
    for part in (
        "epoch 2/5",
        "step 8/20",
        "reward 0.438",
        "boundary 7",
        "6 accepted, 2 rejected",
        "eta 2m00s",
    ):
        assert part in lines[0]


def test_a_run_whose_processes_are_gone_has_stopped(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    beat_of_a_dead_process(run, "supervisor")
    assert read_state(run).status == "running", "the trainer still lives"
    beat_of_a_dead_process(run, "train")
    state = read_state(run)
    assert state.status == "stopped"
    assert state.sentence.startswith("supervisor gone")


def test_an_owner_that_starts_the_roles_keeps_the_run_running(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    beat_of_a_dead_process(run, "train")
    owner.take(run, 300)
    assert read_state(run).status == "running"
    owner.release(run)
    assert read_state(run).status == "stopped"


def slurm(squeue: str | None = None, sacct: str | None = None) -> Scheduler:
    """A scheduler with these answers; None: the recorded ones."""
    answers = {"squeue": squeue, "sacct": sacct}
    return Scheduler(FakeSlurm(**{name: text for name, text in answers.items() if text is not None}))


@pytest.mark.parametrize(
    ("job", "status", "words"),
    [
        ("5", "running", "job 5 runs; no role gives a sign of life yet"),
        ("6", "waiting", "job 6: waits for free nodes"),
        ("8", "waiting", "job 8: held by its owner"),
        ("3", "failed", "job 3 ended with an exit status other than 0"),
        ("4", "stopped", "job 4 ended with exit status 0; to go on: rods resume"),
        ("1", "running", ""),
    ],
)
def test_slurm_says_how_its_runs_stand(tmp_path: Path, job: str, status: str, words: str) -> None:
    run = RunDir.create(tmp_path, "watched", "0" * 64)
    run.next_attempt()
    submitted(run, job, "train", "synthesis")
    state = read_state(run, slurm())
    assert (state.status, state.sentence.startswith(words)) == (status, True), state.sentence


def test_a_job_that_ended_is_believed_before_a_heartbeat_that_still_looks_young(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    submitted(run, "3", "train")
    assert read_state(run, slurm()).status == "failed"


def test_the_trainers_job_decides_and_of_several_the_liveliest(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "watched", "0" * 64)
    run.next_attempt()
    submitted(run, "4", "train")
    submitted(run, "5", "synthesis")
    assert read_state(run, slurm()).status == "stopped", "synthesis alone does nothing"
    submitted(run, "7", "train")
    assert read_state(run, slurm()).sentence == "job 7: waits for another job"


def test_a_preempted_job_comes_back_by_itself(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "watched", "0" * 64)
    run.next_attempt()
    submitted(run, "9", "train")
    text = "9|PREEMPTED|1|1|0:05|1:00|n1|None\n"
    assert read_state(run, slurm(squeue=text)).status == "waiting"


def test_without_an_answer_the_signs_of_life_decide_and_the_trouble_is_told(tmp_path: Path) -> None:
    run, dumb = make_run(tmp_path), Scheduler(FakeSlurm(None, None))
    submitted(run, "5", "train")
    assert read_state(run, dumb).status == "running"
    beat_of_a_dead_process(run, "train")
    state = read_state(run, dumb)
    assert state.status == "waiting"
    assert "squeue failed: Unable to contact" in state.sentence


def test_an_attempt_that_was_put_back_waits_unless_its_job_is_over(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    outcome = {"status": "requeued", "exit_code": 1, "sentence": "the time limit is near (SIGUSR2)"}
    (run.attempt_dir(1) / "outcome.json").write_text(json.dumps(outcome))
    submitted(run, "3", "train")
    assert read_state(run, Scheduler(FakeSlurm(None, None))).status == "waiting"
    assert read_state(run, slurm()).status == "failed"


def test_a_job_at_work_is_believed_before_the_outcome_of_the_attempt_before_it(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    outcome = {"status": "stopped", "exit_code": 1, "sentence": "the next job of the chain goes on"}
    (run.attempt_dir(1) / "outcome.json").write_text(json.dumps(outcome))
    submitted(run, "5", "train")
    assert read_state(run, slurm()).status == "running"
    run2 = make_run(tmp_path)
    (run2.attempt_dir(1) / "outcome.json").write_text(json.dumps(outcome))
    submitted(run2, "4", "train")
    assert read_state(run2, slurm()).sentence == "the next job of the chain goes on"


def test_a_job_that_left_the_queue_of_a_site_without_accounting_has_ended(tmp_path: Path) -> None:
    run, silent = make_run(tmp_path), Scheduler(FakeSlurm("", None))
    submitted(run, "5", "train")
    assert read_state(run, silent).status == "running", "a role gives signs of life"
    beat_of_a_dead_process(run, "train")
    state = read_state(run, silent)
    assert state.status == "stopped"
    assert "job 5 has left the queue (sacct failed" in state.sentence


def test_the_end_of_the_run_needs_no_slurm(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    submitted(run, "5", "train")
    stop.finish(run, 1)
    assert read_state(run, Scheduler(FakeSlurm(None, None))).status == "finished"


def test_components_have_their_roles_and_a_lost_one_is_told(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    submitted(run, "1", "train", "synthesis")
    submitted(run, "6", "synthesis", replica=2)
    first, second = read_state(run, slurm()).jobs
    assert [(part.job_id, part.role, part.nodes) for part in first.parts] == [
        ("1+0", "train", "n1"),
        ("1+1", "synthesis", "n2"),
    ]
    assert "component 1+1 was cancelled" in first.sentence
    assert (second.parts[0].role, second.parts[0].why) == ("synthesis-2", "waits for free nodes")


def test_pace_is_told_by_the_hour() -> None:
    steps = [{"step": step, "time": 10.0 * step, "rollouts": 96} for step in (1, 2, 3)]
    assert throughput(steps) == {"steps_per_hour": 360.0, "rollouts_per_hour": 34560.0}
    assert throughput(steps[:1]) == {}


def test_the_short_last_step_of_an_epoch_is_no_pace() -> None:
    counts = (96, 96, 96, 8)
    steps = [{"step": step, "time": 10.0 * step, "rollouts": n} for step, n in enumerate(counts, 1)]
    assert throughput(steps) == {"steps_per_hour": 360.0, "rollouts_per_hour": 34560.0}


def test_the_newest_evaluation_of_each_split_and_mode_is_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    writer = MetricsWriter(run.metrics / "train.jsonl")
    means = {("heldout", "sampled"): 0.25, ("heldout", "greedy"): 0.75, ("validation", "greedy"): 0.5}
    for (split, mode), mean in means.items():
        line = {"event": "evaluation", "epoch": 2, "step": 8, "split": split, "mode": mode, "count": 48}
        writer.write({**line, "mean": mean})
    state = read_state(run)
    assert {name: line["mean"] for name, line in newest_evaluations(state).items()} == means
    console = Console(width=100, record=True)
    console.print(panel(state))
    assert "validation  0.500 greedy (epoch 2, 48 tasks)" in console.export_text()


def damage(run: RunDir, what: str) -> None:
    """Make one file of a run something else."""
    metrics = MetricsWriter(run.metrics / "train.jsonl")
    if what == "outcome":
        (run.attempt_dir(1) / "outcome.json").write_text("{}")
    elif what == "heartbeat":
        beat = {"role": ["train"], "phase": "rollout", "pid": 1, "host": "a", "info": {}}
        (run.heartbeats / "train.json").write_text(json.dumps(beat))
    elif what == "metrics":
        metrics.write({**STEP, "step": 9, "time": 1100.0, "zones": 3})
    elif what == "reward":
        metrics.write({**STEP, "step": 9, "time": 1.0, "reward_mean": "a"})
    elif what == "jobs":
        (run.path / "jobs.jsonl").write_text('{"job_id": "5"}\n')
    else:
        shutil.rmtree(run.path / "queues")
        (run.path / "queues").write_text("no folder")


DAMAGES = ["outcome", "heartbeat", "metrics", "reward", "jobs", "queues"]


@pytest.mark.parametrize("what", DAMAGES)
def test_what_is_damaged_is_told_and_the_rest_is_shown(tmp_path: Path, what: str) -> None:
    run = make_run(tmp_path)
    damage(run, what)
    state = read_state(run, slurm())
    assert state.troubles
    assert all(str(run.path) in trouble for trouble in state.troubles)
    assert state.attempt == 1
    assert (state.step == 8) is (what not in ("metrics", "reward"))
    assert bool(state.queues) is (what != "queues")
