"""`rods variants` on a run directory: every request of the trainer is there once, with what became of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from rods import tasks
from rods.cli import app
from rods.config import Config, TasksConfig
from rods.exchange.journal import JournalWriter
from rods.exchange.rundir import RunDir
from rods.roles import offline
from rods.tasks.model import Origin, Task
from rods.variants.collect import LEFT_OUT, Filter, Item, collect, parents
from rods.variants.compare import ABSENT, changes, play
from rods.variants.page import build

HOSTILE = "<script>alert(1)</script>[red]&\"'"
SEEDS = tasks.load(TasksConfig(source="scripted", train_count=5, heldout_count=0)).train


def variant(parent: Task, name: str, **provenance: Any) -> Task:
    made = {"key": f"k-{name}", "parent": parent.id, "attempts": 2, "profile_distance": 0.125, "backend": "b"}
    content = replace(SEEDS[4], turns=(replace(SEEDS[4].turns[0], query=HOSTILE), *SEEDS[4].turns[1:]))
    return replace(
        content, id=name, seed_id=parent.seed_id, origin=Origin.VARIANT, provenance={**made, **provenance}
    )


def emitted(key: str, task: Task) -> dict[str, Any]:
    common = {"task_id": task.id, "seed_id": task.seed_id, "type": task.type.value}
    return {"name": "seed_emitted", "step": 1, "epoch": 1, **common, "mean": 0.5, "phi": 1.0, "key": key}


def event(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "step": 1, "epoch": 1, **more}


def answer(key: str, made: list[Task], reason: str = "") -> dict[str, Any]:
    outcome = "published" if made else "dropped"
    listed = [task.to_json() for task in made]
    return {
        "key": key,
        "seed_key": key,
        "tasks": listed,
        "outcome": outcome,
        "reason": reason,
        "attempts": 2,
        "errors": {},
    }


FAILED = {"type": "vm_exec_failed", "function": "cat", "turn": 1, "detail": HOSTILE}


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """Six requests: in the pool, retired, refused, on its way, dropped, open; the second of a variant."""
    run = RunDir.create(tmp_path, "looked-at", "0" * 64)
    config = Config(tasks=TasksConfig(source="scripted", train_count=5, heldout_count=0))
    run.config_file.write_text(json.dumps(config.to_dict()))
    active = variant(SEEDS[0], "active", errors=[FAILED], judge=f"good {HOSTILE}", narrative="A story.")
    made = {
        "k-active": active,
        "k-retired": variant(active, "retired"),
        "k-refused": variant(SEEDS[1], "refused"),
        "k-sent": variant(SEEDS[2], "sent"),
    }
    parents = {
        "k-active": SEEDS[0],
        "k-retired": active,
        "k-refused": SEEDS[1],
        "k-sent": SEEDS[2],
        "k-dropped": SEEDS[3],
        "k-open": SEEDS[3],
    }
    with JournalWriter(run.journal_file("train", 1)) as journal:
        for key, parent in parents.items():
            journal.append(emitted(key, parent))
        for name in ("active", "retired"):
            journal.append(event("variant_arrived", task_id=name))
            journal.append(event("variant_injected", task_id=name))
        journal.append(event("task_retired", task_id="retired", reason="mastered", mean=1.0))
        journal.append(
            event("variant_refused", task_id="refused", key="k-refused", reason="content repeated")
        )
        journal.append(event("seed_closed", key="k-dropped", outcome="dropped", reason=HOSTILE))
    with JournalWriter(run.journal_file("synthesis", 1)) as journal:
        journal.append({"name": "attempt_failed", "key": "k-active", "index": 0, **FAILED})
        for _ in range(2):  # the seed was worked on twice, since the first daemon died
            for index in range(3):
                journal.append({"name": "attempt_failed", "key": "k-dropped", "index": index, **FAILED})
        journal.append({"name": "seed_dropped", "key": "k-dropped", "reason": HOSTILE})
    for key in made:
        run.queue("variants").put(key, answer(key, [made[key]]))
    run.queue("variants").put("k-dropped", answer("k-dropped", [], HOSTILE))
    return run


def by_key(run: RunDir) -> dict[str, Item]:
    return {item.key: item for item in collect(run)}


def test_every_answered_request_is_listed_with_its_end(run: RunDir) -> None:
    found = {key: (item.status, item.reason) for key, item in by_key(run).items()}
    assert found == {
        "k-active": ("active", ""),
        "k-retired": ("retired", "mastered"),
        "k-refused": ("refused", "content repeated"),
        "k-sent": ("published", ""),
        "k-dropped": ("dropped", HOSTILE),
    }


def test_attempts_are_counted_once_however_often_the_seed_was_delivered(run: RunDir) -> None:
    items = by_key(run)
    assert [failure.type for failure in items["k-dropped"].failures] == ["vm_exec_failed"] * 3
    assert items["k-dropped"].attempts == 3
    assert (items["k-active"].attempts, items["k-active"].distance) == (2, 0.125)


def test_arrived_variants_are_found_when_their_message_is_gone(run: RunDir) -> None:
    item = by_key(run)["k-active"]
    assert item.task is not None
    run.expanded_file(1).write_text(json.dumps(item.task.to_json()) + "\n")
    assert by_key(run)["k-active"].task == item.task


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), {"active", "retired", "refused", "sent", "k-dropped"}),
        (("--rejected",), {"refused", "k-dropped"}),
        (("--type", "miss_func"), set()),
        (("--seed", SEEDS[0].id), {"active", "retired"}),
        (("--seed", "active"), {"retired"}),
        (("--seed", SEEDS[3].id, "--rejected"), {"k-dropped"}),
    ],
)
def test_filters(run: RunDir, options: tuple[str, ...], expected: set[str]) -> None:
    result = CliRunner().invoke(app, ["variants", str(run.path), "--json", *options])
    assert {json.loads(line)["id"] for line in result.output.splitlines()} == expected


def test_a_type_that_no_task_has_is_refused(run: RunDir) -> None:
    result = CliRunner().invoke(app, ["variants", str(run.path), "--type", "foo"])
    assert str(result.exception) == "--type foo: expected one of base, miss_func, miss_param, long_context"


def test_the_table_shows_text_of_the_run_as_it_is(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # a pipe has no width
    output = CliRunner().invoke(app, ["variants", str(run.path)]).output
    assert "3 accepted, 2 rejected" in output
    assert HOSTILE in output


@pytest.mark.parametrize("columns", ["160", "60"])
def test_the_table_is_no_wider_than_what_it_is_told(
    run: RunDir, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = CliRunner().invoke(app, ["variants", str(run.path)]).output.splitlines()
    assert max(map(len, lines)) <= int(columns)
    assert ("made of" in lines[0]) == (columns == "160")
    for name in ("active", "retired", "refused", "k-dropped"):
        assert any(line.startswith(name) for line in lines), name


def test_a_colour_means_what_becomes_of_a_variant_and_a_count_is_of_its_kind(run: RunDir) -> None:
    items = [*collect(run), replace(collect(run)[0], id="over", status=LEFT_OUT)]
    page = build(run.path, parents(run), items).read_text()
    found = {
        status: meaning for meaning, status in re.findall(r'</code> <span class="badge (\w+)">([^<]+)', page)
    }
    assert found == {
        "active": "live",
        "published": "coming",
        "retired": "past",
        LEFT_OUT: "past",
        "refused": "rejected",
        "dropped": "rejected",
    }
    assert "<b>3</b><span>variants accepted</span>" in page
    assert "<b>2</b><span>rejected</span>" in page


class Page(HTMLParser):
    """Tags and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_shows_both_sides_and_runs_nothing_of_the_run(run: RunDir) -> None:
    result = CliRunner().invoke(app, ["variants", str(run.path), "--html"])
    assert result.output.strip() == str(run.report / "variants.html")
    page = Page((run.report / "variants.html").read_text())
    assert page.tags.count("section") == 5
    assert "script" not in page.tags
    assert page.text.count(HOSTILE) >= 5
    for shown in (
        SEEDS[0].turns[0].query,
        f"good {HOSTILE}",
        "A story.",
        "mastered",
        "Φ 0.125",
        "vm_exec_failed",
    ):
        assert shown in page.text
    assert "://" not in (run.report / "variants.html").read_text(), "self-contained"


