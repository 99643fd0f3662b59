"""Journals: what was appended is read back or reported, whatever a crash or a bad disk did to the file."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rods.exchange import journal
from rods.exchange.journal import JournalCorruptError, JournalError, JournalMissingError, JournalWriter

RECORDS = st.lists(
    st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(max_size=6), max_size=3),
    min_size=1,
    max_size=4,
)


@contextmanager
def file_of(data: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train-0001.log"
        path.write_bytes(data)
        yield path


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """A real failure in the middle of a write, as a full disk gives it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write(path: Path, records: list[dict]) -> None:
    with JournalWriter(path, fsync="never") as writer:
        for record in records:
            writer.append(record)


@given(RECORDS)
@settings(max_examples=50, deadline=None)
def test_what_is_appended_is_read_back(records: list[dict]) -> None:
    with file_of(b"") as path:
        write(path, records[:1])
        write(path, records[1:])
        assert journal.read(path) == (records, path.stat().st_size)


@given(RECORDS, st.data())
@settings(max_examples=100, deadline=None)
def test_a_cut_at_any_byte_leaves_the_whole_records_and_is_repaired(
    records: list[dict], data: st.DataObject
) -> None:
    frames = [journal.frame(record) for record in records]
    whole = b"".join(frames)
    cut = data.draw(st.integers(0, len(whole)))
    ends = [sum(map(len, frames[:count])) for count in range(len(frames) + 1)]
    kept = max(count for count, end in enumerate(ends) if end <= cut)
    with file_of(whole[:cut]) as path:
        assert journal.read(path) == (records[:kept], ends[kept])
        with JournalWriter(path, fsync="never") as writer:
            assert writer.repaired_bytes == cut - ends[kept]
            assert (writer.torn_file is None) == (cut == ends[kept])
            if writer.torn_file:
                assert writer.torn_file.read_bytes() == whole[ends[kept] : cut]
            writer.append({"after": "repair"})
        assert journal.read(path)[0] == [*records[:kept], {"after": "repair"}]


@given(RECORDS, st.data())
@settings(max_examples=200, deadline=None)
def test_a_changed_byte_is_never_read_as_a_record(records: list[dict], data: st.DataObject) -> None:
    frames = [journal.frame(record) for record in records]
    damaged = bytearray(b"".join(frames))
    position = data.draw(st.integers(0, len(damaged) - 1))
    damaged[position] ^= data.draw(st.integers(1, 255))
    starts = [sum(map(len, frames[:count])) for count in range(len(frames))]
    hit = max(index for index, start in enumerate(starts) if start <= position)
    with file_of(bytes(damaged)) as path:
        if hit == len(records) - 1 and position >= starts[hit] + journal.HEADER_BYTES - 4:
            # In the last record, the payload or its checksum: may have been on its way, a torn tail.
            assert journal.read(path) == (records[:hit], starts[hit])
        else:
            with pytest.raises(JournalCorruptError) as caught:
                journal.read(path)
            assert (caught.value.file, caught.value.offset) == (path, starts[hit])


def test_damage_in_the_middle_names_file_and_offset_and_the_writer_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "train-0001.log"
    write(path, [{"n": 1}, {"n": 2}, {"n": 3}])
    damaged = path.read_bytes().replace(b'"n":2', b'"n":9')
    path.write_bytes(damaged)
    offset = len(journal.frame({"n": 1}))
    with pytest.raises(JournalCorruptError, match=rf"{path} is damaged at byte {offset}"):
        journal.read(path)
    with pytest.raises(JournalCorruptError):
        JournalWriter(path)
    assert path.read_bytes() == damaged
    assert list(tmp_path.iterdir()) == [path]


def test_two_damaged_records_at_the_end_are_no_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "train-0001.log"
    write(path, [{"n": 1}, {"n": 2}, {"n": 3}])
    path.write_bytes(path.read_bytes().replace(b'"n":2', b'"n":9').replace(b'"n":3', b'"n":9'))
    with pytest.raises(JournalCorruptError):
        journal.read(path)


def test_zeros_where_bytes_have_not_arrived_are_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "train-0001.log"
    write(path, [{"n": 1}])
    end = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(5000))
    assert journal.read(path) == ([{"n": 1}], end)
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(JournalCorruptError):
        journal.read(path)


def test_a_reader_follows_from_its_offset(tmp_path: Path) -> None:
    path = tmp_path / "train-0001.log"
    with JournalWriter(path) as writer:
        writer.append({"n": 1})
        first, offset = journal.read(path)
        assert journal.read(path, offset=offset) == ([], offset)
        writer.append({"n": 2})
        second, end = journal.read(path, offset=offset)
        assert (first, second, end) == ([{"n": 1}], [{"n": 2}], writer.offset)
    with pytest.raises(JournalCorruptError, match="before the known offset"):
        journal.read(path, offset=end + 1)


def test_a_missing_journal_is_an_error_and_a_late_one_is_awaited(tmp_path: Path) -> None:
    path = tmp_path / "journal" / "train-0001.log"
    with pytest.raises(JournalMissingError, match=str(path)):
        journal.read(path)
    late = threading.Timer(0.2, write, (path, [{"n": 1}]))
    late.start()
    # It may still be empty when it is first seen; that it is seen is the point.
    journal.read(path, appear_within_s=30)
    late.join()
    assert journal.read(path)[0] == [{"n": 1}]


