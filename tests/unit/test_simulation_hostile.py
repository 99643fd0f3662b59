"""Hostile messages: an error one can learn from, within a second and 256 MB, and nothing is ever evaluated."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("bfcl_eval")

import hostile_messages

import rods.simulation

ROOM = Path(rods.simulation.__file__).parent
EVALUATORS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "execfile",
    "literal_eval",
    "import_module",
    "run_path",
}
INTERNALS = re.compile(r"Traceback|object at 0x|NoneType|unexpected keyword|positional argument|line \d+, in")


def script(mode: str) -> str:
    done = subprocess.run(
        [sys.executable, str(Path(hostile_messages.__file__)), mode], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def answers() -> dict[str, dict[str, Any]]:
    return {answer.pop("name"): answer for answer in map(json.loads, script("corpus").splitlines())}


def test_the_corpus_is_large_and_all_of_it_was_played(answers: dict[str, dict[str, Any]]) -> None:
    refused = hostile_messages.refused()
    assert len(refused) >= 250
    assert len(set(refused.values())) == len(refused)
    assert answers.keys() == refused.keys() | hostile_messages.allowed().keys() | {"canary"}


@pytest.mark.parametrize("name", hostile_messages.refused())
def test_it_is_refused_with_words_and_the_world_stays(name: str, answers: dict[str, dict[str, Any]]) -> None:
    answer = answers[name]
    assert answer["codes"]
    assert set(answer["codes"]) <= {-3, -2}
    for text in answer["observations"]:
        assert 20 <= len(text) <= 6000
        assert "rror" in text
        assert not INTERNALS.search(text)
    assert answer["unchanged"]
    assert answer["usable"]
    assert answer["events"] == []


@pytest.mark.parametrize("name", hostile_messages.allowed())
def test_text_that_looks_like_code_is_text(name: str, answers: dict[str, dict[str, Any]]) -> None:
    assert answers[name]["usable"]
    assert answers[name]["events"] == []


def test_the_hook_would_see_an_evaluation(answers: dict[str, dict[str, Any]]) -> None:
    assert "compile" in answers["canary"]["events"]


def test_what_hypothesis_makes_of_the_corpus_is_answered_too() -> None:
    script("grow")


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda path: path.name)
def test_nothing_in_the_room_evaluates(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Name | ast.Attribute):
            name = node.id if isinstance(node, ast.Name) else node.attr
            is_regex = isinstance(node, ast.Attribute) and ast.unparse(node.value) == "re"
            assert name not in EVALUATORS or is_regex, f"{path.name}:{node.lineno} reaches {name}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name.partition(".")[0] for alias in node.names}
            assert not names & {"pickle", "importlib", "runpy", "code", "ctypes", "shlex"}, path.name
