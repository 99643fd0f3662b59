"""Why Slurm signalled this process, and what becomes of its job.

A signal alone does not say it. SIGTERM comes from a person's scancel, from a preemption after which Slurm itself
requeues the job, from one that only warns, from the time limit, and from srun when another task of the step has
died. What tells these apart is the controller's record of the job at that moment (docs/slurm.md shows what was
seen of each on a real Slurm).
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from launchers.resources import TRAIN
from launchers.states import Phase, lookup
from rods.errors import RodsError
from rods.exchange.pressure import say

_ASK_S = 10.0  # Slurm's KillWait is 30 s by default, and the answer must come before the kill
_HETEROGENEOUS = "SLURM_HET_SIZE"


class Then(StrEnum):
    """What becomes of the job after this start.

    `put_back`: it ends, unless it is requeued by us. `put_back_now`: the same, and it is being ended already.
    `returns`: Slurm puts it back. `ends`: it stays ended, as a person wants it. `failed`: it stays ended, and a person
    has to look at it.
    """

    put_back = "put back"
    put_back_now = "put back now"
    returns = "returns"
    ends = "ends"
    failed = "failed"


@dataclass(frozen=True)
class Notice:
    """One signal, understood: the reason in words, and what becomes of the job."""

    reason: str
    then: Then


@dataclass(frozen=True)
class Task:
    """This process as Slurm knows it.

    Attributes:
        job_id: what sbatch printed; of a heterogeneous job the id of its first component.
        component_id: the id of the component that this process is in; `job_id` when there is but one.
        restart: how often Slurm has put the job back and started it again.
        rank: of this process among those of its step.
    """

    job_id: str
    component_id: str
    restart: int
    rank: int

    @classmethod
    def of(cls, role: str, environment: Mapping[str, str] = os.environ) -> Task:
        """The task that `role` runs in; the trainer is the first component of a heterogeneous job."""
        job_id = environment["SLURM_JOB_ID"]
        component = 0 if role == TRAIN else int(environment.get(_HETEROGENEOUS, "1")) - 1
        return cls(
            job_id,
            environment.get(f"SLURM_JOB_ID_HET_GROUP_{component}", job_id),
            int(environment.get("SLURM_RESTART_COUNT", "0")),
            int(environment.get("SLURM_PROCID", "0")),
        )


def ask(task: Task) -> Mapping[str, str]:
    """What the controller says of the task's component, as `scontrol show job` names it; empty without an answer."""
    try:
        done = subprocess.run(
            ["scontrol", "--oneliner", "show", "job", task.component_id],
            capture_output=True,
            text=True,
            timeout=_ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    words = done.stdout.splitlines()[0].split() if done.returncode == 0 and done.stdout else []
    return dict(word.split("=", 1) for word in words if "=" in word)


def explain(number: signal.Signals, restart: int, record: Mapping[str, str]) -> Notice:
    """What `number` means, given the controller's record right after it came.

    Args:
        restart: Slurm's restart count of the start that was signalled.
        record: of `ask`; empty when the controller gave no answer. Nothing is then put back: a job that a person
            has cancelled must not come back.
    """
    preempted = record.get("PreemptTime", "None") != "None"
    if number == signal.SIGUSR2:
        what = "a preemption is near" if preempted else "the time limit is near"
        return Notice(f"{what} ({number.name})", Then.put_back)
    if not record:
        return Notice(f"{number.name} came, and Slurm gave no answer why", Then.ends)
    if lookup(record.get("JobState", "")).phase in (Phase.running, Phase.unknown):
        if preempted:
            return Notice(f"a preemption is near ({number.name})", Then.put_back)
        # What srun sends to all tasks of a step when one of them has ended badly.
        return Notice(f"another task of the job died, or a person sent {number.name}", Then.failed)
    return _already_decided(restart, record)


def _already_decided(restart: int, record: Mapping[str, str]) -> Notice:
    if record.get("Restarts", "").isdigit() and int(record["Restarts"]) > restart:
        return Notice("Slurm put the job back: a preemption, a lost node or a person's requeue", Then.returns)
    if record.get("Reason") == "TimeLimit":
        return Notice("the time limit came before the state was saved", Then.put_back_now)
    return Notice("the job or this part of it was cancelled", Then.ends)


class Listener:
    """Takes a process's signals and finds out, beside its work, why each came.

    Args:
        explain: understands one signal; may take seconds.
        act: is told of each notice, in the listener's thread.
    """

    def __init__(self, explain: Callable[[signal.Signals], Notice], act: Callable[[Notice], None]) -> None:
        self._explain, self._act = explain, act
        # Its put may be interrupted by another put, as a handler by another signal.
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._notice: Notice | None = None
        self._thread = threading.Thread(target=self._listen, name="signals", daemon=True)
        self._thread.start()

    def hear(self, number: int) -> None:
        """Note a signal; returns at once and may be called from its handler. 0 ends the listening."""
        self._signals.put(number)

    def close(self) -> Notice | None:
        """Stop listening; the newest notice, since a cancellation may follow a warning."""
        self.hear(0)
        self._thread.join(2 * _ASK_S)
        return self._notice

    def _listen(self) -> None:
        while number := self._signals.get():
            try:
                self._notice = self._explain(signal.Signals(number))
                self._act(self._notice)
            except (RodsError, OSError) as error:
                say(f"{signal.Signals(number).name}: {error}")
