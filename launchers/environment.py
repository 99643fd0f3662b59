"""The packages that a run was frozen with: a list with hashes, and what has changed since.

The list names distributions and versions only: no paths, no addresses, nothing that a person would have to take out
before it is shown. The hash is over a distribution's own files, so that it is the same wherever it is installed.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from functools import cache
from importlib import metadata

_PYTHON = "# Python "
_ABSENT = "(absent)"
# What an installer notes about an installation; not part of the distribution.
_NOTES = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_build.json", "uv_cache.json")


@cache
def lock() -> str:
    """One line for Python, then one a distribution, sorted: `name==version --hash=sha256:…`.

    Without a hash stands one that lists no files (an editable installation).
    """
    lines = {
        f"{name}=={dist.version}{_hash(dist)}"
        for dist in metadata.distributions()
        if (name := dist.metadata["Name"])
    }
    return "\n".join([f"{_PYTHON}{platform.python_version()}", *sorted(lines)]) + "\n"


def _hash(dist: metadata.Distribution) -> str:
    files = sorted(_files(dist.read_text("RECORD") or ""))
    if not files:
        return ""
    return f" --hash=sha256:{hashlib.sha256(chr(10).join(files).encode()).hexdigest()}"


def _files(record: str) -> Iterator[str]:
    """Path and hash of each file that came with the distribution; scripts outside of it hold a machine's path."""
    for line in record.splitlines():
        path, _, rest = line.partition(",sha256=")
        note = ".dist-info/" in path and path.rpartition("/")[2] in _NOTES
        if rest and not path.startswith("..") and not note:
            yield line.rpartition(",")[0]


def changes(frozen: str, now: str) -> list[str]:
    """What is not as it was: "name 1.0 → 1.1" by name; a package that was not there then is no change.

    Args:
        frozen, now: two lists as `lock` makes them; other lines are passed over.
    """
    before, after = _parsed(frozen), _parsed(now)
    found = []
    for name, (version, content) in sorted(before.items()):
        new_version, new_content = after.get(name, (_ABSENT, ""))
        if new_version != version:
            found.append(f"{name} {version} → {new_version}")
        elif content and new_content and new_content != content:
            found.append(f"{name} {version} has other files than it had")
    return found


def _parsed(text: str) -> dict[str, tuple[str, str]]:
    """Version and hash by name."""
    found = {}
    for line in text.splitlines():
        name, separator, rest = line.partition("==")
        if separator and name:
            version, _, content = rest.partition(" --hash=")
            found[name] = (version, content)
        elif line.startswith(_PYTHON):
            found["Python"] = (line.removeprefix(_PYTHON), "")
    return found
