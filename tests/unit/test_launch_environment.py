"""The list of packages that a run is frozen with: complete, without secrets, the same for the same packages."""

from __future__ import annotations

import os
import platform
import re
import sys
from pathlib import Path

import pytest

from launchers import environment
from launchers.environment import changes, lock

FROZEN = "# Python 3.11.2\na==1.0 --hash=sha256:aa\nb==2.0\nc==3.0 --hash=sha256:cc\n"


def install(folder: Path, name: str, version: str, record: str, direct_url: str = "") -> None:
    """As an installer leaves a distribution."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text(record)
    if direct_url:
        (info / "direct_url.json").write_text(direct_url)


def lock_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The list for what is installed in `folder` alone."""
    monkeypatch.setattr(sys, "path", [str(folder)])
    environment.lock.cache_clear()
    try:
        return environment.lock()
    finally:
        environment.lock.cache_clear()


def test_it_names_what_is_installed_here() -> None:
    lines = lock().splitlines()
    assert lines[0] == f"# Python {platform.python_version()}"
    assert lines[1:] == sorted(lines[1:])
    assert all(re.fullmatch(r"[\w.-]+==\S+( --hash=sha256:[0-9a-f]{64})?", line) for line in lines[1:])
    assert any(line.startswith("hydra-core==") and "--hash" in line for line in lines)


def test_it_holds_no_path_of_this_machine() -> None:
    for path in (sys.prefix, os.getcwd(), str(Path.home())):
        assert path not in lock() or path == "/"


def test_the_hash_is_of_the_packages_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = "x/a.py,sha256=AAA,10\nx/b.py,sha256=BBB,20\n"
    install(tmp_path / "1", "x", "1.0", record)
    noise = (
        "x/__pycache__/a.pyc,,\n../../../bin/x,sha256=script,5\nx-1.0.dist-info/RECORD,,\n"
        "x-1.0.dist-info/INSTALLER,sha256=pip,4\nx-1.0.dist-info/direct_url.json,sha256=url,9\n"
    )
    shuffled = "\n".join(reversed(record.splitlines())) + "\n"
    install(tmp_path / "2", "x", "1.0", noise + shuffled, '{"url": "https://user:SECRET@host/x"}')
    install(tmp_path / "3", "x", "1.0", record.replace("BBB", "CCC"))
    first, second, third = (lock_of(tmp_path / name, monkeypatch) for name in "123")
    assert first == second
    assert "SECRET" not in second
    assert first != third
    assert changes(first, third) == ["x 1.0 has other files than it had"]


def test_without_a_list_of_files_there_is_no_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "x", "1.0", "")
    assert lock_of(tmp_path, monkeypatch).splitlines()[1:] == ["x==1.0"]


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (FROZEN, []),
        (FROZEN + "d==4.0\n", []),
        (FROZEN.replace("a==1.0", "a==1.1"), ["a 1.0 → 1.1"]),
        (FROZEN.replace("b==2.0\n", ""), ["b 2.0 → (absent)"]),
        (FROZEN.replace("3.11.2", "3.12.0"), ["Python 3.11.2 → 3.12.0"]),
        (FROZEN.replace("sha256:cc", "sha256:dd"), ["c 3.0 has other files than it had"]),
        (FROZEN.replace("b==2.0", "b==2.0 --hash=sha256:bb"), []),
        (
            "",
            ["Python 3.11.2 → (absent)", "a 1.0 → (absent)", "b 2.0 → (absent)", "c 3.0 → (absent)"],
        ),
    ],
)
def test_what_has_changed_is_told_by_name(now: str, found: list[str]) -> None:
    assert changes(FROZEN, now) == found


def test_other_lines_are_passed_over() -> None:
    assert changes("the soak's\n\n==\n# Python 3.11.2\nnonsense\n", FROZEN) == []
