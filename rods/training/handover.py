"""What the trainer hands over to the synthesis job and takes back from it.

Seeds go out, variants come in, through two queues and nothing else. The trainer never waits for synthesis,
except at the epoch barrier of a reproducible run: there it waits until every open seed is answered, and takes
the answers in seed order, so that arrival times leave no trace in the journal.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rods.config import Config
from rods.curriculum import pool
from rods.curriculum.events import Event, SeedClosed, SeedEmitted, SeedOutcome, VariantRefused
from rods.curriculum.records import SeedRequest
from rods.errors import RodsError
from rods.exchange.atomic import write_text
from rods.exchange.queue import Claim, Message, Queue
from rods.exchange.rundir import RunDir
from rods.simulation.session import Session
from rods.tasks.model import Task, TaskFormatError
from rods.training.ledger import Ledger

_OWNER = "train"
_POLL_S = 0.1
_LEASE_S = 3600.0  # the trainer is the queue's only consumer


class Handover:
    """The trainer's side of the two queues.

    Args:
        run: the run directory.
        ledger: where arrivals are recorded.
        tasks: every task of the run by id; accepted variants are added.
        config: how a task is played; a variant that cannot be played is refused.
    """

    def __init__(self, run: RunDir, ledger: Ledger, tasks: dict[str, Task], config: Config) -> None:
        self._run = run
        self._config = config
        self._ledger = ledger
        self._tasks = tasks
        self._seeds = run.queue("seeds")
        self._variants = run.queue("variants", lease_s=_LEASE_S)
        self._replayed: set[str] = set()  # open seeds that an attempt before this one had already queued

    def emit(self, seeds: list[SeedEmitted]) -> None:
        """Record seeds, then put them into the queue: a crash between the two is mended by `reopen`."""
        self._ledger.record(seeds)
        self._put(seeds)

    def reopen(self) -> None:
        """After a resume: queue open seeds again (no-op for those known) and take back answers already consumed."""
        for key in sorted(self._consumed() & set(self._ledger.state.requests)):
            self._remember(self._read_consumed(key))
        # What a dead attempt had in its hands is taken again, without counting its death against the message.
        self._variants.hand_back(_OWNER)
        # Only now is every task known: an open seed may itself be a variant.
        self._put([self._ledger.state.requests[key] for key in self.open_keys()])

    def open_keys(self) -> list[str]:
        """Keys of the seeds that synthesis has not answered, sorted."""
        return pool.open_requests(self._ledger.state)

    def receive(self) -> None:
        """Take every answer that is there, in key order, and close the seeds that can have none."""
        claims = {claim.key: claim for claim in self._claims()}
        taken_before = (self._replayed & self._consumed()) - claims.keys() if self._replayed else set()
        for key in sorted(claims.keys() | taken_before):
            if key in taken_before:
                message = self._read_consumed(key)
                self._remember(message)
                self._take(key, message)
            elif key in self._ledger.state.requests:
                self._answer(claims[key])
            else:
                # Asked for by an attempt before this one, in a step that is still to be done again.
                claims[key].hand_back()
        self._replayed -= taken_before
        self._close_unanswerable()

    def wait(self, timeout_s: float, interrupted: Callable[[], bool], on_wait: Callable[[int], None]) -> None:
        """The epoch barrier: wait for the open seeds, take their answers, give up on what is left.

        Args:
            timeout_s: after so many seconds the seeds still open are closed as expired.
            interrupted: asked while waiting; True ends the wait without closing anything.
            on_wait: told now and then how many seeds are still awaited.
        """
        deadline = time.monotonic() + timeout_s
        while missing := [key for key in self.open_keys() if not self._variants.known(key)]:
            self._close_unanswerable()
            if interrupted():
                return
            if time.monotonic() > deadline:
                self.receive()
                self._expire(missing, timeout_s)
                return
            on_wait(len(missing))
            time.sleep(_POLL_S)
        self.receive()

    def write_expanded(self, epoch: int) -> None:
        """Write the variants that arrived in `epoch` to `expanded/`, one JSON object a line."""
        arrived = pool.arrived(self._ledger.state, epoch)
        lines = [json.dumps(self._tasks[record.id].to_json(), sort_keys=True) + "\n" for record in arrived]
        write_text(self._run.expanded_file(epoch), "".join(lines))

    def counts(self) -> dict[str, dict[str, int]]:
        """Messages by state in both queues."""
        return {"seeds": self._seeds.counts(), "variants": self._variants.counts()}

    def _put(self, seeds: Sequence[SeedEmitted | SeedRequest]) -> None:
        """Queue seeds, several in a file. The trainer does not wait for room: what is too much is dropped."""
        exchange = self._config.exchange
        fresh = self._seeds.put_many(map(self._message, seeds), exchange.seed_batch)
        self._replayed |= {seed.key for seed in seeds} - fresh
        if self._seeds.shed(exchange.max_ready_seeds, _OWNER):
            self._close_unanswerable()

    def _message(self, seed: SeedEmitted | SeedRequest) -> Message:
        content = {
            "key": seed.key,
            "step": seed.step,
            "epoch": seed.epoch,
            "phi": seed.phi,
            "depth_shift": seed.depth_shift,
            "task": self._tasks[seed.task_id].to_json(),
        }
        return Message(seed.key, content, seed.phi)

    def _claims(self) -> Iterator[Claim]:
        self._variants.reap()
        while (claim := self._variants.claim(_OWNER)) is not None:
            yield claim

    def _answer(self, claim: Claim) -> None:
        try:
            self._remember(claim.message)
            self._take(claim.key, claim.message)
        except (TaskFormatError, KeyError, TypeError, ValueError) as error:
            reason = f"malformed answer: {error!r}"
            claim.quarantine(reason)
            self._close(claim.key, SeedOutcome.DROPPED, reason)
            return
        claim.commit()

    def _remember(self, message: Mapping[str, Any]) -> None:
        for task in map(Task.from_json, message["tasks"]):
            self._tasks.setdefault(task.id, task)

    def _take(self, key: str, message: Mapping[str, Any]) -> None:
        """Record an answer: its variants one by one, then the seed's outcome. A second answer changes nothing."""
        request = self._ledger.state.requests.get(key)
        if request is not None and request.outcome in (SeedOutcome.PUBLISHED, SeedOutcome.DROPPED):
            return
        outcome, reason = SeedOutcome(message["outcome"]), str(message["reason"])
        for index, task in enumerate(map(Task.from_json, message["tasks"])):
            state = self._ledger.state
            event: Event = pool.admit(state, task, key, index, state.step, state.epoch)
            if not self._playable(task):
                event = VariantRefused(state.step, state.epoch, task.id, key, "unplayable")
            self._ledger.record([event])
        self._close(key, outcome, reason)

    def _playable(self, task: Task) -> bool:
        """Whether an episode of the task can be opened: one that cannot would end the run when sampled."""
        try:
            Session(task, self._config.simulation, self._config.reward)
        except RodsError:
            return False
        return True

    def _close_unanswerable(self) -> None:
        """Drop the open seeds whose answer, or whose message, was set aside, or for which there was no room."""
        for queue, state in (
            (self._variants, "quarantine"),
            (self._seeds, "quarantine"),
            (self._seeds, "dropped"),
        ):
            for key in sorted(set(self.open_keys()) & set(queue.keys(state))):
                if queue is self._variants or not self._variants.known(key):
                    self._close(key, SeedOutcome.DROPPED, _last_reason(queue, key))

    def _close(self, key: str, outcome: SeedOutcome, reason: str) -> None:
        state = self._ledger.state
        request = state.requests.get(key)
        if request is not None and request.outcome in (None, SeedOutcome.EXPIRED):
            self._ledger.record([SeedClosed(state.step, state.epoch, key, outcome, reason)])

    def _expire(self, keys: list[str], timeout_s: float) -> None:
        for key in keys:
            if self._ledger.state.requests[key].outcome is None:
                self._close(
                    key, SeedOutcome.EXPIRED, f"no answer within {timeout_s:g} s at the epoch barrier"
                )

    def _consumed(self) -> set[str]:
        """Keys of the answers that an attempt before this one took from the queue."""
        return {key for state in ("done", "claimed") for key in self._variants.keys(state)}

    def _read_consumed(self, key: str) -> dict[str, Any]:
        state = "done" if key in self._variants.keys("done") else "claimed"
        return self._variants.read(state, key)


def _last_reason(queue: Queue, key: str) -> str:
    failures = queue.failures(key)
    return failures[-1].reason if failures else "set aside without a reason"
