"""The fault layer itself: a test that injects nothing would pass whatever the product does."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import faults
import pytest
from faults import Fault, SimulatedCrash, injected

from rods.exchange.atomic import read_json, write_json


def put(path: Path, text: str) -> None:
    """A write and an fsync, with nobody between who mends what fails."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o640)
    try:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def test_the_nth_matching_call_raises_and_the_next_does_not(tmp_path: Path) -> None:
    with injected(Fault("raise", at=2, operations=("write",), path=f"{tmp_path}/*", error="EACCES")):
        write_json(tmp_path / "a", 1)
        with pytest.raises(OSError, match="Permission") as caught:
            write_json(tmp_path / "b", 2)
        write_json(tmp_path / "c", 3)
    assert caught.value.errno == errno.EACCES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c"]


def test_a_fault_lasts_while_its_file_exists(tmp_path: Path) -> None:
    flag = tmp_path / "full"
    fault = Fault("raise", times=None, operations=("fsync",), error="ENOSPC", while_file=str(flag))
    with injected(fault):
        put(tmp_path / "a", "1")
        flag.touch()
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                put(tmp_path / "a", "2")
        flag.unlink()
        put(tmp_path / "a", "3")
    assert (tmp_path / "a").read_text() == "3"


def test_a_write_is_cut_in_half(tmp_path: Path) -> None:
    target = tmp_path / "a"
    with (
        injected(Fault("crash", moment="within", operations=("write",))),
        open(target, "wb", buffering=0) as stream,
        pytest.raises(SimulatedCrash),
    ):
        os.write(stream.fileno(), b"12345678")
    assert target.read_bytes() == b"1234"


def test_a_kill_after_a_rename_leaves_the_file_and_a_report(tmp_path: Path) -> None:
    report = tmp_path / "report"
    fault = Fault("kill", moment="after", operations=("replace",), path="*/a", report=str(report))
    assert faults.run_in_child(lambda: write_json(tmp_path / "a", 1), [fault]) == -9
    assert read_json(tmp_path / "a") == 1
    line = json.loads(report.read_text())
    assert (line["operation"], line["moment"], Path(line["path"]).name) == ("replace", "after", "a")


def test_every_point_of_an_atomic_write_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    target = tmp_path / "a"
    seen = set()

    def prepare():
        write_json(target, "old")
        return lambda: write_json(target, "new")

    deaths = faults.kill_at_every_point(prepare, lambda: seen.add(read_json(target)), path=f"{tmp_path}/*")
    assert deaths >= 3 * len(("open", "write", "fsync", "replace"))
    assert seen == {"old", "new"}


def test_listings_do_not_see_what_is_younger_than_the_delay(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with injected(Fault("hide", times=None, operations=("listdir", "scandir"), hide_s=0.3)):
        assert os.listdir(tmp_path) == []
        assert list(tmp_path.glob("*")) == []
        deadline = time.monotonic() + 10
        while not os.listdir(tmp_path):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert list(tmp_path.glob("*")) == [tmp_path / "a"]


def test_a_process_of_its_own_is_armed_by_its_environment(tmp_path: Path) -> None:
    faults.write_sitecustomize(tmp_path)
    code = (
        f"from pathlib import Path; Path({str(tmp_path / 'made')!r}).mkdir(); Path('/nonexistent/x').mkdir()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            **faults.environment([Fault("kill", moment="after", operations=("mkdir",))]),
            "PYTHONPATH": str(tmp_path),
        },
        check=False,
    )
    assert done.returncode == -9
    assert (tmp_path / "made").is_dir()


def test_nothing_is_patched_afterwards() -> None:
    before = (os.write, open)
    with injected(Fault("crash")):
        assert (os.write, open) != before
    assert (os.write, open) == before


def test_a_frozen_process_freezes_once_and_goes_on(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        faults.install([Fault("freeze", operations=("replace",))])
        write_json(tmp_path / "a", 1)
        os._exit(0)
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
    assert not (tmp_path / "a").exists()
    os.kill(pid, signal.SIGCONT)
    assert os.waitpid(pid, os.WUNTRACED)[1] == 0
    assert read_json(tmp_path / "a") == 1
