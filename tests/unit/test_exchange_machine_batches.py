"""The queue with batches against a model: several workers, leases that end, depth limits; nothing lost or doubled."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rods.exchange.queue import DONE, HANDED_BACK, Claim, Ending, Fate, LeaseLostError, Message, Queue

MAX_DELIVERIES = 2
WORKERS = 3
KEYS = "abcdefghij"
ENDINGS = (
    DONE,
    HANDED_BACK,
    Ending(Fate.FAILED, "failed"),
    Ending(Fate.QUARANTINED, "poison"),
    Ending(Fate.DROPPED, "unwanted"),
)
EXPIRED, SHED = "expired", "were dropped"
workers = st.integers(0, WORKERS - 1)
puts = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from([-1.0, 0.0, 0.5])), min_size=1, max_size=6)


@dataclass(frozen=True)
class File:
    """A file in ready or claimed, as the model has it.

    Attributes:
        age: number of the file among all that were put.
        deliveries: how often it was claimed.
        members: keys with their priorities, the best first.
    """

    age: int
    deliveries: int
    members: tuple[tuple[str, float], ...]

    @property
    def order(self) -> tuple[float, int, int, str]:
        return (-self.members[0][1], self.age, self.deliveries, self.members[0][0])

    def single(self, number: int, deliveries: int) -> File:
        return replace(self, deliveries=deliveries, members=(self.members[number],))


@dataclass(frozen=True)
class Held:
    """A claim that its worker believes in, and the model's file."""

    claim: Claim
    file: File