def test_all_journals_come_by_writer_then_attempt_as_a_number(tmp_path: Path) -> None:
    for name in ("train-10", "train-9", "synthesis-0001", "train-0001"):
        write(tmp_path / f"{name}.log", [{"from": name}])
    (tmp_path / "train-0001.log.torn").write_bytes(b"rest")
    order = [record["from"] for record in journal.read_all(tmp_path)]
    assert order == ["synthesis-0001", "train-0001", "train-9", "train-10"]
    assert [record["from"] for record in journal.read_all(tmp_path, "synthesis")] == ["synthesis-0001"]
    (tmp_path / "notes.log").touch()
    with pytest.raises(JournalError, match=r"notes\.log"):
        journal.read_all(tmp_path)


@pytest.mark.parametrize("record", [{"x": float("nan")}, {"x": object()}, {"x": "\ud800"}])
def test_what_is_no_json_is_refused_and_leaves_the_journal_usable(tmp_path: Path, record: dict) -> None:
    with JournalWriter(tmp_path / "train-0001.log") as writer:
        with pytest.raises(JournalError):
            writer.append(record)
        writer.append({"n": 1})
    assert journal.read_all(tmp_path) == [{"n": 1}]
    with pytest.raises(JournalError, match="closed"):
        writer.append({"n": 2})


def test_a_write_that_fails_half_way_leaves_the_journal_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "train-0001.log"
    with JournalWriter(path) as writer:
        writer.append({"n": 1})
        size = path.stat().st_size
        with file_size_limit(size + 100), pytest.raises(OSError, match="too large"):
            writer.append({"big": "x" * 1000})
        assert path.stat().st_size == size
        writer.append({"n": 2})
    assert journal.read(path)[0] == [{"n": 1}, {"n": 2}]


@given(st.lists(RECORDS, min_size=1, max_size=3), st.data())
@settings(max_examples=50, deadline=None)
def test_records_appended_together_are_all_there_after_a_cut_or_none(
    groups: list[list[dict]], data: st.DataObject
) -> None:
    with file_of(b"") as path:
        with JournalWriter(path, fsync="never") as writer:
            ends = [0]
            for group in groups:
                writer.append_many(group)
                ends.append(writer.offset)
        assert journal.read(path)[0] == [record for group in groups for record in group]
        cut = data.draw(st.integers(0, ends[-1]))
        os.truncate(path, cut)
        whole = sum(end <= cut for end in ends[1:])
        assert journal.read(path) == ([r for group in groups[:whole] for r in group], ends[whole])


def test_a_group_with_a_bad_record_writes_nothing_and_an_empty_one_too(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "train-0001.log") as writer:
        with pytest.raises(JournalError):
            writer.append_many([{"n": 1}, {"n": float("inf")}])
        writer.append_many([])
        assert writer.offset == 0
    assert journal.read_all(tmp_path) == []


@pytest.mark.parametrize(
    ("policy", "appended", "synced"), [("always", 3, 3), ("step", 0, 1), ("never", 0, 0)]
)
def test_the_policy_says_when_records_reach_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, appended: int, synced: int
) -> None:
    with JournalWriter(tmp_path / "train-0001.log", fsync=policy) as writer:
        calls: list[int] = []
        real = os.fsync
        monkeypatch.setattr(os, "fsync", lambda descriptor: (calls.append(descriptor), real(descriptor))[1])
        for n in range(3):
            writer.append_many([{"n": n}, {"n": -n}])
        assert len(calls) == appended
        writer.sync()
        writer.sync()
        assert len(calls) == synced


def test_an_unknown_policy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="always or step or never"):
        JournalWriter(tmp_path / "train-0001.log", fsync="sometimes")


def test_after_a_failed_fsync_the_records_are_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel does it: pages whose write-back failed are dropped, and the next fsync says all is well."""
    path = tmp_path / "train-0001.log"
    real, fail = os.fsync, [True]

    def lossy(descriptor: int) -> None:
        if fail.pop():
            fail.append(False)
            os.pwrite(descriptor, bytes(writer.offset - start), start)
            raise OSError(5, "Input/output error")
        fail.append(False)
        real(descriptor)

    with JournalWriter(path, fsync="step") as writer:
        writer.append({"n": 1})
        writer.sync()
        start = writer.offset
        monkeypatch.setattr(os, "fsync", lossy)
        writer.append_many([{"n": 2}, {"n": 3}])
        writer.sync()
        writer.append({"n": 4})
        writer.sync()
    assert [record["n"] for record in journal.read(path)[0]] == [1, 2, 3, 4]


def test_a_repaired_tail_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "train-0001.log"
    write(path, [{"n": 1}])
    with path.open("ab") as stream:
        stream.write(b"RJ01\0")
    with JournalWriter(path):
        pass
    assert "5 bytes behind its last whole record" in caplog.text
    assert "train-0001.log.torn" in caplog.text


def test_a_link_in_place_of_the_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").touch()
    (tmp_path / "train-0001.log").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        JournalWriter(tmp_path / "train-0001.log")


def test_records_acknowledged_before_a_sigkill_are_there_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "train-0001.log"
    code = (
        "import pathlib, sys\n"
        "from rods.exchange.journal import JournalWriter\n"
        "writer = JournalWriter(pathlib.Path(sys.argv[1]), fsync='never')\n"
        "for n in range(10**6):\n"
        "    writer.append({'n': n, 'fill': 'x' * 1_000_000})\n"
        "    print(n, flush=True)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for _ in range(20):
        acknowledged = int(child.stdout.readline())
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    before, _ = journal.read(path)
    assert [record["n"] for record in before] == list(range(len(before)))
    assert len(before) > acknowledged
    with JournalWriter(path) as writer:
        writer.append({"n": len(before)})
    assert [record["n"] for record in journal.read(path)[0]] == list(range(len(before) + 1))
