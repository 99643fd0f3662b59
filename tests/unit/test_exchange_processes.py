"""The queue between real processes: races, kill -9, and a worker that is stopped past its lease."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from rods.exchange.queue import Queue

PROCESSES = 4
MESSAGES = 200
DRAIN = """
import sys
from pathlib import Path
from rods.exchange.queue import Queue
queue = Queue(Path(sys.argv[1]))
print("up", flush=True)
sys.stdin.readline()
while (claim := queue.claim(sys.argv[2])) is not None:
    claim.commit()
    print(claim.key)
"""
FILL = """
import sys
from pathlib import Path
from rods.exchange.queue import Queue
queue = Queue(Path(sys.argv[1]))
print("up", flush=True)
sys.stdin.readline()
for number in range(50):
    if queue.put(f"k{number}", {"by": sys.argv[2]}):
        print(f"k{number}")
"""
HOLD = """
import sys
from pathlib import Path
from rods.exchange.queue import LeaseLostError, Queue
claim = Queue(Path(sys.argv[1])).claim(sys.argv[2])
print(claim.key, flush=True)
sys.stdin.readline()
try:
    claim.commit()
    print("committed")
except LeaseLostError:
    print("refused")
"""


def start(code: str, root: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(root), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def first_line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def run_together(code: str, root: Path) -> list[list[str]]:
    """What each of PROCESSES printed when all were let go at once."""
    children = [start(code, root, f"p{number}") for number in range(PROCESSES)]
    assert [first_line(child) for child in children] == ["up"] * PROCESSES
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    outputs = [child.communicate(timeout=120)[0].split() for child in children]
    assert [child.returncode for child in children] == [0] * PROCESSES
    return outputs


def reap_until_one(queue: Queue) -> None:
    deadline = time.monotonic() + 60
    while not queue.reap():
        assert time.monotonic() < deadline, "the lease never ran out"
        time.sleep(0.05)


def test_racing_consumers_commit_each_message_exactly_once(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "q")
    keys = {f"k{number}" for number in range(MESSAGES)}
    for key in keys:
        queue.put(key, {})
    outputs = run_together(DRAIN, queue.root)
    counts = Counter(key for output in outputs for key in output)
    assert counts == Counter(keys)
    assert queue.counts() == {"ready": 0, "claimed": 0, "done": MESSAGES, "quarantine": 0, "dropped": 0}


def test_racing_producers_of_one_key_publish_it_once(tmp_path: Path) -> None:
    outputs = run_together(FILL, tmp_path / "q")
    winners = Counter(key for output in outputs for key in output)
    assert winners == Counter(f"k{number}" for number in range(50))
    queue = Queue(tmp_path / "q")
    assert sorted(queue.keys("ready")) == sorted(winners)
    assert list((tmp_path / "q" / "tmp").iterdir()) == []


def test_the_message_of_a_killed_worker_comes_back(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "q", lease_s=0.5)
    queue.put("k", {"n": 1})
    child = start(HOLD, queue.root, "victim")
    assert first_line(child) == "k"
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert queue.claim("heir") is None
    reap_until_one(queue)
    claim = queue.claim("heir")
    assert claim is not None
    assert (claim.message, claim.deliveries) == ({"n": 1}, 2)
    claim.commit()
    assert queue.failures("k")[0].owner == "victim"


def test_a_worker_stopped_past_its_lease_cannot_commit_when_it_wakes(tmp_path: Path) -> None:
    queue = Queue(tmp_path / "q", lease_s=0.5)
    queue.put("k", {})
    child = start(HOLD, queue.root, "frozen")
    assert first_line(child) == "k"
    os.kill(child.pid, signal.SIGSTOP)
    try:
        reap_until_one(queue)
        heir = queue.claim("heir")
        assert heir is not None
    finally:
        os.kill(child.pid, signal.SIGCONT)
    output, _ = child.communicate("\n", timeout=60)
    assert output.split() == ["refused"]
    heir.commit()
    assert queue.counts() == {"ready": 0, "claimed": 0, "done": 1, "quarantine": 0, "dropped": 0}
