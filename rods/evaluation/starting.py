"""What a person is told while an engine starts: which, where its log is, and every few seconds how far it is."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.text import Text

from rods.config import RolloutConfig
from rods.rollout.engine import resolve_name

Say = Callable[[str], None]
_EVERY_S = 15.0
_TAIL_BYTES = 4096
_LONGEST = 160  # characters of a log's line


@contextmanager
def told(rollout: RolloutConfig, logs: Path, say: Say, every_s: float = _EVERY_S) -> Iterator[None]:
    """Tell `say` that the engine starts, every `every_s` seconds the last line of its logs, and that it is ready.

    Args:
        logs: folder in which servers of the engine write `*.log`.
    """
    began, ready = time.monotonic(), threading.Event()

    def remind() -> None:
        while not ready.wait(every_s):
            say(f"still starting after {time.monotonic() - began:.0f} s{_last_words(logs)}")

    say(f"starting {_what(rollout, logs)}")
    thread = threading.Thread(target=remind, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ready.set()
        thread.join()
    say(f"ready after {time.monotonic() - began:.0f} s")


def _what(rollout: RolloutConfig, logs: Path) -> str:
    if rollout.placement != "served":
        return f"the engine {resolve_name(rollout.engine)}"
    if rollout.servers:
        return f"the engine on the servers {', '.join(rollout.servers)}"
    return f"{max(1, len(rollout.server.devices))} vLLM server(s), which takes minutes; log: {logs}"


def _last_words(logs: Path) -> str:
    """The last line of the log that was written last; "" without any."""
    written = [path for path in logs.glob("*.log") if path.stat().st_size]
    if not written:
        return ""
    newest = max(written, key=lambda path: path.stat().st_mtime)
    with newest.open("rb") as stream:
        stream.seek(max(0, newest.stat().st_size - _TAIL_BYTES))
        text = stream.read().decode(errors="replace")
    # A progress bar's states are parted by \r, names of processes are coloured.
    lines = (Text.from_ansi(line).plain.strip() for line in reversed(re.split(r"[\r\n]", text)))
    last = next((line for line in lines if line), "")
    return f"; {newest.name}: {last[:_LONGEST]}"
