"""A claimed file of seeds under work: one claim, one lease, and an ending for each of its seeds."""

from __future__ import annotations

from dataclasses import dataclass, field

from rods.exchange.queue import Claim, Ending


@dataclass
class Delivery:
    """Collects the endings of a claim's seeds; with the last of them the claim ends.

    Attributes:
        claim: one seed, or a batch of them.
        endings: of the seeds that are done with, by key.
    """

    claim: Claim
    endings: dict[str, Ending] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether each of its seeds has an ending."""
        return len(self.endings) == len(self.claim.messages)

    def end(self, key: str, ending: Ending) -> None:
        """Say what becomes of one seed. Raises LeaseLostError when it is the last one and fenced off."""
        self.endings[key] = ending
        if self.ended:
            self.claim.settle(self.endings)
