"""What Slurm says of jobs: folded, asked in one batch, asked again only when it has grown old, never raised."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from slurm_answers import SACCT, SQUEUE, FakeSlurm

from launchers.scheduler import Scheduler, ask, parse_sacct, parse_squeue
from launchers.states import Phase

ALL = ["1", "3", "4", "5", "6", "7", "8", "999"]


def test_all_jobs_are_one_question_to_each_command_that_is_needed() -> None:
    slurm = FakeSlurm()
    jobs = Scheduler(slurm).query(ALL)
    assert list(jobs) == ALL
    assert slurm.asked == [("squeue", ALL), ("sacct", ["999", "999"])]
    words = {job: info.row.word for job, info in jobs.items()}
    assert words == {
        "1": "RUNNING",
        "3": "FAILED",
        "4": "COMPLETED",
        "5": "RUNNING",
        "6": "PENDING",
        "7": "PENDING",
        "8": "PENDING",
        "999": "UNKNOWN",
    }
    assert jobs["999"].row.phase is Phase.unknown
    assert (jobs["999"].trouble, jobs["999"].gone) == ("neither squeue nor sacct knows this job", True)


def test_components_of_a_heterogeneous_job_are_folded_and_listed() -> None:
    info = Scheduler(FakeSlurm()).query(["1"])["1"]
    assert info.row.phase is Phase.running, "it goes on as long as one component does"
    assert [(part.job_id, part.state, part.nodes) for part in info.components] == [
        ("1+0", "RUNNING", "n1"),
        ("1+1", "CANCELLED", "n2"),
    ]


def test_of_components_that_are_over_the_one_that_went_wrong_speaks() -> None:
    text = "9+0|COMPLETED|1|1|0:05|1:00|n1|None\n9+1|FAILED|1|1|0:05|1:00|n2|NonZeroExitCode\n"
    assert Scheduler(FakeSlurm(text)).query(["9"])["9"].row.word == "FAILED"


def test_what_squeue_no_longer_knows_is_asked_of_accounting() -> None:
    slurm = FakeSlurm(squeue="")
    jobs = Scheduler(slurm).query(ALL)
    assert (jobs["3"].source, jobs["3"].components[0].exit_code) == ("sacct", "3:0")
    assert jobs["5"].row.word == "RUNNING", "its newest start counts, not the requeued one"
    assert jobs["1"].components[1].row.word == "CANCELLED"


def test_without_a_queue_accounting_answers_and_without_both_the_trouble_is_told() -> None:
    assert Scheduler(FakeSlurm(squeue=None)).query(["4"])["4"].row.word == "COMPLETED"
    info = Scheduler(FakeSlurm(None, None)).query(["4"])["4"]
    assert (info.row.phase, info.source, info.gone) == (Phase.unknown, "", False)
    assert "squeue failed: Unable to contact" in info.trouble
    assert "sacct failed" in info.trouble


def test_an_answer_serves_until_it_is_old_and_only_what_is_old_is_asked_again() -> None:
    slurm, now = FakeSlurm(), [100.0]
    scheduler = Scheduler(slurm, cache_s=10, clock=lambda: now[0])
    scheduler.query(["1"])
    now[0] = 105.0
    scheduler.query(["1", "3"])
    now[0] = 110.0
    scheduler.query(["1", "3"])
    assert [jobs for _, jobs in slurm.asked] == [["1", "1"], ["3", "3"], ["1", "1"]]


def test_accounting_is_asked_again_only_when_its_answer_is_old() -> None:
    slurm, now = FakeSlurm(), [0.0]
    scheduler = Scheduler(slurm, cache_s=10, clock=lambda: now[0])
    first = scheduler.starts(["5"])
    now[0] = 9.0
    assert scheduler.starts(["5"]) == first
    now[0] = 10.0
    scheduler.starts(["5"])
    assert len(slurm.asked) == 2


def test_nothing_is_asked_when_nothing_is_wanted() -> None:
    slurm = FakeSlurm()
    assert Scheduler(slurm).query([]) == {}
    assert slurm.asked == []


def test_many_jobs_are_asked_in_several_questions() -> None:
    slurm = FakeSlurm()
    assert len(Scheduler(slurm).query([str(job) for job in range(1, 1201)])) == 1200
    assert max(len(jobs) for _, jobs in slurm.asked) == 500


def test_every_start_of_a_requeued_job_is_in_accounting() -> None:
    starts, trouble = Scheduler(FakeSlurm()).starts(["5", "6", "999"])
    assert trouble == ""
    assert [(row.state, row.elapsed_s, row.gpus, row.nodes) for row in starts["5"]] == [
        ("REQUEUED", 3.0, 8, "n4"),
        ("RUNNING", 64.0, 8, "n2"),
    ]
    assert starts["999"] == []
    waiting = starts["6"][0]
    assert (waiting.start, waiting.gpus, waiting.nodes) == (None, None, "")
    assert Scheduler(FakeSlurm(sacct=None)).starts(["5"])[1].startswith("sacct failed")


def test_times_are_read_as_seconds() -> None:
    rows = {row.job_id: row for row in parse_squeue(SQUEUE)}
    assert (rows["1+0"].elapsed_s, rows["1+0"].limit_s) == (72.0, 3 * 86400.0)
    assert (rows["6"].start, rows["7"].start) == (1796287535.0, None)
    (row,) = parse_squeue("5|RUNNING|1|1|1-02:03:04|UNLIMITED|n1|None\n")
    assert (row.elapsed_s, row.limit_s) == (93784.0, None)


@pytest.mark.parametrize(
    ("tres", "energy", "joules"),
    [
        ("cpu=1,node=1", "", None),
        ("cpu=1,node=1", "0", None),
        ("cpu=1,energy=3600,gres/gpu=8", "", 3600.0),
        ("cpu=1,gres/gpu=8", "7200", 7200.0),
    ],
)
def test_energy_is_known_only_where_it_is_measured(tres: str, energy: str, joules: float | None) -> None:
    (row,) = parse_sacct(f"5|COMPLETED|1|1|2|1|n1|{tres}|{energy}|0:0\n")
    assert row.energy_j == joules


def test_a_cluster_heading_and_broken_lines_are_no_records() -> None:
    assert parse_squeue(f"CLUSTER: lab\n\n|||\n{SQUEUE}") == parse_squeue(SQUEUE)
    assert parse_sacct(f"CLUSTER: lab\n5|RUNNING\n{SACCT}") == parse_sacct(SACCT)
    assert (
        parse_squeue("5|RUNNING|1|1|0:01|1:00|n1|a reason | with a bar\n")[0].reason
        == "a reason | with a bar"
    )


def fake_command(folder: Path, name: str, script: str) -> None:
    """A program `name` in `folder`."""
    path = folder / name
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)


def test_a_persons_defaults_do_not_reach_the_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_command(tmp_path, "squeue", "env | grep -E '^(SQUEUE|SLURM)_' | sort")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name in ("SQUEUE_STATES", "SLURM_CLUSTERS", "SLURM_JOB_ID"):
        monkeypatch.setenv(name, "other")
    monkeypatch.setenv("SLURM_CONF", "/etc/here")
    assert ask(["squeue"]).text == "SLURM_CONF=/etc/here\nSLURM_TIME_FORMAT=%s\n"


def test_a_command_that_fails_hangs_or_is_missing_is_trouble_not_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("launchers.scheduler._TIMEOUTS_S", {"squeue": 0.2, "sacct": 5.0, "nothing": 1.0})
    fake_command(tmp_path, "squeue", "exec sleep 20")
    fake_command(
        tmp_path,
        "sacct",
        "printf 'sacct: error: no\\nsacct: error: Slurm accounting storage is disabled\\n' >&2; exit 1",
    )
    assert ask(["squeue"]).trouble == "squeue gave no answer within 0.2 s"
    assert ask(["sacct"]).trouble == "sacct failed: Slurm accounting storage is disabled"
    assert ask(["nothing"]).trouble == "no nothing on this machine"
