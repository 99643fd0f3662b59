"""Small file systems to fill up: a tmpfs where this user may mount one."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_CHUNK = bytes(4096)


@functools.cache
def can_mount() -> bool:
    """Whether this process may mount a tmpfs (root, or root in a user namespace)."""
    with tempfile.TemporaryDirectory() as folder:
        if _mount(Path(folder), "size=64k").returncode:
            return False
        _unmount(Path(folder))
    return True


@functools.cache
def can_unshare() -> bool:
    """Whether this user may become root in a namespace of its own."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode == 0


@contextmanager
def tmpfs(folder: Path, options: str = "size=1m") -> Iterator[Path]:
    """A tmpfs mounted at the new `folder`; the test is skipped where that is not allowed."""
    if not can_mount():
        pytest.skip("this user may not mount a tmpfs")
    folder.mkdir()
    done = _mount(folder, options)
    assert done.returncode == 0, done.stderr
    try:
        yield folder
    finally:
        _unmount(folder)


def remount(folder: Path, options: str) -> None:
    """Change the options of a mounted file system, such as ro."""
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True, capture_output=True)


def fill(folder: Path) -> Path:
    """Take all space that is left; the file to remove to have it back."""
    ballast = folder / "ballast"
    descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        while True:
            os.write(descriptor, _CHUNK)
    except OSError:
        return ballast
    finally:
        os.close(descriptor)


def _mount(folder: Path, options: str) -> subprocess.CompletedProcess[str]:
    command = ["mount", "-t", "tmpfs", "-o", options, "rods-test", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)
