"""Replaying finished variants in other processes: the same verdicts, and no death of one is the daemon's."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from rods.config import SynthesisConfig, TasksConfig
from rods.synthesis import filters
from rods.synthesis.errors import ConversationConstructFailure, PipelineFailure, VmExecFailure
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.scripted import build
from rods.synthesis.seeds import read_seed
from rods.synthesis.simulating import InProcess, Pool, simulation
from rods.tasks import load
from rods.tasks.model import Call, Turn

TASKS = load(TasksConfig(source="scripted", train_count=6, heldout_count=0)).train


@pytest.fixture(scope="module")
def pool():
    with simulation(2) as pool:
        yield pool


def verdict(where, task, allowed=1.0, seed=TASKS[0]):
    return asyncio.run(where.check(task, read_seed(seed).target, allowed))


def children():
    return psutil.Process().children(recursive=True)


def test_both_places_give_the_same_verdicts(pool):
    for task in TASKS:
        assert verdict(pool, task) == verdict(InProcess(), task)


def test_a_refusal_crosses_the_border_whole(pool):
    call = Call("cat", {"file_name": "unsaid.txt"})
    broken = replace(TASKS[0], turns=(*TASKS[0].turns, Turn("show it", (call,))))
    refused = []
    for where in (pool, InProcess()):
        with pytest.raises((VmExecFailure, ConversationConstructFailure)) as caught:
            verdict(where, broken)
        refused.append((type(caught.value), str(caught.value), caught.value.turn))
    assert refused[0] == refused[1]


def test_the_greatest_distance_crosses_it_too(pool):
    other = max(TASKS, key=lambda task: verdict(InProcess(), task))
    assert verdict(InProcess(), other) > 0
    with pytest.raises(ConversationConstructFailure, match="Φ"):
        verdict(pool, other, allowed=0.0)


def test_a_pipeline_makes_the_same_variants_with_it(pool):
    config = SynthesisConfig()

    async def made(where):
        return [await Pipeline(config, build(config), 1, TASKS, where).run(task, "key") for task in TASKS]

    assert asyncio.run(made(pool)) == asyncio.run(made(InProcess()))


def test_a_killed_process_is_replaced_and_nothing_is_lost():
    async def check():
        with simulation(2) as pool:
            target = read_seed(TASKS[0]).target
            await pool.check(TASKS[0], target, 1.0)
            for process in children():
                process.kill()
            return await asyncio.gather(*(pool.check(task, target, 1.0) for task in TASKS))

    assert asyncio.run(check()) == [verdict(InProcess(), task) for task in TASKS]


def kill_me(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_kills_every_process_is_a_failed_attempt_and_not_the_daemons_end(monkeypatch):
    monkeypatch.setattr(filters, "check", kill_me)
    pool = Pool(1)
    try:
        with pytest.raises(PipelineFailure, match="died"):
            verdict(pool, TASKS[0])
    finally:
        pool.close()


def test_closing_leaves_no_process():
    before = set(children())
    with simulation(2) as pool:
        verdict(pool, TASKS[0])
        assert set(children()) - before
    workers = [
        process
        for process in set(children()) - before
        if "resource_tracker" not in " ".join(process.cmdline())
    ]
    assert workers == []


PARENT = """
import asyncio, os, sys
from rods.config import TasksConfig
from rods.synthesis.seeds import read_seed
from rods.synthesis.simulating import Pool
from rods.tasks import load

if __name__ == "__main__":
    import psutil
    task = load(TasksConfig(source="scripted", train_count=1, heldout_count=0)).train[0]
    asyncio.run(Pool(1).check(task, read_seed(task).target, 1.0))
    print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
    sys.stdin.read()
"""


def test_nothing_survives_a_daemon_that_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen(
        [sys.executable, script],
        env=dict(os.environ, PYTHONPATH=os.getcwd()),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    left = [int(pid) for pid in parent.stdout.readline().split()]
    assert left
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 30
    while any(map(psutil.pid_exists, left)):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
