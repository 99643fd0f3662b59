"""The counting of benchmarks.exchange, on queues that misbehave in known ways."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.exchange_rounds import play, tally
from benchmarks.exchange_systems import TORN, Delivery, OursSingle, System, encode, key_of

KEYS = [f"k{number}" for number in range(12)]


class Folder(System):
    """A file per message, for one process."""

    name = "folder"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, keys: Sequence[str]) -> None:
        (self._folder / keys[0]).write_text(json.dumps(keys[0]), encoding="utf-8")

    def take(self) -> Delivery | None:
        found = sorted(self._folder.iterdir())
        return (found[0], [found[0].name]) if found else None

    def ack(self, ticket: Any) -> None:
        ticket.unlink()


class Forgetful(Folder):
    """Loses every message whose key ends in 1."""

    def put(self, keys: Sequence[str]) -> None:
        if not keys[0].endswith("1"):
            super().put(keys)


class Doubling(Folder):
    """Delivers k3 twice."""

    _again = True

    def ack(self, ticket: Any) -> None:
        if ticket.name == "k3" and self._again:
            self._again = False
        else:
            super().ack(ticket)


class Failing(Folder):
    """Cannot take anything."""

    def take(self) -> Delivery | None:
        raise OSError("the disk is on fire")


class TestTally:
    def test_a_message_never_applied_is_lost_and_each_further_effect_is_a_duplicate(self) -> None:
        counted = tally(["a", "b", "c"], ["b", "c", "c", "c"])
        assert (counted.lost, counted.duplicated) == (1, 2)

    def test_an_effect_of_a_put_that_did_not_return_is_neither(self) -> None:
        counted = tally(["a"], ["a", "b"])
        assert (counted.lost, counted.duplicated) == (0, 0)

    def test_what_is_no_whole_message_is_torn_and_not_a_duplicate(self) -> None:
        counted = tally(["a"], [TORN, "a", TORN])
        assert (counted.lost, counted.duplicated, counted.torn) == (0, 0, 2)

    def test_half_a_message_is_torn(self) -> None:
        whole = encode("a")
        assert [key_of(whole), key_of(whole[:100]), key_of(b"")] == ["a", TORN, TORN]


class TestPlay:
    @pytest.mark.parametrize(
        ("kind", "lost", "duplicated"), [(Folder, 0, 0), (Forgetful, 2, 0), (Doubling, 0, 1)]
    )
    def test_counts_what_the_queue_did(
        self, kind: type[System], lost: int, duplicated: int, tmp_path: Path
    ) -> None:
        played = play(kind, tmp_path, KEYS, 1, kill=False)
        assert (played.tally.lost, played.tally.duplicated, played.tally.failed) == (lost, duplicated, 0)
        assert played.put > 0
        assert played.getack > 0

    def test_a_worker_that_fails_is_counted_with_its_reason(self, tmp_path: Path) -> None:
        played = play(Failing, tmp_path, KEYS, 2, kill=False)
        assert (played.tally.failed, played.tally.lost) == (3, len(KEYS))
        assert "the disk is on fire" in played.tally.reason

    def test_workers_that_are_killed_are_no_failures(self, tmp_path: Path) -> None:
        played = play(OursSingle, tmp_path, KEYS, 2, kill=True)
        assert (played.tally.lost, played.tally.failed) == (0, 0)
