"""1,000 worlds, together in one thread, in threads and in processes: each as in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("bfcl_eval")

import isolation_worlds
from isolation_worlds import Script

from rods.simulation.session import World
from rods.tasks.model import Call

pytestmark = pytest.mark.slow

THREADS = 8


def elsewhere(*arguments: str, hash_seed: int) -> list[str]:
    script = Path(isolation_worlds.__file__)
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "TZ": "Pacific/Kiritimati"}
    done = subprocess.run(
        [sys.executable, str(script), *arguments], env=environment, capture_output=True, text=True, check=True
    )
    digests: list[str] = json.loads(done.stdout)
    return digests


@pytest.fixture(scope="module")
def scripts() -> list[Script]:
    return isolation_worlds.scripts()


@pytest.fixture(scope="module")
def expected() -> list[str]:
    return elsewhere("fresh", hash_seed=1)


@pytest.fixture
def hasty_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_the_worlds_differ(expected: list[str]) -> None:
    assert len(expected) == isolation_worlds.WORLDS
    assert len(set(expected)) > isolation_worlds.WORLDS / 2


def test_interleaved_in_one_thread(scripts: list[Script], expected: list[str]) -> None:
    assert isolation_worlds.interleaved(scripts, seed=2) == expected


@pytest.mark.usefixtures("hasty_switches")
def test_interleaved_in_threads(scripts: list[Script], expected: list[str]) -> None:
    found: dict[int, list[str]] = {}

    def work(number: int) -> None:
        found[number] = isolation_worlds.interleaved(scripts[number::THREADS], seed=number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(THREADS)] == [
        expected[number::THREADS] for number in range(THREADS)
    ]


@pytest.mark.usefixtures("hasty_switches")
def test_threads_do_not_share_a_precision() -> None:
    calls = [
        Call("logarithm", {"value": 3, "base": 7, "precision": precision}) for precision in (4, 90, 300) * 2
    ]
    expected = [World(["MathAPI"], {}).execute(call).text for call in calls]
    found: dict[int, set[str]] = {}

    def work(number: int) -> None:
        world = World(["MathAPI"], {})
        found[number] = {world.execute(calls[number]).text for _ in range(500)}

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[number] for number in range(len(calls))] == [{text} for text in expected]


def test_interleaved_in_another_process(expected: list[str]) -> None:
    assert elsewhere("interleaved", "2", hash_seed=2) == expected
