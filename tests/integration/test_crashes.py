"""Whatever dies, freezes or is stopped: the run ends as if nothing had happened.

Processes, files and signals are real; see `soak` for what stands in for the policy. `make soak` does the same
at length.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faults import Fault
from soak.harness import (
    Nursery,
    answers,
    differences,
    finish,
    results,
    soak,
    soak_config,
    supervisor_log,
)
from soak.processes import SUPERVISOR, SYNTHESIS, TRAIN, is_running, noted

from rods import tasks as task_sources
from rods.exchange import stop
from rods.exchange.heartbeat import read_all
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import RunDir

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = 30
STOPS = 6
# Longer than a start, so that living roles are not taken for dead; a frozen node is, after that time.
FROZEN = {"launch": {"heartbeat_timeout_s": 6.0}}


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path_factory.mktemp("nursery"))
    yield nursery
    nursery.close()


@pytest.fixture(scope="module")
def straight(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    run = nursery.create(tmp_path_factory.mktemp("straight"), soak_config())
    assert nursery.finish(run) == 0, supervisor_log(run)
    return run


def await_(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.02)


def steps_done(run: RunDir) -> int:
    return max((int(line["step"]) for line in read_metrics(run.metrics / "train.jsonl")), default=0)


def is_frozen(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def test_the_straight_run_is_worth_comparing_with(straight: RunDir) -> None:
    found = results(straight)
    names = {record["name"] for record in found["deeds"]}
    assert {"variant_injected", "task_retired", "seed_closed", "evaluation_done", "run_finished"} <= names
    assert len(found["emitted"]) > 40
    assert found["unanswered"] == []


def test_a_run_killed_thirty_times_equals_the_straight_run(nursery: Nursery, tmp_path: Path) -> None:
    summary = soak(nursery, tmp_path, kills=KILLS, seed=0, say=print)
    print(summary)
    assert summary["equal"], summary["rounds"]
    assert summary["kills"] >= KILLS
    assert set(summary["by_victim"]) == {TRAIN, SYNTHESIS, SUPERVISOR}
    assert set(summary["by_mode"]) == {"point", "time"}


def test_a_run_stopped_and_resumed_many_times_equals_the_straight_run(
    nursery: Nursery, straight: RunDir, tmp_path: Path
) -> None:
    run, rng = nursery.create(tmp_path, soak_config()), random.Random(1)
    for _ in range(STOPS):
        before, pid = steps_done(run), nursery.start(run)
        target = before + rng.randint(1, 5)
        await_(lambda target=target: steps_done(run) >= target, f"step {target}")
        os.kill(pid, signal.SIGINT)
        assert nursery.wait(pid) == 130, supervisor_log(run)
    finish(nursery, run)
    assert run.last_attempt() == STOPS + 1
    assert differences(straight, run) == []


@pytest.mark.parametrize(
    ("operations", "path"),
    [
        (("replace",), "*/checkpoints/step_000006*/COMPLETE"),
        (("replace",), "*/rollouts/step_000007.jsonl"),
        (("rename",), "*/queues/variants/claimed/*"),
    ],
)
def test_a_frozen_attempt_that_wakes_up_later_changes_nothing(
    nursery: Nursery, straight: RunDir, tmp_path: Path, operations: tuple[str, ...], path: str
) -> None:
    """The trainer freezes just before it would change something; so does the rest of its node."""
    run = nursery.create(tmp_path, soak_config(**FROZEN))
    first = nursery.start(run, TRAIN, Fault("freeze", operations=operations, path=path))
    await_(lambda: is_frozen(noted(run.path).get(TRAIN, os.getpid())), "the trainer to freeze")
    node = noted(run.path)
    for role in (SUPERVISOR, SYNTHESIS):
        os.kill(node[role], signal.SIGSTOP)
    await_(lambda: started(nursery, run), "the node to count as dead")
    begun = steps_done(run)
    await_(lambda: steps_done(run) >= begun + 3, "the second attempt to move")
    for pid in node.values():
        os.kill(pid, signal.SIGCONT)
    assert nursery.wait(first) in (0, 1), supervisor_log(run)  # 0: the second one finished the run meanwhile
    await_(lambda: stop.is_finished(run), "the end of the run")
    await_(lambda: not any(map(is_running, noted(run.path).values())), "the end of the second attempt")
    told = (run.attempt_dir(1) / "train.err").read_text()
    assert "attempt 2 of this run was started, this process belongs to attempt 1" in told
    assert differences(straight, run) == []


def started(nursery: Nursery, run: RunDir) -> bool:
    """Try to continue; refused while the frozen node still counts as alive."""
    nursery.start(run)
    time.sleep(1.0)
    return run.last_attempt() == 2


def put_seeds(run: RunDir) -> list[str]:
    """Every seed task of the run, as the trainer would emit them."""
    keys = []
    for number, task in enumerate(task_sources.load(soak_config().tasks).train):
        place = {"key": f"k{number}", "step": 1, "epoch": 1, "phi": 1.0, "depth_shift": 0}
        message = {**place, "task": task.to_json()}
        assert run.queue("seeds").put(f"k{number}", message)
        keys.append(f"k{number}")
    return sorted(keys)


def test_seeds_are_answered_exactly_once_while_one_of_two_daemons_dies_again_and_again(
    nursery: Nursery, tmp_path: Path
) -> None:
    run, rng, deaths = nursery.create(tmp_path, soak_config()), random.Random(2), 0
    keys = put_seeds(run)
    while answers(run) != keys:
        # Soon enough to leave work for the next; an idle daemon does nothing that could kill it.
        number = round(25 ** rng.random())
        victim = nursery.start_role(
            run, SYNTHESIS, 101 + deaths, Fault("kill", at=number, path=f"{run.path}/queues/*")
        )
        if deaths == 8:
            steady = nursery.start_role(run, SYNTHESIS, 100)
        deaths += 1
        await_(lambda victim=victim: nursery.poll(victim) is not None or answers(run) == keys, "a death")
    assert deaths > 8
    if nursery.poll(victim) is None:
        os.kill(
            victim, signal.SIGKILL
        )  # a role that is still starting would take the stop file for an old one
        nursery.wait(victim)
    await_(lambda: run.queue("seeds").counts()["done"] == len(keys), "the last commit")
    run.stop_file.touch()
    assert nursery.wait(steady) == 0
    assert answers(run) == keys
    assert sorted(run.queue("seeds").keys("done")) == keys


def test_a_daemon_frozen_past_its_lease_cannot_commit_and_nothing_is_answered_twice(
    nursery: Nursery, tmp_path: Path
) -> None:
    run = nursery.create(tmp_path, soak_config())
    keys = put_seeds(run)
    commit = Fault("freeze", operations=("rename",), path=f"{run.path}/queues/seeds/done/*")
    frozen = nursery.start_role(run, SYNTHESIS, 101, commit)
    await_(lambda: is_frozen(frozen), "the daemon to freeze before its first commit")
    heir = nursery.start_role(run, SYNTHESIS, 102)
    await_(lambda: sorted(run.queue("seeds").keys("done")) == keys, "the heir to answer everything")
    os.kill(frozen, signal.SIGCONT)
    log = run.attempts / "0101-synthesis.err"
    await_(lambda: "the lease was lost" in log.read_text(), "the frozen daemon to be refused")
    run.stop_file.touch()
    assert [nursery.wait(frozen), nursery.wait(heir)] == [0, 0]
    assert answers(run) == keys
    assert sorted(run.queue("seeds").keys("done")) == keys
    assert read_all(run.heartbeats)["synthesis"].finished
