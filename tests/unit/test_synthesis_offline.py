"""Offline synthesis: the same dataset whatever the workers, the order of arrival and the deaths on the way."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from typer.testing import CliRunner

from rods import tasks
from rods.cli import app
from rods.commands.common import UsageError
from rods.config import ConfigError, SynthesisConfig, TasksConfig
from rods.roles import offline as role
from rods.serving.server import ServerError
from rods.simulation.session import open_world
from rods.synthesis import dataset
from rods.synthesis import offline as offline_module
from rods.synthesis.agents import BackendUnavailableError
from rods.synthesis.dataset import DatasetFolderError, select
from rods.synthesis.errors import PipelineFailure
from rods.synthesis.offline import Offline, Request, ServerLostError, finished, key_of
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.scripted import ScriptedBackend
from rods.tasks.model import Call, Origin, Task, TaskType, Turn

FILES = ("train.jsonl", "heldout.jsonl", "rejected.jsonl", "train.parquet")
SEEDS = tasks.load(TasksConfig(source="scripted", train_count=5, heldout_count=0)).train


def order(folder: Path, count: int = 8, *overrides: str, **more: Any) -> role.Order:
    chosen = {"tasks": "scripted", "types": (), "max_requests": 200, **more}
    small = ("tasks.train_count=5", "tasks.heldout_count=3", *overrides)
    return role.Order(count=count, folder=folder, overrides=small, **chosen)


def make(*args: Any, **more: Any) -> dict[str, Any]:
    return role.make(order(*args, **more), lambda _: None)


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


class Shuffled(ScriptedBackend):
    """Answers that take their time, differently for each seed of this class."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._rng = random.Random(seed)

    async def ask(self, *args: Any) -> Any:
        for _ in range(self._rng.randrange(6)):
            await asyncio.sleep(0)
        return await super().ask(*args)


def offline(
    folder: Path, backend: Any, count: int, max_requests: int = 100, report: Any = lambda _: None
) -> Offline:
    pipeline = Pipeline(SynthesisConfig(), backend, 0, SEEDS)
    return Offline(folder, SEEDS, pipeline, backend, count, max_requests, report)


def test_the_dataset_is_a_task_source_with_its_held_out_tasks(tmp_path: Path) -> None:
    manifest = make(tmp_path / "d")
    loaded = tasks.load(TasksConfig(source="file", path=str(tmp_path / "d")))
    assert (len(loaded.train), len(loaded.heldout)) == (8, 3)
    assert loaded.heldout == tasks.load(TasksConfig(train_count=5, heldout_count=3)).heldout
    assert {task.origin for task in loaded.train} == {Origin.SEED}
    assert all(open_world(task) for task in loaded.train)
    assert manifest["complete"]
    assert manifest["figures"]["accepted"] == 8
    assert manifest["identity"]["prompts"]


def test_the_parquet_file_holds_the_same_tasks(tmp_path: Path) -> None:
    make(tmp_path / "d")
    table = parquet.read_table(tmp_path / "d" / dataset.PARQUET).to_pylist()
    lines = [json.loads(line) for line in (tmp_path / "d" / "train.jsonl").read_text().splitlines()]
    assert [json.loads(row["task"]) for row in table] == lines
    assert [row["turns"] for row in table] == [len(line["turns"]) for line in lines]


@settings(max_examples=6, deadline=None)
@given(workers=st.integers(1, 9), seed=st.integers(0, 99))
def test_neither_workers_nor_arrival_change_the_dataset(
    tmp_path_factory: pytest.TempPathFactory, workers: int, seed: int
) -> None:
    chosen = []
    for backend, size in ((ScriptedBackend(), 1), (Shuffled(seed), workers)):
        made = offline(tmp_path_factory.mktemp("o"), backend, 7)
        asyncio.run(made.make(size))
        chosen.append(select(made.requests, 7, 0.9))
    assert chosen[0].accepted == chosen[1].accepted
    assert chosen[0].rejected == chosen[1].rejected


def test_a_larger_dataset_begins_with_the_smaller_one(tmp_path: Path) -> None:
    make(tmp_path / "grown", 4)
    before = (tmp_path / "grown" / "train.jsonl").read_bytes()
    make(tmp_path / "grown", 9)
    make(tmp_path / "straight", 9)
    assert contents(tmp_path / "grown") == contents(tmp_path / "straight")
    assert (tmp_path / "grown" / "train.jsonl").read_bytes().startswith(before)


def test_fewer_variants_than_are_there_are_refused_and_none_is_lost(tmp_path: Path) -> None:
    make(tmp_path / "d", 5)
    before = contents(tmp_path / "d")
    with pytest.raises(DatasetFolderError, match=r"--count 2: expected at least the 5 variants.*--out"):
        make(tmp_path / "d", 2)
    assert contents(tmp_path / "d") == before
    make(tmp_path / "d", 5)
    assert contents(tmp_path / "d") == before


