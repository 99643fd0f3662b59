"""What synthesis costs: requests and tokens by agent and by seed, seconds by agent and by stage."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

_RECENT = 512  # latest answers whose latencies are kept for quantiles


@dataclass
class Bill:
    """What one seed cost so far, all its attempts together.

    Attributes:
        requests: sent to a server, failed ones included.
        prompt_tokens, completion_tokens: as the server counts them.
        outages: how often in a row the server went away while it owed the seed an answer.
    """

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    outages: int = 0


_bill: ContextVar[Bill] = ContextVar("bill")


@contextmanager
def billed() -> Iterator[Bill]:
    """A bill for all that is asked in this block, by this asyncio task and those that it starts."""
    token = _bill.set(Bill())
    try:
        yield _bill.get()
    finally:
        _bill.reset(token)


def current_bill() -> Bill:
    """The bill of the block around; one that nobody reads outside of any."""
    return _bill.get(None) or Bill()


@dataclass
class Durations:
    """How often something was done and how long it took.

    Attributes:
        count: times.
        seconds: of all of them.
        recent: seconds of the latest.
    """

    count: int = 0
    seconds: float = 0.0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def add(self, seconds: float) -> None:
        """It was done once more."""
        self.count += 1
        self.seconds += seconds
        self.recent.append(seconds)

    def to_json(self) -> dict[str, Any]:
        """The sums, and the quantiles `p50_s`, `p95_s` of the latest (None without any)."""
        ordered = sorted(self.recent)
        return {
            "count": self.count,
            "seconds": round(self.seconds, 4),
            "p50_s": _quantile(ordered, 0.5),
            "p95_s": _quantile(ordered, 0.95),
        }


@dataclass
class Account:
    """One agent's share.

    Attributes:
        requests: sent to a server, failed ones included.
        failed: that brought no answer (transient faults and refusals).
        cached: answers taken from the request cache.
        invalid: answers that did not validate.
        prompt_tokens, completion_tokens: as the server counts them.
        answers: how long the requests took that were answered.
    """

    requests: int = 0
    failed: int = 0
    cached: int = 0
    invalid: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    answers: Durations = field(default_factory=Durations)

    def sent(self) -> None:
        """A request goes out; the seed's bill has it too."""
        self.requests += 1
        current_bill().requests += 1

    def answered(self, seconds: float, prompt_tokens: int, completion_tokens: int) -> None:
        """A request brought an answer."""
        bill = current_bill()
        for kept in (self, bill):
            kept.prompt_tokens += prompt_tokens
            kept.completion_tokens += completion_tokens
        self.answers.add(seconds)

    def to_json(self) -> dict[str, Any]:
        """The counters, and the latency of the answers: `seconds`, `p50_s`, `p95_s`."""
        latency = self.answers.to_json()
        return {
            "requests": self.requests,
            "failed": self.failed,
            "cached": self.cached,
            "invalid": self.invalid,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            **{name: latency[name] for name in ("seconds", "p50_s", "p95_s")},
        }


@dataclass(frozen=True)
class Costs:
    """The accounts as they stood at one moment, as JSON: agent → counters, stage → durations."""

    agents: Mapping[str, Mapping[str, Any]]
    stages: Mapping[str, Mapping[str, Any]]

    def total(self, counter: str) -> int:
        """Sum over the agents."""
        return sum(int(account[counter]) for account in self.agents.values())


class Accounts:
    """The accounts of all agents and stages of one process."""

    def __init__(self) -> None:
        self._agents: defaultdict[str, Account] = defaultdict(Account)
        self._stages: defaultdict[str, Durations] = defaultdict(Durations)

    def of(self, agent: str) -> Account:
        """The account of `agent`, opened on first use."""
        return self._agents[agent]

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Clock a stage of the pipeline, waiting for answers included, whether it succeeds or fails."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._stages[name].add(time.monotonic() - began)

    def total(self, name: str) -> int:
        """Sum of the counter `name` over the agents."""
        return sum(int(getattr(account, name)) for account in self._agents.values())

    def to_json(self) -> dict[str, Any]:
        """Agent → its counters."""
        return {agent: account.to_json() for agent, account in sorted(self._agents.items())}

    def costs(self) -> Costs:
        """All of it, as it stands."""
        stages = {name: durations.to_json() for name, durations in self._stages.items()}
        return Costs(self.to_json(), stages)


def _quantile(ordered: Sequence[float], fraction: float) -> float | None:
    """The value at `fraction` of the ordered values (nearest rank below)."""
    return round(ordered[int(fraction * (len(ordered) - 1))], 4) if ordered else None
