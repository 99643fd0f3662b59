"""A follower has, after every look, the history that a fresh reader gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rods.exchange.journal import JournalCorruptError, JournalError, JournalMissingError, frame
from rods.exchange.lineage import continuation, history
from rods.exchange.tail import JournalTail


def events(*numbers: int) -> list[dict]:
    return [{"name": "event", "n": number} for number in numbers]


def path_of(folder: Path, attempt: int) -> Path:
    return folder / f"train-{attempt:04d}.log"


def test_a_look_tells_what_was_added_and_from_where_an_attempt_goes_on(tmp_path: Path) -> None:
    tail = JournalTail(tmp_path, "train")
    assert tail.look().records == ()
    path_of(tmp_path, 1).write_bytes(frame(continuation(0)) + frame(*events(1, 2, 3)))
    assert tail.look().records == tuple(events(1, 2, 3))
    path_of(tmp_path, 2).write_bytes(frame(continuation(1)) + frame(*events(20)))
    news = tail.look()
    assert (news.kept, news.records) == (1, tuple(events(20)))
    news = tail.look()
    assert (news.kept, news.records) == (2, ())


def test_damage_names_file_and_offset_and_changes_nothing(tmp_path: Path) -> None:
    path, whole = path_of(tmp_path, 1), frame(*events(1))
    path.write_bytes(whole)
    tail = JournalTail(tmp_path, "train")
    tail.look()
    path.write_bytes(whole + b"x" * 40)
    with pytest.raises(JournalCorruptError) as caught:
        tail.look()
    assert (caught.value.file, caught.value.offset) == (path, len(whole))
    assert tail.history == events(1)
    path.write_bytes(whole + frame(*events(2)))
    assert tail.look().records == tuple(events(2))


def test_a_journal_that_is_out_of_sight_is_an_error_until_it_is_back(tmp_path: Path) -> None:
    path_of(tmp_path, 2).write_bytes(frame(continuation(1)) + frame(*events(2)))
    tail = JournalTail(tmp_path, "train", appear_within_s=0.15)
    with pytest.raises(JournalError, match="continues 1 records"):
        tail.look()
    path_of(tmp_path, 1).write_bytes(frame(*events(1)))
    assert tail.look().records == tuple(events(1, 2))
    path_of(tmp_path, 1).rename(tmp_path / "hidden")
    with pytest.raises(JournalMissingError, match="train-0001"):
        tail.look()
    (tmp_path / "hidden").rename(path_of(tmp_path, 1))
    assert tail.look().kept == 2


STEP = st.tuples(st.sampled_from(["append", "torn", "next", "old"]), st.integers(0, 30))


@given(st.lists(STEP, max_size=14))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_every_look_the_history_is_that_of_a_fresh_reader(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    tail, copy, attempt = JournalTail(folder, "train"), list[dict](), 1
    pending: dict[Path, bytes] = {}  # what is missing of a torn record
    for number, (kind, size) in enumerate(steps):
        data = frame(*events(*range(number, number + 1 + size % 3)))
        if kind == "next":
            attempt += 1
            data = frame(continuation(size % (len(history(folder, "train")) + 1)))
        target = path_of(folder, 1 if kind == "old" else attempt)
        data = pending.pop(target, b"") + data
        cut = min(size, len(data) - 1) if kind == "torn" else len(data)
        pending[target] = data[cut:]
        with target.open("ab") as stream:
            stream.write(data[:cut])
        news = tail.look()
        copy = [*copy[: news.kept], *news.records]
        assert copy == tail.history == history(folder, "train")
