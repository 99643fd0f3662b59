"""Runs a program and leaves nothing of it behind when the process that asked for it is gone: `guard.py PID COMMAND …`.

The kernel can tell one process that its parent died, and a model server has many: vLLM's engine and its workers would
go on holding the GPUs of a role that was killed outright. So this process leads their group, looks for process PID,
its own parent, and ends the group when that is no more. It uses the standard library only and starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time

_POLL_S = 0.5
_STOP_S = 20.0  # for a clean end, before the group is killed
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main(arguments: list[str]) -> int:
    """Run the command until it ends; its status, or 128 and the signal's number."""
    parent, command = int(arguments[0]), arguments[1:]
    # What is sent to the group is for the others: this process has to outlive them. Handlers, unlike SIG_IGN, are not
    # inherited by the program.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    child = subprocess.Popen(command, preexec_fn=_die_with_guard)
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = child.wait(_POLL_S)
            return status if status >= 0 else 128 - status
        if os.getppid() != parent:
            _end_group(child)


def _end_group(child: subprocess.Popen[bytes]) -> None:
    """SIGTERM, and after a while SIGKILL, for all of the group; the latter ends this process too."""
    os.killpg(0, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_STOP_S)
        time.sleep(_POLL_S)  # for the child's children
    os.killpg(0, signal.SIGKILL)


def _die_with_guard() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