_CHILD = """
import sys
from pathlib import Path
from rods.roles import offline
order = offline.Order("scripted", 40, Path(sys.argv[1]), (), 400, ("tasks.train_count=5", "tasks.heldout_count=3"))
print("started", flush=True)
offline.make(order, lambda now: print(now.requests, flush=True))
"""


def test_a_kill_at_any_time_changes_nothing(tmp_path: Path) -> None:
    """Killed after 3, 11 and 24 requests and once more as the files are written, then finished."""
    rng = random.Random(1)
    for requests in (3, 11, 24, 39):
        child = subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(tmp_path / "killed")], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for line in child.stdout:
            if line.strip().isdigit() and int(line) >= requests:
                break
        time.sleep(rng.random() * 0.01)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        assert len(finished(tmp_path / "killed" / dataset.JOURNAL)) >= requests
    make(tmp_path / "killed", 40)
    make(tmp_path / "straight", 40)
    assert contents(tmp_path / "killed") == contents(tmp_path / "straight")


STAND_IN = f"synthesis.server.command=[{sys.executable},{Path(__file__).parents[1] / 'llm_server.py'}]"
SERVED = ("synthesis=paper", "synthesis.model=m", STAND_IN, "synthesis.server_args=[]")


def test_the_models_server_is_started_and_stopped(tmp_path: Path) -> None:
    """Its answers fit another seed, so that nothing is accepted; but each question is answered."""
    manifest = make(tmp_path / "d", 1, *SERVED, "synthesis.workers=2", max_requests=2)
    assert manifest["figures"]["requests"] == 2
    assert manifest["effort"]["llm_calls"] > 0
    assert PipelineFailure.kind not in manifest["figures"]["failures"]
    (log,) = (tmp_path / "d" / "logs").rglob("*.log")
    assert "stand-in for m" in log.read_text()
    assert not list(log.parent.glob("*.key"))


def test_a_server_that_does_not_come_up_ends_the_command(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="no memory for the weights"):
        make(tmp_path / "d", 1, *SERVED, "synthesis.server_args=[--die-at-once]")


def test_a_torn_journal_costs_one_request(tmp_path: Path) -> None:
    make(tmp_path / "torn")
    whole = contents(tmp_path / "torn")
    (log,) = (tmp_path / "torn" / dataset.JOURNAL).glob("*.log")
    os.truncate(log, log.stat().st_size - 5)
    assert len(finished(log.parent)) == 7
    made: list[Any] = []
    role.make(order(tmp_path / "torn"), made.append)
    assert len(made) == 1
    assert contents(tmp_path / "torn") == whole


def test_other_settings_are_refused_by_name(tmp_path: Path) -> None:
    make(tmp_path / "d", 3)
    make(tmp_path / "d", 3, "synthesis.workers=9")
    with pytest.raises(DatasetFolderError, match=r"synthesis\.max_list"):
        make(tmp_path / "d", 3, "synthesis.max_list=4")
    with pytest.raises(DatasetFolderError, match="seed 0 → 1"):
        make(tmp_path / "d", 3, "seed=1")


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("all of it")
    with pytest.raises(DatasetFolderError, match="other files"):
        make(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_types_choose_the_seeds(tmp_path: Path) -> None:
    manifest = make(tmp_path / "d", 2, tasks="bfcl", types=(TaskType.MISS_FUNC,))
    assert list(manifest["figures"]["by_type"]) == ["miss_func"]
    with pytest.raises(role.NoSeedsError, match="long_context"):
        make(tmp_path / "none", types=(TaskType.LONG_CONTEXT,))


def test_an_override_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="synthesis=nothing"):
        make(tmp_path / "d", 2, "synthesis=nothing")


class Down(ScriptedBackend):
    """A server that is away for its first `answers` questions, or for one seed only."""

    def __init__(self, answers: int = 0, seed: str = "") -> None:
        super().__init__()
        self._left, self._seed = answers, seed

    async def ask(self, agent: str, inputs: Any, *rest: Any) -> Any:
        self._left -= 1
        if self._left >= 0 or inputs["seed"].task.id == self._seed:
            raise BackendUnavailableError("nobody there")
        return await super().ask(agent, inputs, *rest)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline_module, "_PAUSES_S", (0.0, 0.0))


@pytest.mark.usefixtures("impatient")
def test_an_outage_is_no_part_of_the_dataset(tmp_path: Path) -> None:
    straight, hurt = offline(tmp_path / "a", ScriptedBackend(), 6), offline(tmp_path / "b", Down(2), 6)
    asyncio.run(straight.make(1))
    asyncio.run(hurt.make(1))
    chosen = [select(made.requests, 6, 0.9) for made in (straight, hurt)]
    assert chosen[0].accepted == chosen[1].accepted
    assert chosen[0].rejected == chosen[1].rejected


