"""The file source: what was written is read back, anything else is refused with its place."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods import tasks
from rods.config import TasksConfig
from rods.tasks.file import HELDOUT, TRAIN, TaskFileError
from rods.tasks.model import Origin, Task
from rods.tasks.taskset import TaskCountError

SCRIPTED = tasks.load(TasksConfig(source="scripted", train_count=4, heldout_count=3))


def write(path: Path, chosen: tuple[Task, ...]) -> None:
    path.write_text("".join(json.dumps(task.to_json()) + "\n" for task in chosen))


def load(path: Path, **more: Any) -> Any:
    return tasks.load(TasksConfig(source="file", path=str(path), **more))


def test_a_folder_gives_both_halves(tmp_path: Path) -> None:
    write(tmp_path / TRAIN, SCRIPTED.train)
    write(tmp_path / HELDOUT, SCRIPTED.heldout)
    found = load(tmp_path)
    assert (found.train, found.heldout) == (SCRIPTED.train, SCRIPTED.heldout)
    assert found.fingerprint == SCRIPTED.fingerprint
    assert load(tmp_path, train_count=2, heldout_count=0).train == SCRIPTED.train[:2]


def test_a_variant_of_an_earlier_run_is_a_seed_of_this_one(tmp_path: Path) -> None:
    variant = replace(
        SCRIPTED.train[0], id="v", seed_id="far", origin=Origin.VARIANT, provenance={"key": "k"}
    )
    write(tmp_path / "some.jsonl", (variant,))
    (found,) = load(tmp_path / "some.jsonl").train
    assert (found.origin, found.seed_id, found.provenance) == (Origin.SEED, "v", {"key": "k"})
    assert found.content_id() == variant.content_id()


def test_more_than_there_are_is_refused(tmp_path: Path) -> None:
    write(tmp_path / TRAIN, SCRIPTED.train)
    with pytest.raises(TaskCountError, match=r"tasks\.train_count"):
        load(tmp_path, train_count=5)


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(TaskFileError, match="rods synthesize"):
        load(tmp_path / "nothing")
    with pytest.raises(TaskFileError, match="rods synthesize"):
        load(tmp_path)


def test_an_id_in_both_halves_is_refused(tmp_path: Path) -> None:
    write(tmp_path / TRAIN, SCRIPTED.train)
    write(tmp_path / HELDOUT, SCRIPTED.train[:1])
    with pytest.raises(TaskFileError, match="occurs twice"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", 3),
        ("id", ""),
        ("classes", []),
        ("classes", 3),
        ("turns", None),
        ("turns", []),
        ("turns", [{"query": 3, "calls": [], "restored": []}]),
        ("initial_state", []),
        ("provenance", None),
        ("origin", "elsewhere"),
        ("type", "other"),
        ("more", 1),
    ],
)
def test_a_line_of_another_form_is_named(tmp_path: Path, key: str, value: Any) -> None:
    good = [task.to_json() for task in SCRIPTED.train[:2]]
    lines = [json.dumps(good[0]), json.dumps({**good[1], key: value})]
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    with pytest.raises(TaskFileError, match="line 2"):
        load(tmp_path / "t.jsonl")


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_tasks_are_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "t.jsonl"
    path.write_bytes(data or b"\n")
    with pytest.raises(TaskFileError):
        load(path)


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(min_value=1, max_value=400))
def test_a_cut_last_line_is_no_shorter_dataset(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("cut") / "t.jsonl"
    write(path, SCRIPTED.train[:2])
    whole = path.read_bytes().rstrip(b"\n")
    path.write_bytes(whole[:-cut])
    with pytest.raises(TaskFileError, match="line 2"):
        load(path)
