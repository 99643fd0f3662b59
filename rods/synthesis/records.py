"""What the synthesis job writes down: its journal, its cumulative counters, and one line per event for
people.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rods.exchange.journal import JournalWriter
from rods.exchange.metrics import MetricsWriter, read_metrics
from rods.exchange.pressure import say
from rods.exchange.rundir import RunDir
from rods.synthesis.accounting import Costs
from rods.synthesis.errors import FAILURES
from rods.synthesis.pipeline import Outcome

ROLE = "synthesis"
_SAY_EVERY_S = 60.0
_SAID = {"claimed": "claimed", "accepted": "accepted", "dropped": "rejected"}
_COUNTERS = ("claimed", "accepted", "dropped", "quarantined", "attempts", "llm_calls")
_SPENT = {"llm_calls": "requests", "prompt_tokens": "prompt_tokens", "completion_tokens": "completion_tokens"}


class Records:
    """The files of one daemon in one attempt. The counters go on from the attempts before.

    Args:
        run: the run directory.
        writer: the name that this daemon writes under (`replica`).
        attempt: number of this (re)start.
    """

    def __init__(self, run: RunDir, writer: str, attempt: int) -> None:
        path = run.metrics / f"{writer}.jsonl"
        before: Mapping[str, Any] = next(reversed(read_metrics(path)), {})
        self.counters: Counter[str] = Counter({name: before.get(name, 0) for name in _COUNTERS})
        self.errors: Counter[str] = Counter(before.get("errors", {}))
        self._started = time.monotonic() - float(before.get("seconds", 0))
        # The start of the process is not counted: it is no part of what variants cost.
        self._cpu_before = float(before.get("cpu_seconds", 0)) - time.process_time()
        self._spent_before = {name: int(before.get(name, 0)) for name in _SPENT}
        self._said = float("-inf")
        self._metrics = MetricsWriter(path)
        self._journal = JournalWriter(run.journal_file(writer, attempt))

    def claimed(self, key: str, delivery: int) -> None:
        """A seed was claimed, for the `delivery`th time."""
        self.counters["claimed"] += 1
        self._journal.append({"name": "seed_claimed", "key": key, "delivery": delivery})

    def finished(self, key: str, outcome: Outcome, costs: Costs) -> None:
        """The pipeline came to an end with a seed.

        Args:
            key: the seed's.
            outcome: what became of it.
            costs: of this process so far, for the metrics line, which sums them up over all attempts.
        """
        for index, failure in enumerate(outcome.failures):
            self._journal.append({"name": "attempt_failed", "key": key, "index": index, **failure.to_json()})
        # Of the whole seed: its failed attempts are what its variants cost too.
        cost = {name: getattr(outcome.bill, name) for name in _SPENT.values()}
        for task in outcome.tasks:
            content = {"task_id": task.id, "content_id": task.content_id(), "seed_id": task.seed_id}
            self._journal.append({"name": "variant_published", "key": key, **content, "cost": cost})
        if not outcome.tasks:
            dropped = {"name": "seed_dropped", "key": key, "reason": outcome.reason}
            self._journal.append({**dropped, "cost": cost})
        self.counters["accepted"] += len(outcome.tasks)
        self.counters["dropped"] += not outcome.tasks
        self.counters["attempts"] += outcome.attempts
        self.errors.update(outcome.errors)
        self._write(costs)

    def quarantined(self, key: str, reason: str, costs: Costs) -> None:
        """A seed that cannot be worked on was set aside; it counts as dropped too."""
        self._journal.append({"name": "seed_quarantined", "key": key, "reason": reason})
        self.counters["quarantined"] += 1
        self.counters["dropped"] += 1
        self._write(costs)

    def handed_back(self, key: str) -> None:
        """A claim went back to the queue, because the role stops."""
        self._journal.append({"name": "seed_handed_back", "key": key})

    def close(self) -> None:
        """Make everything durable, and say for `rods logs` what it came to."""
        self._say()
        self._metrics.close()
        self._journal.close()

    def _write(self, costs: Costs) -> None:
        spent = {name: self._spent_before[name] + costs.total(counter) for name, counter in _SPENT.items()}
        self.counters["llm_calls"] = spent["llm_calls"]
        counts = {name: self.counters[name] for name in _COUNTERS}
        errors = {kind: self.errors[kind] for kind in FAILURES}
        seconds = round(time.monotonic() - self._started, 3)
        cpu = {"cpu_seconds": round(self._cpu_before + time.process_time(), 3)}
        line = {"time": time.time(), **counts, **spent, "seconds": seconds, **cpu, "errors": errors}
        made_by = {"agents": costs.agents, "stages": costs.stages}
        self._metrics.write({**line, **self._rates(spent), **made_by})
        if time.monotonic() - self._said >= _SAY_EVERY_S:
            self._say()

    def _say(self) -> None:
        self._said = time.monotonic()
        counts = ", ".join(f"{self.counters[name]} {word}" for name, word in _SAID.items())
        say(f"{time.strftime('%Y-%m-%d %H:%M:%S')} synthesis: seeds and variants so far: {counts}")

    def _rates(self, spent: Mapping[str, int]) -> dict[str, float | None]:
        """Acceptance by seed, and what an accepted variant cost; None before there is one."""
        accepted, ended = self.counters["accepted"], self.counters["accepted"] + self.counters["dropped"]
        tokens = spent["prompt_tokens"] + spent["completion_tokens"]
        return {
            "acceptance_rate": accepted / ended if ended else None,
            "calls_per_accepted": spent["llm_calls"] / accepted if accepted else None,
            "tokens_per_accepted": tokens / accepted if accepted else None,
        }
