"""Resume: a snapshot and the events after it give the state that all events give; a wrong one is found out."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fsck_examples import CONFIG, TASKS, Trainer, Weights

from rods.config import ExchangeConfig
from rods.curriculum.errors import ImpossibleEventError
from rods.curriculum.events import RunStarted
from rods.curriculum.state import CurriculumState, fold
from rods.exchange.frames import HEADER_BYTES
from rods.exchange.journal import JournalCorruptError
from rods.exchange.rundir import RunDir
from rods.training import checkpoint, recovery
from rods.training.checkpoint import Position
from rods.training.ledger import Ledger, LedgerError

Body = dict[str, Any]


class Kept:
    """A run of one attempt with three checkpoints, and the state at the last of them."""

    def __init__(self, parent: Path) -> None:
        self.run = RunDir.create(parent, "recovery", "0" * 64)
        ledger = Ledger.begin(self.run, 1, CONFIG, TASKS)
        trainer = Trainer(self.run, ledger)
        ledger.record([RunStarted(0, 0, TASKS.fingerprint, 0)])
        trainer.epoch(1)
        self.folders = []
        for step in (4, 6, 8):
            trainer.step(step, 1)
            self.folders.append(self._save(ledger, step))
        self.state, self.summary = ledger.state, ledger.snapshot().summary()
        trainer.step(10, 1)  # behind the newest checkpoint: done again by whoever continues
        ledger.close()

    def _save(self, ledger: Ledger, step: int) -> Path:
        extra = {"ledger": ledger.snapshot().summary()}
        return checkpoint.save(
            self.run, Position(step, 1, ledger.records), Weights(), extra, 3, ledger.snapshot().save
        )

    def resume(self, *snapshots: Path, attempt: int = 2, tasks: Any = TASKS) -> CurriculumState:
        ledger = Ledger.resume(self.run, attempt, CONFIG, tasks, self.summary, snapshots)
        ledger.close()
        return ledger.state

    def edit(self, number: int, change: Callable[[Body], object]) -> Path:
        """The snapshot of checkpoint `number` with `change` applied to its JSON."""
        path = self.folders[number] / "tracker.json"
        body = json.loads(path.read_text())
        change(body)
        path.write_text(json.dumps(body))
        return path


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


@pytest.fixture
def no_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for the state before the first event replays from zero."""

    def refuse(*arguments: object) -> CurriculumState:
        raise AssertionError("replayed from zero")

    monkeypatch.setattr(recovery, "initial", refuse)


def test_every_snapshot_with_the_events_behind_it_gives_what_all_events_give(kept: Kept) -> None:
    from_zero = kept.resume()
    assert from_zero == kept.state
    for number, folder in enumerate(kept.folders):
        state = kept.resume(folder / "tracker.json", attempt=3 + number)
        assert state == from_zero
        assert state.digest() == from_zero.digest() == kept.summary["digest"]


