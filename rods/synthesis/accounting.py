"""What the agents cost: requests, tokens and seconds, by agent."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_RECENT = 512  # latest answers whose latencies are kept for quantiles


@dataclass
class Account:
    """One agent's share.

    Attributes:
        requests: sent to a server, failed ones included.
        failed: that brought no answer (transient faults and refusals).
        cached: answers taken from the request cache.
        invalid: answers that did not validate.
        prompt_tokens, completion_tokens: as the server counts them.
        seconds: of the requests that were answered.
        recent: seconds of the latest of them.
    """

    requests: int = 0
    failed: int = 0
    cached: int = 0
    invalid: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))

    def answered(self, seconds: float, prompt_tokens: int, completion_tokens: int) -> None:
        """A request brought an answer."""
        self.seconds += seconds
        self.recent.append(seconds)
        self.prompt_tokens += prompt_tokens
        self.completion_tokens += completion_tokens

    def to_json(self) -> dict[str, Any]:
        """The counters, and the quantiles `p50_s`, `p95_s` of the latest answers (None without any)."""
        ordered = sorted(self.recent)
        return {
            "requests": self.requests,
            "failed": self.failed,
            "cached": self.cached,
            "invalid": self.invalid,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "seconds": round(self.seconds, 3),
            "p50_s": _quantile(ordered, 0.5),
            "p95_s": _quantile(ordered, 0.95),
        }


class Accounts:
    """The accounts of all agents of one process."""

    def __init__(self) -> None:
        self._agents: defaultdict[str, Account] = defaultdict(Account)

    def of(self, agent: str) -> Account:
        """The account of `agent`, opened on first use."""
        return self._agents[agent]

    def total(self, name: str) -> int:
        """Sum of the counter `name` over the agents."""
        return sum(int(getattr(account, name)) for account in self._agents.values())

    def to_json(self) -> dict[str, Any]:
        """Agent → its counters."""
        return {agent: account.to_json() for agent, account in sorted(self._agents.items())}


def _quantile(ordered: Sequence[float], fraction: float) -> float | None:
    """The value at `fraction` of the ordered values (nearest rank below)."""
    return round(ordered[int(fraction * (len(ordered) - 1))], 4) if ordered else None
