"""The doctor on good and on bad file systems: each verdict is seen to fail."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mounts
import pytest
from faults import Fault, injected
from typer.testing import CliRunner

from rods.cli import app
from rods.config import ExchangeConfig
from rods.doctor import atomicity, examine, locks, show, stack, timing, volume
from rods.doctor.finding import Finding, Level, is_fit

EXCHANGE = ExchangeConfig()


def by_probe(path: Path) -> dict[str, Finding]:
    return {finding.probe: finding for finding in examine.directory(path, EXCHANGE)}


def test_a_good_directory_is_fit_and_left_as_it_was(tmp_path: Path) -> None:
    place = tmp_path / "runs with ü and spaces"
    place.mkdir()
    found = by_probe(place)
    assert len(found) == 13
    assert {name for name, finding in found.items() if finding.level is Level.unfit} == set()
    assert found["rename as a claim"].figures == {"rounds": 60, "wins": 60}
    assert list(place.iterdir()) == []


def test_a_directory_that_is_not_there_yet_is_probed_above_and_not_made(tmp_path: Path) -> None:
    assert is_fit(examine.directory(tmp_path / "later" / "runs", EXCHANGE))
    assert list(tmp_path.iterdir()) == []


def test_a_small_tmpfs_is_unfit_for_want_of_space(tmp_path: Path) -> None:
    with mounts.tmpfs(tmp_path / "small", "size=8m,nr_inodes=600") as folder:
        found = by_probe(folder)
        assert found["file system"].measured.startswith(f"tmpfs at {folder}")
        assert found["file system"].level is Level.warning
        assert found["space"].level is found["inodes"].level is Level.unfit
        assert found["rename over a file"].level is Level.ok
        assert os.listdir(folder) == []


def test_a_full_or_read_only_directory_is_unfit(tmp_path: Path) -> None:
    with mounts.tmpfs(tmp_path / "small") as folder:
        ballast = mounts.fill(folder)
        assert by_probe(folder)["durable write"].level is Level.unfit
        ballast.unlink()
        mounts.remount(folder, "ro")
        (finding,) = examine.directory(folder, EXCHANGE)
        assert (finding.level, finding.probe) == (Level.unfit, "scratch folder")
        assert volume.kind(folder).level is Level.unfit


def test_a_replacement_in_two_steps_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_steps(source: Path, target: Path) -> None:
        target.unlink(missing_ok=True)
        time.sleep(0.001)
        source.rename(target)

    monkeypatch.setattr(os, "replace", in_steps)
    finding = atomicity.replacement(tmp_path)
    assert finding.level is Level.unfit
    assert finding.figures["missing"] > 0


def test_a_replacement_that_is_a_copy_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def copied(source: Path, target: Path) -> None:
        data = source.read_bytes()
        with target.open("r+b", buffering=0) as stream:
            stream.write(data[: len(data) // 2])
            time.sleep(0.02)  # on a busy machine the reader would else see each copy whole
            stream.write(data[len(data) // 2 :])

    monkeypatch.setattr(os, "replace", copied)
    finding = atomicity.replacement(tmp_path)
    assert finding.level is Level.unfit
    assert finding.figures["torn"] > 0


def anybody(*_: Any, **__: Any) -> None:
    """A file system that tells everybody that it worked."""


@pytest.mark.parametrize(
    ("call", "probe"), [("rename", atomicity.claims), ("link", atomicity.links), ("mkdir", atomicity.folders)]
)
def test_two_winners_are_found_out(
    call: str, probe: Callable[[Path], Finding], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, call, anybody)
    finding = probe(tmp_path)
    assert finding.level is Level.unfit
    assert finding.figures["wins"] == 2 * finding.figures["rounds"]


@pytest.mark.parametrize(
    ("operation", "error", "probe"),
    [
        ("link", "EPERM", "exclusive hard link"),
        ("rename", "EIO", "rename as a claim"),
        ("fsync", "EIO", "durable write"),
        ("utime", "EACCES", "clock"),
    ],
)
def test_a_call_that_fails_makes_the_directory_unfit(
    operation: str, error: str, probe: str, tmp_path: Path
) -> None:
    with injected(Fault("raise", times=None, operations=(operation,), path=f"{tmp_path}/*", error=error)):
        finding = by_probe(tmp_path)[probe]
    assert finding.level is Level.unfit
    assert finding.measured.startswith("failed: ")
    assert list(tmp_path.iterdir()) == []


def test_flock_is_described_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert locks.flock(tmp_path).level is Level.ok
    monkeypatch.setattr(fcntl, "flock", anybody)
    assert "does nothing" in locks.flock(tmp_path).measured

    def absent(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", absent)
    assert locks.flock(tmp_path).measured.startswith("absent")


@pytest.mark.parametrize(
    ("shift_s", "level"), [(0, Level.ok), (-5, Level.note), (600, Level.warning), (-600, Level.warning)]
)
def test_a_server_with_another_clock_is_noticed(
    shift_s: float, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - shift_s)
    finding = timing.clock(tmp_path, EXCHANGE)
    assert finding.level is level
    assert finding.figures["skew_s"] == pytest.approx(shift_s, abs=0.9)


def test_a_slow_disk_suggests_fewer_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(10**6))
    monkeypatch.setattr(time, "perf_counter", lambda: 0.05 * next(ticks))
    finding = timing.durable_writes(tmp_path, EXCHANGE)
    assert finding.level is Level.warning
    assert finding.figures["median_ms"] == pytest.approx(50)
    assert "exchange.fsync=step" in finding.meaning


def test_late_and_missing_listings_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "late").mkdir()
    with injected(Fault("hide", times=None, operations=("listdir",), path=f"{tmp_path}/*", hide_s=0.3)):
        finding = timing.visibility(tmp_path / "late", ExchangeConfig(lease_s=1.0))
    assert finding.level is Level.warning
    assert finding.figures["worst_s"] >= 0.3
    (tmp_path / "never").mkdir()
    monkeypatch.setattr(timing, "_SIGHT_S", 0.7)
    monkeypatch.setattr(os, "listdir", lambda _: [])
    assert timing.visibility(tmp_path / "never", EXCHANGE).level is Level.unfit


def test_names_that_come_back_changed_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.listdir
    monkeypatch.setattr(os, "listdir", lambda folder: [name.lower() for name in real(folder)])
    finding = volume.names(tmp_path)
    assert finding.level is Level.unfit
    assert "'CASE'" in finding.measured


TABLE = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /lustre rw,noatime - lustre 10.0.0.1@tcp:/scratch rw,localflock
31 22 0:41 / /home\040of/all rw - nfs4 server:/home rw,soft,vers=4.2
""".strip()