@pytest.mark.usefixtures("no_zero")
def test_nothing_is_replayed_from_zero_when_there_is_a_snapshot(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    newest = checkpoint.latest(kept.run)
    assert newest == kept.folders[2]
    found = checkpoint.snapshots(kept.run, newest)
    assert found == [folder / "tracker.json" for folder in reversed(kept.folders)]
    assert kept.resume(*found) == kept.state
    assert not caplog.records


@pytest.mark.usefixtures("no_zero")
def test_a_damaged_snapshot_costs_no_training_the_one_before_it_serves(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    path = kept.folders[2] / "tracker.json"
    path.write_bytes(path.read_bytes().replace(b'"epoch":1', b'"epoch":2', 1))
    with caplog.at_level(logging.WARNING):
        assert checkpoint.latest(kept.run) == kept.folders[2]
        assert kept.resume(*checkpoint.snapshots(kept.run, kept.folders[2])) == kept.state
    assert "tracker.json is damaged; the journal replaces it" in caplog.text
    assert "does not serve" in caplog.text


def test_damage_to_anything_else_still_voids_the_checkpoint(kept: Kept) -> None:
    for name in ("tracker.json", "weights.pt"):
        path = kept.folders[2] / name
        path.write_bytes(bytes(reversed(path.read_bytes())))
    assert checkpoint.latest(kept.run) == kept.folders[1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda body: body.pop("state"), "expected a snapshot"),
        (lambda body: body.update(records="many"), "expected a snapshot"),
        (lambda body: body["state"]["tasks"].clear(), "expected the state of digest"),
        (lambda body: body["state"].update(step=1), "expected the state of digest"),
        (lambda body: body.update(records=10**6), "records, found"),
        (lambda body: body.update(records=-1), "records, found"),
        (lambda body: body.update(records=body["records"] - 1), "event"),
    ],
)
def test_a_snapshot_that_is_none_or_of_another_place_is_said_and_the_journal_replayed(
    kept: Kept, caplog: pytest.LogCaptureFixture, change: Callable[[Body], object], reason: str
) -> None:
    path = kept.edit(2, change)
    with caplog.at_level(logging.WARNING):
        assert kept.resume(path, kept.folders[0] / "no such file") == kept.state
    first, second = (record.getMessage() for record in caplog.records)
    assert str(path) in first
    assert reason in first
    assert "no such file" in second


def test_a_snapshot_of_other_rules_is_refused_though_its_digest_is_right(
    kept: Kept, caplog: pytest.LogCaptureFixture
) -> None:
    other = replace(kept.state, buffer=replace(kept.state.buffer, capacity=9))
    body = {"records": kept.summary["records"], "digest": other.digest(), "positions": {}}
    path = kept.run.path / "other.json"
    path.write_text(json.dumps({**body, "state": other.to_json()}))
    kept.summary = {**kept.summary, "digest": other.digest()}
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(LedgerError, match=r"expected \d+ records that lead to"),
    ):
        kept.resume(path)
    assert "boundary and buffer settings" in caplog.text


def test_a_journal_that_is_shorter_than_the_snapshot_is_refused(kept: Kept) -> None:
    journal = kept.run.journal_file("train", 1)
    journal.write_bytes(b"")
    with pytest.raises(LedgerError, match="found 0 records"):
        kept.resume(kept.folders[2] / "tracker.json")
    assert not kept.run.journal_file("train", 2).exists()


def test_damage_in_the_journal_before_the_snapshot_is_noticed_all_the_same(kept: Kept) -> None:
    journal = kept.run.journal_file("train", 1)
    data = bytearray(journal.read_bytes())
    data[HEADER_BYTES + 3] ^= 1
    journal.write_bytes(bytes(data))
    with pytest.raises(JournalCorruptError, match="damaged at byte 0"):
        kept.resume(kept.folders[2] / "tracker.json")


def test_other_seed_tasks_are_refused_on_either_way(kept: Kept) -> None:
    first, *others = TASKS.train
    with pytest.raises(LedgerError, match="by replaying them from the seed tasks"):
        kept.resume(tasks=replace(TASKS, train=(replace(first, kind="other"), *others)))
    state = kept.resume(kept.folders[2] / "tracker.json")
    with pytest.raises(ImpossibleEventError, match="the same tasks and seed"):
        fold(state, [RunStarted(state.step, state.epoch, "another fingerprint", 0)])


def test_a_snapshot_is_never_on_the_disk_before_the_journal_that_it_rests_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDir.create(tmp_path, "order", "0" * 64)
    ledger = Ledger.begin(run, 1, replace(CONFIG, exchange=ExchangeConfig(fsync="step")), TASKS)
    ledger.record([RunStarted(0, 0, TASKS.fingerprint, 0)])
    synced: list[str] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    ledger.snapshot().save(tmp_path)
    assert synced[0] == "train-0001.log"
    assert synced[1].endswith(".tmp")
    assert (tmp_path / "tracker.json").exists()
