"""The queue against a model: whatever the order of puts, claims, deaths and wake-ups, nothing is lost."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rods.exchange.queue import Claim, LeaseLostError, Queue

MAX_DELIVERIES = 3


class QueueMachine(RuleBasedStateMachine):
    """Two openers of one queue; the model is a dictionary per state, and the claims that lost their lease."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.queues = [Queue(self.folder / "q", max_deliveries=MAX_DELIVERIES) for _ in range(2)]
        self.puts: dict[str, tuple[float, int]] = {}  # key to what the order is judged by
        self.ready: dict[str, int] = {}  # key to deliveries so far
        self.held: list[Claim] = []
        self.expired: set[str] = set()  # tokens of silent owners
        self.zombies: list[Claim] = []
        self.done: set[str] = set()
        self.quarantined: set[str] = set()

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def order(self, key: str) -> tuple[float, int]:
        return self.puts[key]

    @rule(key=st.sampled_from("abcdefgh"), priority=st.sampled_from([-1.0, 0.0, 0.5]))
    def put(self, key: str, priority: float) -> None:
        # One producer, as for the seeds: the age among several is only as fine as the server's clock.
        fresh = key not in self.puts
        assert self.queues[0].put(key, {"key": key, "priority": priority}, priority=priority) == fresh
        if fresh:
            self.puts[key] = (-priority, len(self.puts))
            self.ready[key] = 0

    @rule(who=st.integers(0, 1))
    def claim(self, who: int) -> None:
        claim = self.queues[who].claim(f"worker-{who}")
        if not self.ready:
            assert claim is None
            return
        expected = min(self.ready, key=self.order)
        assert claim is not None
        assert (claim.key, claim.deliveries) == (expected, self.ready.pop(expected) + 1)
        assert claim.message == {"key": claim.key, "priority": -self.puts[claim.key][0]}
        self.held.append(claim)

    def pick(self, data: st.DataObject) -> Claim:
        claim = data.draw(st.sampled_from(self.held))
        self.held.remove(claim)
        return claim

    def failed(self, claim: Claim) -> None:
        if claim.deliveries >= MAX_DELIVERIES:
            self.quarantined.add(claim.key)
        else:
            self.ready[claim.key] = claim.deliveries

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        claim = self.pick(data)
        claim.commit()
        self.done.add(claim.key)
        self.zombies.append(claim)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        claim = self.pick(data)
        claim.release("failed")
        self.failed(claim)
        self.zombies.append(claim)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def hand_back(self, data: st.DataObject) -> None:
        claim = self.pick(data)
        claim.hand_back()
        self.ready[claim.key] = claim.deliveries - 1
        self.zombies.append(claim)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def quarantine(self, data: st.DataObject) -> None:
        claim = self.pick(data)
        claim.quarantine("bad")
        self.quarantined.add(claim.key)
        self.zombies.append(claim)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def freeze(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.held))
        (path,) = (path for path in (self.folder / "q" / "claimed").iterdir() if claim.token in path.name)
        old = path.stat().st_mtime - 600
        os.utime(path, (old, old))
        self.expired.add(claim.token)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.held))
        claim.renew()
        self.expired.discard(claim.token)

    @rule(who=st.integers(0, 1))
    def reap(self, who: int) -> None:
        taken = [claim for claim in self.held if claim.token in self.expired]
        assert self.queues[who].reap() == len(taken)
        for claim in taken:
            self.held.remove(claim)
            self.zombies.append(claim)
            self.failed(claim)

    @precondition(lambda self: self.zombies)
    @rule(data=st.data(), act=st.sampled_from(["commit", "renew", "hand_back", "release", "quarantine"]))
    def wake_up(self, data: st.DataObject, act: str) -> None:
        claim = data.draw(st.sampled_from(self.zombies))
        arguments = ["late"] if act in ("release", "quarantine") else []
        with pytest.raises(LeaseLostError):
            getattr(claim, act)(*arguments)

    @invariant()
    def every_message_is_where_the_model_says(self) -> None:
        queue = self.queues[1]
        assert queue.keys("ready") == sorted(self.ready, key=self.order)
        assert queue.keys("claimed") == sorted((claim.key for claim in self.held), key=self.order)
        assert queue.keys("done") == sorted(self.done)
        assert queue.keys("quarantine") == sorted(self.quarantined)
        assert sum(queue.counts().values()) == len(self.puts)


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