def test_a_page_of_nothing_says_so(run: RunDir) -> None:
    build(run.path, parents(run), [item for item in collect(run) if Filter(type="miss_func").takes(item)])
    assert "Nothing has come back" in (run.report / "variants.html").read_text()


def test_playing_shows_what_each_turn_changed() -> None:
    from rods.tasks.model import Call, TaskType, Turn

    state = {"GorillaFileSystem": {"root": {"w": {"type": "directory", "contents": {}}}}}
    turns = (Turn("Make a.", (Call("touch", {"file_name": "a"}),)), Turn("Look.", (Call("ls", {}),)))
    played = play(Task("t", TaskType.BASE, ("GorillaFileSystem",), state, turns))
    assert [len(turn.changes) for turn in played.turns] == [1, 0]
    (change,) = played.turns[0].changes
    assert change.path.endswith("contents › a")
    assert change.before is ABSENT
    assert '"a"' in played.turns[1].calls[0][1]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(_JSON, _JSON)
def test_there_is_no_change_exactly_where_two_states_are_one(before: Any, after: Any) -> None:
    found = list(changes(before, after))
    assert bool(found) == (json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True))
    mirrored = list(changes(after, before))
    assert {(c.path, id(c.before) if c.before is ABSENT else repr(c.before)) for c in found} == {
        (c.path, id(c.after) if c.after is ABSENT else repr(c.after)) for c in mirrored
    }


def test_a_static_dataset_is_listed_as_a_run_is(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    chosen = ("tasks.train_count=2", "tasks.heldout_count=0", "synthesis.max_similarity=0.45")
    manifest = offline.make(offline.Order("scripted", 3, folder, (), 9, chosen), lambda _: None)
    shown = CliRunner().invoke(app, ["variants", str(folder), "--json"], catch_exceptions=False)
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    published = [line["id"] for line in lines if line["status"] == "published"]
    trained = [json.loads(line)["id"] for line in (folder / "train.jsonl").read_text().splitlines()]
    assert published == trained
    assert manifest["figures"]["rejected"] <= sum(line["status"] in ("dropped", "refused") for line in lines)
    page = CliRunner().invoke(app, ["variants", str(folder), "--html"], catch_exceptions=False)
    text = Path(page.stdout.replace("\n", "")).read_text()
    assert all(name in text for name in trained)
    assert SEEDS[0].turns[0].query in text, "the seed stands beside its variant"


def test_what_a_finished_dataset_had_enough_without_is_left_out_and_not_rejected(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    offline.make(offline.Order("scripted", 3, folder, (), 30, ("tasks.train_count=2",)), lambda _: None)
    train = folder / "train.jsonl"
    train.write_text("".join(train.read_text().splitlines(keepends=True)[:2]))
    (folder / "rejected.jsonl").write_text("")
    shown = CliRunner().invoke(app, ["variants", str(folder)], catch_exceptions=False).stdout
    assert shown.splitlines()[-1] == "2 accepted, 0 rejected, 1 left out"
