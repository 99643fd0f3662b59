"""Cassettes: shared between writers, sound after a crash, never silently wrong."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rods.simulation.mcp_cassette import Cassette, CassetteError, Tool
from rods.simulation.mcp_spec import chain, parse_spec
from rods.simulation.simulator import CallResult
from rods.tasks.model import Call

SPEC = parse_spec("mcp:x", {"command": ["run"]})
TOOLS = (Tool("read", "Read.", {"type": "object", "properties": {}}, True),)
READ = Call("read", {})


@pytest.fixture
def cassette(tmp_path: Path) -> Cassette:
    made = Cassette(tmp_path / "sub" / "x.jsonl")
    made.begin("mcp:x", SPEC, TOOLS)
    return made


def test_another_reader_finds_everything_at_once(cassette: Cassette) -> None:
    other = Cassette(cassette.path)
    assert other.tools == TOOLS
    assert other.find("k") is None
    cassette.add("k", READ, CallResult("ü\ud800\n", False))
    assert other.find("k") == cassette.find("k") == CallResult("ü\ud800\n", False)


def test_the_first_recording_stays(cassette: Cassette) -> None:
    other = Cassette(cassette.path)
    cassette.add("k", READ, CallResult("first", False))
    assert other.add("k", READ, CallResult("second", True)) == CallResult("first", False)
    other.begin("mcp:x", SPEC, ())
    assert Cassette(cassette.path).tools == TOOLS
    lines = cassette.path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 2
    with open(cassette.path, "ab") as file:
        file.write(lines[1].replace(b"first", b"third"))
    assert Cassette(cassette.path).find("k") == CallResult("first", False)


def test_a_torn_tail_is_not_read_and_the_next_writer_removes_it(cassette: Cassette) -> None:
    cassette.add("a", READ, CallResult("1", False))
    whole = cassette.path.read_bytes()
    for cut in (1, 10, len(whole.splitlines()[1])):
        cassette.path.write_bytes(whole[:-cut])
        reader = Cassette(cassette.path)
        assert (reader.tools, reader.find("a")) == (TOOLS, None)
        reader.add("b", READ, CallResult("2", False))
        assert Cassette(cassette.path).find("b") == CallResult("2", False)


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b"3", b'{"key": "a"}', b'{"key": [], "text": "", "failed": false}', b"\xff\xfe"],
)
def test_damage_in_the_middle_is_named_with_its_line(cassette: Cassette, line: bytes) -> None:
    with open(cassette.path, "ab") as file:
        file.write(line + b"\n")
    with pytest.raises(CassetteError, match=r"x\.jsonl, line 2: expected a recorded call"):
        Cassette(cassette.path)
    with pytest.raises(CassetteError, match="line 2"):
        cassette.find("a")


def test_a_file_that_is_no_cassette_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"key": "a", "text": "", "failed": false}\n')
    with pytest.raises(CassetteError, match="line 1: expected a recorded server"):
        Cassette(tmp_path / "x.jsonl")


def test_a_replaced_or_deleted_file_is_read_anew(cassette: Cassette, tmp_path: Path) -> None:
    cassette.add("a", READ, CallResult("1", False))
    header = cassette.path.read_text().splitlines()[0]
    record = json.dumps({"key": "b", "call": READ.to_json(), "text": "2", "failed": False})
    (tmp_path / "new").write_text(f"{header}\n{record}\n")
    (tmp_path / "new").replace(cassette.path)
    assert cassette.find("b") == CallResult("2", False)
    assert cassette.find("a") is None
    cassette.path.unlink()
    assert cassette.find("c") is None
    assert cassette.tools is None


def test_writers_at_once_lose_and_double_nothing(cassette: Cassette) -> None:
    writers = [cassette, *(Cassette(cassette.path) for _ in range(3))]
    keys = [f"k{number}" for number in range(20)]

    def write(number: int) -> list[str]:
        return [writers[number].add(key, READ, CallResult(f"{key} {number}", False)).text for key in keys]

    with ThreadPoolExecutor(4) as pool:
        seen = list(pool.map(write, range(4)))
    assert seen[0] == seen[1] == seen[2] == seen[3]
    assert len(cassette.path.read_bytes().splitlines()) == 1 + len(keys)


ARGUMENTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3) | st.none(), max_size=3)


@given(first=ARGUMENTS, second=ARGUMENTS)
def test_a_chain_depends_on_what_was_called_and_in_which_order(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    start = SPEC.digest()
    one, two = Call("f", first), Call("f", second)
    assert chain(start, one) == chain(start, Call("f", dict(reversed(first.items()))))
    same = first == second
    assert (chain(start, one) == chain(start, two)) is same
    assert (chain(chain(start, one), two) == chain(chain(start, two), one)) is same
    assert chain(start, one) not in (start, chain(start, Call("g", first)))


@pytest.mark.parametrize(
    "change",
    [{"command": ["run", "x"]}, {"files": {"a": ""}}, {"env": {"A": ""}}, {"setup": [{"name": "f"}]},
     {"probes": [{"name": "f"}]}, {"prepare": [["x"]]}, {"read_only": []}],
)  # fmt: skip
def test_the_digest_depends_on_every_part_of_the_scenario(change: dict[str, Any]) -> None:
    assert parse_spec("mcp:x", {"command": ["run"], **change}).digest() != SPEC.digest()