@pytest.mark.usefixtures("impatient")
def test_a_server_that_stays_away_ends_the_work_and_rejects_nothing(tmp_path: Path) -> None:
    with pytest.raises(ServerLostError, match="same command again"):
        asyncio.run(offline(tmp_path, Down(10**6), 6).make(3))
    assert finished(tmp_path) == {}
    made = offline(tmp_path, ScriptedBackend(), 6)
    asyncio.run(made.make(3))
    assert len(select(made.requests, 6, 0.9).accepted) == 6


@pytest.mark.usefixtures("impatient")
def test_a_seed_that_alone_gets_no_answer_is_rejected(tmp_path: Path) -> None:
    made = offline(tmp_path, Down(seed=SEEDS[2].id), 6)
    asyncio.run(made.make(2))
    chosen = select(made.requests, 6, 0.9)
    assert len(chosen.accepted) == 6
    assert {line["seed"] for line in chosen.rejected} == {SEEDS[2].id}
    assert all("nobody there" in line["reason"] for line in chosen.rejected)


def test_a_backend_that_nothing_is_accepted_from_comes_to_an_end(tmp_path: Path) -> None:
    manifest = make(
        tmp_path / "d",
        5,
        "synthesis.max_profile_distance=0",
        "synthesis.max_similarity=0.0001",
        max_requests=12,
    )
    assert not manifest["complete"]
    assert manifest["figures"]["requests"] == 12
    lines = (tmp_path / "d" / "rejected.jsonl").read_text().splitlines()
    assert len(lines) == 12 - manifest["figures"]["accepted"]
    assert all(json.loads(line)["reason"] for line in lines)


def request(index: int, *made: str) -> Request:
    """A finished request whose variants make files of these names."""
    variants = [touching(f"{index}{name}", name) for name in made]
    contents = [task.content_id() for task in variants]
    reason = "" if made else "no luck"
    tasks = [task.to_json() for task in variants]
    return Request(index, key_of(index), "s", "base", tasks, contents, 1, [], reason, 0, 0.0)


def touching(name: str, file_name: str, query: str = "Make it.") -> Task:
    turns = (Turn(query, (Call("touch", {"file_name": file_name}),)),)
    return Task(name, TaskType.BASE, ("GorillaFileSystem",), {"GorillaFileSystem": {}}, turns)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=3), max_size=12), st.integers(1, 8))
def test_the_selection_holds_every_content_once_and_says_why_the_rest_is_out(
    made: list[list[str]], count: int
) -> None:
    requests = {index: request(index, *contents) for index, contents in enumerate(made)}
    chosen = select(requests, count, 0.9)
    found = [content for _, content in chosen.accepted]
    assert len(found) == len(set(found)) == min(count, len({content for each in made for content in each}))
    assert select({index: requests[index] for index in reversed(requests)}, count, 0.9) == chosen
    assert select({**requests, len(made) + 1: request(99, "z")}, count, 0.9) == chosen, (
        "nothing behind a gap counts"
    )
    assert len(chosen.rejected) >= sum(not each.tasks for each in chosen.requests)


def test_a_variant_in_other_words_is_no_further_variant() -> None:
    told = touching("first", "a"), touching("again", "a", "Create the file, please."), touching("other", "b")
    requests = {
        index: replace(request(index), tasks=[task.to_json()], contents=[task.content_id()])
        for index, task in enumerate(told)
    }
    chosen = select(requests, 3, 0.9)
    assert [task["id"] for task, _ in chosen.accepted] == ["first", "other"]
    assert [line["reason"] for line in chosen.rejected] == [
        "duplicate: 1.00 like first, allowed less than 0.9"
    ]


def test_what_repetitions_took_out_is_made_up_for(tmp_path: Path) -> None:
    """Few distinct variants are possible at this similarity: more requests than variants are needed."""
    manifest = make(
        tmp_path / "d", 6, "synthesis.max_similarity=0.45", "tasks.train_count=2", max_requests=60
    )
    assert manifest["complete"]
    assert manifest["figures"]["accepted"] == 6
    lines = (tmp_path / "d" / "rejected.jsonl").read_text()
    assert "duplicate: 0." in lines


def test_the_command_ends_with_where_the_dataset_is_and_what_to_do_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    options = ["--tasks", "scripted", "--count", "2", "--out", str(folder)]
    done = CliRunner().invoke(app, ["synthesize", *options, "tasks.train_count=5"], catch_exceptions=False)
    assert done.exit_code == 0
    assert json.loads(done.stdout)["accepted"] == 2
    assert f"rods variants {folder}" in done.stderr
    assert f"tasks=file tasks.path={folder} " in done.stderr


def test_tasks_that_do_not_exist_are_refused_with_the_choices(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["synthesize", "--tasks", "scrpted", "--count", "2", "--out", str(tmp_path)]
    )
    assert isinstance(done.exception, UsageError)
    assert "--tasks scrpted: expected bfcl, scripted, a dataset's folder" in str(done.exception)
