"""The history of a writer over its attempts: what a resumed trainer keeps and what it voids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.exchange.journal import JournalError, JournalWriter
from rods.exchange.lineage import continuation, digest, history


def write(directory, attempt, records):
    path = directory / f"train-{attempt:04d}.log"
    with JournalWriter(path, fsync="never") as journal:
        for record in records:
            journal.append(record)
    return path


def numbered(*numbers):
    return [{"name": "event", "n": number} for number in numbers]


def test_a_continued_history_keeps_the_prefix_and_drops_the_rest(tmp_path):
    write(tmp_path, 1, [continuation(0), *numbered(1, 2, 3, 4)])
    write(tmp_path, 2, [continuation(2), *numbered(30, 40)])
    write(tmp_path, 3, [continuation(3), *numbered(400)])
    assert [record["n"] for record in history(tmp_path, "train")] == [1, 2, 30, 400]


def test_history_before_an_attempt_leaves_it_out(tmp_path):
    write(tmp_path, 1, [continuation(0), *numbered(1, 2)])
    second = write(tmp_path, 2, [continuation(1), *numbered(20)])
    assert [record["n"] for record in history(tmp_path, "train", before=second)] == [1, 2]


def test_a_begun_again_history_voids_attempts_without_a_checkpoint(tmp_path):
    write(tmp_path, 1, [continuation(0), *numbered(1, 2)])
    write(tmp_path, 2, [continuation(0), *numbered(7)])
    assert [record["n"] for record in history(tmp_path, "train")] == [7]


def test_continuing_more_than_there_is_names_the_file(tmp_path):
    write(tmp_path, 1, [continuation(0), *numbered(1)])
    write(tmp_path, 2, [continuation(5)])
    with pytest.raises(JournalError, match=r"train-0002\.log continues 5 records.*hold 1"):
        history(tmp_path, "train")


def test_other_writers_are_not_part_of_it(tmp_path):
    write(tmp_path, 1, [continuation(0), *numbered(1)])
    with JournalWriter(tmp_path / "synthesis-0001.log", fsync="never") as journal:
        journal.append({"name": "seed_claimed"})
    assert len(history(tmp_path, "train")) == 1


@given(st.lists(st.dictionaries(st.text(max_size=3), st.integers()), max_size=6))
def test_digest_depends_on_content_and_order_alone(records):
    rebuilt = [dict(reversed(list(record.items()))) for record in records]
    assert digest(records) == digest(rebuilt)
    if records and records != records[::-1]:
        assert digest(records) != digest(records[::-1])
    assert digest([*records, {"x": 1}]) != digest(records)
