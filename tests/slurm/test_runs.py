"""The tiny experiment on a real Slurm: whatever happens to a run's jobs, the run comes to its end or says why not.

Every interrupted run has to arrive at the very journal of the one that nothing happened to.
"""

from __future__ import annotations

import pytest
from slurm_runs import STATIC, Run, launch

from launchers.snapshot import load_config

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
scenario = pytest.mark.scenario


def states(run: Run, role: str = "train") -> list[str]:
    """What accounting says of each component in each start of a role's ended job."""
    run.until_accounted(role)
    return [row[1].split()[0] for row in run.starts(role)]


def apart(rows: list[list[str]]) -> bool:
    """Whether two components had nodes and eight GPUs of their own."""
    return rows[0][2] != rows[1][2] and all("gres/gpu=8" in row[3] for row in rows)


@scenario("straight")
def test_one_heterogeneous_job_gives_each_role_its_node_and_all_gpus(run: Run) -> None:
    assert run.finished()
    assert f"submitted job {run.job()}" in run.output
    assert "the run finished" in run.output
    assert states(run) == ["COMPLETED", "COMPLETED"]
    assert apart(run.starts())
    assert run.outcome(1)["status"] == "finished"


@scenario("straight")
def test_variants_crossed_the_two_allocations(run: Run) -> None:
    names = {event["name"] for event in run.deeds()}
    assert {"variant_arrived", "variant_injected"} <= names


@scenario("time_limit")
def test_a_time_limit_only_means_another_attempt(run: Run, straight: Run) -> None:
    assert run.finished()
    assert run.deeds() == straight.deeds()
    first = run.outcome(1)
    assert (first["status"], "time limit is near" in first["sentence"]) == ("requeued", True)
    assert len(run.attempts()) >= 2
    assert set(states(run)) == {"REQUEUED", "COMPLETED"}


@scenario("preempted_with_grace")
def test_one_job_of_two_nodes_saves_its_state_when_it_is_warned_of_a_preemption(
    run: Run, straight: Run
) -> None:
    assert run.finished()
    assert run.deeds() == straight.deeds()
    first = run.outcome(1)
    assert (first["status"], "preemption is near" in first["sentence"]) == ("requeued", True)
    assert "COMPLETED" in states(run)
    nodes, gpus = run.starts()[-1][2:]
    assert "[" in nodes, "both roles on one node"
    assert "gres/gpu=16" in gpus


@scenario("preempted_at_once")
def test_a_preemption_without_grace_loses_nothing_that_was_saved(run: Run, straight: Run) -> None:
    assert run.finished()
    assert run.deeds() == straight.deeds()
    assert run.outcome(1)["status"] == "requeued"
    # Another run that wants its nodes may preempt it again.
    assert set(states(run)) == {"PREEMPTED", "COMPLETED"}


@scenario("pair")
def test_two_jobs_train_together_and_a_killed_daemon_comes_back(run: Run, straight: Run) -> None:
    assert run.finished()
    assert run.deeds() == straight.deeds()
    assert run.job("train") != run.job("synthesis")
    assert (run.attempts(), run.attempts("synthesis")) == (["0001"], ["0001", "0002"])
    assert states(run) == ["COMPLETED"]
    assert "COMPLETED" in states(run, "synthesis")
    assert apart([run.starts("train")[-1], run.starts("synthesis")[-1]])
    assert run.outcome(2, "synthesis")["status"] == "finished"


@scenario("component_cancelled")
def test_cancelling_the_synthesis_ends_the_job_for_good(run: Run) -> None:
    assert run.notes["attempts"] == ["0001"], "a person's scancel was undone"
    assert run.notes["outcome"]["status"] == "stopped"
    assert "synthesis: the job or this part of it was cancelled" in run.notes["outcome"]["sentence"]
    assert [row[1].split()[0] for row in run.notes["starts"]] == ["COMPLETED", "CANCELLED"]


@scenario("component_cancelled")
def test_a_cancelled_run_can_be_resumed(run: Run, straight: Run) -> None:
    assert run.finished()
    assert run.deeds() == straight.deeds()
    assert run.attempts() == ["0001", "0002"]


@scenario("trainer_killed")
def test_the_synthesis_speaks_for_a_trainer_that_was_killed(run: Run) -> None:
    assert not run.finished()
    assert run.outcome(1)["status"] == "failed"
    assert "another task of the job died" in run.outcome(1)["sentence"]
    assert run.attempts() == ["0001"]
    assert "FAILED" in states(run)


@scenario("no_progress")
def test_starts_without_progress_come_to_an_end(run: Run) -> None:
    assert run.outcome(1)["status"] == "failed"
    assert "launch.max_stalled_attempts = 1" in run.outcome(1)["sentence"]
    assert run.attempts() == ["0001"]
    assert states(run) == ["FAILED"]
    assert run.status()["status"] == "failed"


@scenario("sweep")
def test_every_point_of_a_sweep_is_a_run_of_its_own_and_finishes(run: Run) -> None:
    points: list[Run] = run.notes["points"]
    assert run.output.startswith("6 runs"), "how many runs there are is said first"
    assert len({point.path.name for point in points}) == len({point.job() for point in points}) == 6
    assert all(point.finished() for point in points)
    assert sorted(load_config(point.dir).seed for point in points) == [1, 2, 3, 4, 5, 6]


@scenario("sweep")
def test_a_run_in_a_full_queue_waits_and_says_why(run: Run) -> None:
    queue = run.notes["queue"].splitlines()
    assert sum(line.startswith("PENDING") for line in queue) >= 4, queue
    status = run.notes["status"]
    assert status["status"] == "waiting", status
    assert status["jobs"][0]["phase"] == "waiting"
    assert status["jobs"][0]["sentence"]


@pytest.mark.nightly
@scenario("two_nodes")
def test_a_trainer_of_two_nodes_makes_the_run_that_one_makes(run: Run, straight: Run) -> None:
    assert run.finished()
    assert run.deeds() == straight.deeds()
    assert "[" in run.starts()[0][2], "one node only"
    assert "gres/gpu=16" in run.starts()[0][3]
    assert [*run.path.glob("attempts/0001/train-rank1.err")]


@pytest.mark.nightly
@scenario("second_node_lost")
def test_a_trainer_of_two_nodes_goes_on_when_the_second_is_lost(run: Run, straight: Run) -> None:
    assert run.finished()
    assert run.deeds() == straight.deeds()
    first = run.outcome(1)
    assert (first["status"], "the trainer's node 1 (" in first["sentence"]) == ("requeued", True)


@pytest.mark.nightly
@scenario("node_lost")
def test_a_lost_node_is_replaced(run: Run, straight: Run) -> None:
    assert run.finished()
    assert run.deeds() == straight.deeds()
    # The component whose node lives may run through: its old step ends when it finds itself overtaken.
    assert set(states(run)) == {"COMPLETED", "NODE_FAIL"}
    assert len({row[2] for row in run.starts() if row[0].endswith("+0")}) == 2, (
        "the trainer got no other node"
    )


def test_a_refusal_shows_slurms_words_and_leaves_no_run_directory(cluster, tmp_path) -> None:
    done = launch(
        cluster, f"launch.runs_dir={tmp_path}", "launch.mode=submit", "cluster.partition=nowhere", *STATIC
    )
    assert done.returncode != 0
    assert "invalid partition" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
