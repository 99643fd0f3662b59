"""Variants one step deeper or shallower than their seed: what a step is, and how far a variant is from having taken it.

In the paper a variant has its seed's Φ. Where the trainer asks for more or less (`boundary.depth_shift`), it must lie
one *step* away: one turn more, or one call more in the same turns, or the same calls with the longest path of
dependencies longer by one (a result that a later call needs and the user does not say). Its distance is that of the
profiles with the step taken back, so that all the rest is held to the seed as it always is. All of it is ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rods.tasks.profile import Edge, Profile, depth_of, distance

SHIFTS = {-1: "one step shallower than the seed's", 0: "the seed's", 1: "one step deeper than the seed's"}
"""Every shift there is, and what it makes of Φ in words."""


@dataclass(frozen=True)
class Target:
    """The Φ that a variant shall have: the seed's, moved by `shift` (a key of `SHIFTS`)."""

    seed: Profile
    shift: int = 0

    def distance(self, found: Profile) -> float:
        """How far a profile is from the target, in [0, 1]; 1.0 where it is not as many steps away from the seed's."""
        if self.shift == 0:
            return distance(found, self.seed)
        deeper, other = (found, self.seed) if self.shift > 0 else (self.seed, found)
        return min((distance(undone, other) for undone in _undone(deeper, other)), default=1.0)


def _undone(deeper: Profile, other: Profile) -> Iterator[Profile]:
    """`deeper` with one step taken back, in every way that leaves it as large as `other`; none where they do not differ
    by one.
    """
    calls, kept = len(deeper.functions), len(other.functions)
    if deeper.turns == other.turns + 1:
        for turn in range(deeper.turns):
            yield _without_turn(deeper, turn)
    elif deeper.turns == other.turns and calls == kept + 1:
        for call in range(calls):
            yield _without_call(deeper, call)
    elif deeper.turns == other.turns and calls == kept and deeper.depth == other.depth + 1:
        yield replace(deeper, depth=other.depth)


def _without_turn(profile: Profile, turn: int) -> Profile:
    start = sum(profile.calls_per_turn[:turn])
    gone = range(start, start + profile.calls_per_turn[turn])
    return _without(profile, gone, (*profile.calls_per_turn[:turn], *profile.calls_per_turn[turn + 1 :]))


def _without_call(profile: Profile, call: int) -> Profile:
    counts = list(profile.calls_per_turn)
    turn, end = 0, counts[0]
    while end <= call:
        turn += 1
        end += counts[turn]
    counts[turn] -= 1
    return _without(profile, range(call, call + 1), tuple(counts))


def _without(profile: Profile, gone: range, calls_per_turn: tuple[int, ...]) -> Profile:
    """The profile without a stretch of calls: those after it move up, and what flowed from or into it is gone."""

    def moved(index: int) -> int:
        return index - len(gone) if index >= gone.stop else index

    functions = profile.functions[: gone.start] + profile.functions[gone.stop :]
    edges = tuple(
        Edge(moved(edge.source), moved(edge.target))
        for edge in profile.edges
        if edge.source not in gone and edge.target not in gone
    )
    return replace(
        profile, calls_per_turn=calls_per_turn, functions=functions, edges=edges, depth=depth_of(edges)
    )
