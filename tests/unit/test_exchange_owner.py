"""Whether the writer of a heartbeat lives: its process is asked on this host, its age elsewhere."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rods.exchange import owner
from rods.exchange.heartbeat import Beat


def beat(pid: int, host: str = socket.gethostname(), age_s: float = 1.0, finished: bool = False) -> Beat:
    return Beat("train", "rollout", age_s, pid, host, finished=finished)


@pytest.fixture
def zombie() -> Iterator[int]:
    """A process that has ended and that nobody waited for."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process.pid
    process.wait()


def test_a_process_of_this_host_lives_until_it_ends(zombie: int) -> None:
    assert owner.is_alive(beat(os.getpid()), 10.0)
    assert not owner.is_alive(beat(zombie), 10.0)


def test_a_process_that_was_waited_for_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert not owner.is_alive(beat(process.pid), 10.0)


def test_a_process_of_another_user_lives() -> None:
    assert owner.is_alive(beat(1), 10.0)


def test_elsewhere_the_age_decides(zombie: int) -> None:
    assert owner.is_alive(beat(zombie, host="elsewhere"), 10.0)
    assert not owner.is_alive(beat(os.getpid(), host="elsewhere", age_s=11.0), 10.0)
    assert not owner.is_alive(beat(os.getpid(), age_s=11.0), 10.0)


def test_whoever_said_goodbye_is_gone() -> None:
    assert not owner.is_alive(beat(os.getpid(), finished=True), 10.0)
