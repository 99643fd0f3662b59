"""What a signal under Slurm means. The records are those that scontrol of Slurm 22.05 gave at that moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rods.roles.notice import Listener, Notice, Task, Then, ask, explain

TERM, USR2 = signal.SIGTERM, signal.SIGUSR2


def record(state: str, restarts: int = 0, reason: str = "None", preempt: str = "") -> dict[str, str]:
    """What the controller says; a job that was never preempted has no PreemptTime at all."""
    body = {"JobState": state, "Restarts": str(restarts), "Reason": reason}
    return body | ({"PreemptTime": preempt} if preempt else {})


WHEN = "2026-11-30T08:46:38"


@pytest.mark.parametrize(
    ("number", "found", "then", "word"),
    [
        (USR2, record("RUNNING"), Then.put_back, "time limit"),
        (USR2, record("SIGNALING", preempt=WHEN), Then.put_back, "preemption"),
        (USR2, {}, Then.put_back, "time limit"),
        (TERM, record("RUNNING", preempt=WHEN), Then.put_back, "preemption"),
        (TERM, record("COMPLETING", reason="TimeLimit"), Then.put_back_now, "time limit"),
        (TERM, record("TIMEOUT", reason="TimeLimit"), Then.put_back_now, "time limit"),
        (TERM, record("COMPLETING", restarts=1), Then.returns, "put the job back"),
        (TERM, record("PENDING", restarts=1, reason="BeginTime"), Then.returns, "put the job back"),
        (TERM, record("COMPLETING"), Then.ends, "cancelled"),
        (TERM, record("CANCELLED"), Then.ends, "cancelled"),
        (TERM, record("RUNNING"), Then.failed, "another task"),
        (TERM, record("RUNNING", preempt="None"), Then.failed, "another task"),
        (signal.SIGINT, record("RUNNING"), Then.failed, "SIGINT"),
        (TERM, {}, Then.ends, "no answer"),
        (TERM, {"JobState": "NEW_WORD"}, Then.failed, "another task"),
    ],
)
def test_the_record_tells_why_a_signal_came(
    number: signal.Signals, found: dict[str, str], then: Then, word: str
) -> None:
    notice = explain(number, 0, found)
    assert notice.then is then
    assert word in notice.reason


def test_a_restart_that_this_start_came_from_is_no_new_one() -> None:
    assert explain(TERM, 1, record("COMPLETING", restarts=1)).then is Then.ends
    assert explain(TERM, 1, record("COMPLETING", restarts=2)).then is Then.returns
    assert explain(TERM, 1, {"JobState": "COMPLETING", "Restarts": "many"}).then is Then.ends


def test_a_task_knows_its_component() -> None:
    het = {
        "SLURM_JOB_ID": "8",
        "SLURM_HET_SIZE": "2",
        "SLURM_JOB_ID_HET_GROUP_0": "8",
        "SLURM_JOB_ID_HET_GROUP_1": "9",
        "SLURM_RESTART_COUNT": "3",
        "SLURM_PROCID": "1",
    }
    assert Task.of("train", het) == Task("8", "8", 3, 1)
    assert Task.of("synthesis", het) == Task("8", "9", 3, 1)
    assert Task.of("synthesis", {"SLURM_JOB_ID": "8"}) == Task("8", "8", 0, 0)


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for scontrol, to be filled in; first in PATH."""
    tool = tmp_path / "scontrol"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tool


def test_the_controller_is_asked_about_the_component(scontrol: Path) -> None:
    scontrol.write_text(
        '#!/bin/sh\n[ "$*" = "--oneliner show job 9" ] && '
        'echo "JobId=9 JobName=a b= JobState=COMPLETING Reason=TimeLimit Restarts=1 TRES=cpu=1,mem=2"\n'
    )
    scontrol.chmod(0o755)
    found = ask(Task("8", "9", 0, 0))
    assert (found["JobState"], found["Reason"], found["Restarts"]) == ("COMPLETING", "TimeLimit", "1")
    assert found["TRES"] == "cpu=1,mem=2"


@pytest.mark.parametrize(
    "body", ["exit 1", "true", "echo", "echo slurm_load_jobs error: Invalid job id; exit 1"]
)
def test_a_controller_without_an_answer_gives_an_empty_record(scontrol: Path, body: str) -> None:
    scontrol.write_text(f"#!/bin/sh\n{body}\n")
    scontrol.chmod(0o755)
    assert ask(Task("8", "8", 0, 0)) == {}


def test_without_scontrol_nothing_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ask(Task("8", "8", 0, 0)) == {}


def test_the_newest_notice_counts_and_each_is_acted_on() -> None:
    told: list[Notice] = []
    first, second = Notice("time", Then.put_back), Notice("cancelled", Then.ends)
    listener = Listener(lambda number: first if number == USR2 else second, told.append)
    listener.hear(USR2)
    listener.hear(TERM)
    assert listener.close() == second
    assert told == [first, second]


def test_a_process_that_heard_nothing_has_no_notice() -> None:
    assert Listener(lambda _: Notice("", Then.ends), lambda _: None).close() is None


def test_a_disk_error_while_acting_ends_neither_the_listener_nor_the_process() -> None:
    told = []

    def act(notice: Notice) -> None:
        told.append(notice)
        raise OSError(28, "No space left on device")

    listener = Listener(lambda number: Notice(number.name, Then.ends), act)
    listener.hear(USR2)
    listener.hear(TERM)
    heard = listener.close()
    assert heard is not None
    assert (heard.reason, len(told)) == ("SIGTERM", 2)


def test_signals_in_quick_succession_are_all_heard() -> None:
    """Handlers interrupt each other: a lock in them would stop the process for ever."""
    code = """
import os, signal, threading
from rods.roles.notice import Listener, Notice, Then
told = []
listener = Listener(lambda number: Notice(number.name, Then.ends), told.append)
for number in (signal.SIGTERM, signal.SIGUSR2, signal.SIGINT):
    signal.signal(number, lambda n, _: listener.hear(n))
for _ in range(300):
    for number in (signal.SIGTERM, signal.SIGUSR2, signal.SIGINT):
        os.kill(os.getpid(), number)
listener.close()
print(len({n.reason for n in told}))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "3"), done.stderr