@pytest.mark.parametrize(
    ("path", "kind", "option"),
    [
        ("/lustre/me/runs", "lustre", "localflock"),
        ("/lustrous", "ext4", "relatime"),
        ("/home of/all/x", "nfs4", "soft"),
        ("/", "ext4", "rw"),
    ],
)
def test_the_mount_is_the_deepest_that_holds_the_path(path: str, kind: str, option: str) -> None:
    found = volume.mount_of(Path(path), TABLE)
    assert found is not None
    assert found.kind == kind
    assert option in found.options


def test_a_soft_nfs_mount_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"1 1 0:1 / {tmp_path} rw - nfs4 server:/home rw,soft")
    monkeypatch.setattr(volume, "MOUNTS", table)
    finding = volume.kind(tmp_path)
    assert (finding.level, "mount it hard" in finding.meaning) == (Level.warning, True)


@pytest.mark.parametrize("broken", [False, True])
def test_the_command_ends_with_the_verdict(
    broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if broken:
        monkeypatch.setattr(os, "link", anybody)
    done = CliRunner().invoke(app, ["doctor", "--dir", str(tmp_path), "--json"])
    assert done.exit_code == int(broken)
    said = json.loads(done.stdout)
    assert said["fit"] is not broken
    levels = {finding["probe"]: finding["level"] for finding in said["findings"]}
    assert levels["exclusive hard link"] == ("unfit" if broken else "ok")


def test_the_table_shows_what_was_found_and_what_it_means(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    show.table("t", [Finding("clock", Level.note, "[Errno 5] x", "keep NTP running")], Console(width=120))
    shown = capsys.readouterr().out
    for part in ("note", "clock", "[Errno 5] x", "keep NTP running"):
        assert part in shown


def test_the_installation_is_listed_and_a_missing_part_is_unfit(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {finding.probe: finding for finding in stack.stack()}
    assert {"python", "torch", "deepspeed", "vllm", "bfcl-eval", "GPUs"} <= set(found)
    assert is_fit(list(found.values()))
    monkeypatch.setattr(stack, "_NEEDED", ("torch", "no-such-distribution"))
    assert not is_fit(stack.stack())


def test_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    # On a busy machine the doctor may be done before the signal comes: then it is asked once more.
    assert any(_ends_by_ctrl_c(tmp_path) for _ in range(5))


def _ends_by_ctrl_c(tmp_path: Path) -> bool:
    """Interrupt a doctor at work; whether the signal found it there. Nothing is left behind in either case."""
    code = "import sys; from rods.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "doctor", "--dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while not list(tmp_path.iterdir()):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert b"Traceback" not in told
    assert list(tmp_path.iterdir()) == []
    return process.returncode not in (0, 1)


def test_an_sbatch_that_fails_is_not_called_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert stack.stack()[-1].measured == "no sbatch here"
    tool = tmp_path / "sbatch"
    tool.write_text("#!/bin/sh\nexit 1\n")
    tool.chmod(0o755)
    assert stack.stack()[-1].measured == "sbatch is here and fails"