class BatchMachine(RuleBasedStateMachine):
    """One producer, several workers; every worker has opened the queue for itself."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.queues = [Queue(self.folder / "q", max_deliveries=MAX_DELIVERIES) for _ in range(WORKERS)]
        self.ages = count()
        self.ready: list[File] = []
        self.held: list[Held] = []
        self.silent: set[str] = set()  # tokens of workers whose lease ran out
        self.zombies: list[Claim] = []
        self.ended: dict[str, str] = {}  # key to its last state
        self.reasons: dict[str, list[str]] = {}

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @property
    def in_order(self) -> list[File]:
        return sorted(self.ready, key=lambda file: file.order)

    @rule(wanted=puts, per_file=st.integers(1, 3))
    def put_many(self, wanted: list[tuple[str, float]], per_file: int) -> None:
        first = dict(reversed(wanted))
        messages = [Message(key, {"from": key}, priority) for key, priority in wanted]
        unique = sorted(dict.fromkeys(key for key, _ in wanted), key=lambda key: -first[key])
        fresh = [(key, first[key]) for key in unique if key not in self.reasons]
        assert self.queues[0].put_many(messages, per_file) == {key for key, _ in fresh}
        for start in range(0, len(fresh), per_file):
            members = tuple(fresh[start : start + per_file])
            self.ready.append(File(next(self.ages), 0, members))
            self.reasons.update((key, []) for key, _ in members)

    @rule(who=workers, wanted=st.integers(1, 5))
    def claim_many(self, who: int, wanted: int) -> None:
        expected: list[File] = []
        for file in self.in_order:
            if sum(len(one.members) for one in expected) < wanted:
                expected.append(file)
        claims = self.queues[who].claim_many(f"worker-{who}", wanted)
        assert len(claims) == len(expected)
        for claim, file in zip(claims, expected, strict=True):
            taken = replace(file, deliveries=file.deliveries + 1)
            self.ready.remove(file)
            self.held.append(Held(claim, taken))
            assert [(one.key, one.priority) for one in claim.messages] == list(file.members)
            assert all(one.content == {"from": one.key} for one in claim.messages)
            assert (claim.deliveries, claim.owner) == (taken.deliveries, f"worker-{who}")

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.held))
        endings = {key: data.draw(st.sampled_from(ENDINGS)) for key, _ in held.file.members}
        held.claim.settle(endings)
        self.end(held, endings)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), act=st.sampled_from(["commit", "hand_back", "release", "quarantine"]))
    def end_alike(self, data: st.DataObject, act: str) -> None:
        held = data.draw(st.sampled_from(self.held))
        reason = ["all of it"] if act in ("release", "quarantine") else []
        getattr(held.claim, act)(*reason)
        fates = {"commit": Fate.DONE, "hand_back": Fate.HANDED_BACK, "release": Fate.FAILED}
        ending = Ending(fates.get(act, Fate.QUARANTINED), *reason)
        self.end(held, {key: ending for key, _ in held.file.members})

    def end(self, held: Held, endings: dict[str, Ending]) -> None:
        """What the model makes of a delivery's end."""
        self.held.remove(held)
        self.silent.discard(held.claim.token)
        self.zombies.append(held.claim)
        fates, file = {ending.fate for ending in endings.values()}, held.file
        if fates == {Fate.HANDED_BACK}:
            self.ready.append(replace(file, deliveries=file.deliveries - 1))
            return
        for number, (key, _) in enumerate(file.members):
            self.end_one(key, endings[key], file, number)

    def end_one(self, key: str, ending: Ending, file: File, number: int) -> None:
        if ending.fate is Fate.HANDED_BACK:
            self.ready.append(file.single(number, file.deliveries - 1))
            return
        if ending.reason:
            self.reasons[key].append(ending.reason)
        if ending.fate is Fate.FAILED and file.deliveries < MAX_DELIVERIES:
            self.ready.append(file.single(number, file.deliveries))
        else:
            states = {Fate.DONE: "done", Fate.DROPPED: "dropped"}
            self.ended[key] = states.get(ending.fate, "quarantine")

    @rule(limit=st.integers(0, 8), who=workers)
    def shed(self, limit: int, who: int) -> None:
        waiting = [
            (-priority, file.age, file.members[0][0] if len(file.members) == 1 else "", number, file)
            for file in self.ready
            for number, (_, priority) in enumerate(file.members)
        ]
        lowest = sorted(waiting, key=lambda one: one[:4])[limit:]
        assert self.queues[who].shed(limit, f"worker-{who}") == len(lowest)
        for file in {one[4] for one in lowest}:
            self.drop(file, {number for *_, number, found in lowest if found is file})

    def drop(self, file: File, numbers: set[int]) -> None:
        self.ready.remove(file)
        for number, (key, _) in enumerate(file.members):
            if number in numbers:
                self.ended[key] = "dropped"
                self.reasons[key].append(SHED)
            else:
                self.ready.append(file.single(number, file.deliveries))

    @rule(who=workers, owner=workers)
    def hand_back_of_an_owner(self, who: int, owner: int) -> None:
        mine = [held for held in self.held if held.claim.owner == f"worker-{owner}"]
        assert self.queues[who].hand_back(f"worker-{owner}") == len(mine)
        for held in mine:
            self.end(held, {key: HANDED_BACK for key, _ in held.file.members})

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def freeze(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.held))
        (path,) = (p for p in (self.folder / "q" / "claimed").iterdir() if held.claim.token in p.name)
        old = path.stat().st_mtime - 600
        os.utime(path, (old, old))
        self.silent.add(held.claim.token)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.held))
        held.claim.renew()
        self.silent.discard(held.claim.token)

    @rule(who=workers)
    def reap(self, who: int) -> None:
        taken = [held for held in self.held if held.claim.token in self.silent]
        assert self.queues[who].reap() == len(taken)
        expired = Ending(Fate.FAILED, EXPIRED)
        for held in taken:
            self.end(held, {key: expired for key, _ in held.file.members})

    @precondition(lambda self: self.zombies)
    @rule(data=st.data(), act=st.sampled_from(["commit", "renew", "hand_back", "release", "settle"]))
    def wake_up(self, data: st.DataObject, act: str) -> None:
        """Whoever lost the lease changes nothing, though its messages may be in other hands by now."""
        claim = data.draw(st.sampled_from(self.zombies))
        drawn = {one.key: data.draw(st.sampled_from(ENDINGS)) for one in claim.messages}
        arguments = {"release": ["late"], "settle": [drawn]}.get(act, [])
        with pytest.raises(LeaseLostError):
            getattr(claim, act)(*arguments)

    @invariant()
    def every_message_is_where_the_model_says(self) -> None:
        queue = self.queues[-1]
        held = sorted((held.file for held in self.held), key=lambda file: file.order)
        assert queue.keys("ready") == [key for file in self.in_order for key, _ in file.members]
        assert queue.keys("claimed") == [key for file in held for key, _ in file.members]
        for state in ("done", "quarantine", "dropped"):
            assert queue.keys(state) == sorted(key for key, found in self.ended.items() if found == state)
        assert sum(queue.counts().values()) == len(self.reasons)
        assert list((self.folder / "q" / "tmp").iterdir()) == []

    @invariant()
    def every_failure_has_its_reason_and_only_those_that_counted(self) -> None:
        for key, wanted in self.reasons.items():
            found = [shortened(failure.reason) for failure in self.queues[-1].failures(key)]
            assert sorted(found) == sorted(wanted), key


def shortened(reason: str) -> str:
    """The queue's own reasons as the model has them."""
    for words in (EXPIRED, SHED):
        if words in reason:
            return words
    return reason


TestBatchMachine = BatchMachine.TestCase
TestBatchMachine.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
