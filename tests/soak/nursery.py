"""A process that has imported everything and forks supervisors and roles on request, one JSON line each.

    {"start": {"run": …, "victim": …, "fault": {…} | null}}   →  {"pid": …}
    {"role": {"run": …, "role": …, "attempt": …, "fault": …}} →  {"pid": …}
    {"poll": pid}                                             →  {"status": null | exit status}

It takes in the orphans that a killed supervisor leaves, so that none stays as a zombie which looks alive.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults import Fault

_PR_SET_CHILD_SUBREAPER = 36


def serve() -> None:
    """Answer requests until the end of the input."""
    from rods.roles import synthesize  # noqa: F401
    from soak import policy, processes  # the imports that take seconds

    assert policy
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    ended: dict[int, int] = {}
    _say({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        if "start" in request:
            _say({"pid": _start(processes, **request["start"])})
        elif "role" in request:
            _say({"pid": _start_role(processes, **request["role"])})
        else:
            _reap(ended)
            _say({"status": ended.get(request["poll"])})


def _start(processes: Any, run: str, victim: str, fault: dict[str, Any] | None) -> int:
    path = Path(run)
    return _fork(
        processes,
        path.with_name(f"{path.name}-supervisor"),
        lambda: processes.supervise(path, victim, _fault(fault)),
    )


def _start_role(processes: Any, run: str, role: str, attempt: int, fault: dict[str, Any] | None) -> int:
    log = Path(run) / "attempts" / f"{attempt:04d}-{role}"
    return _fork(processes, log, lambda: processes.lone_role(run, role, attempt, _fault(fault)))


def _fork(processes: Any, log: Path, action: Callable[[], int]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        processes.become(log, parent)
        processes.leave(action)
    return pid


def _fault(body: dict[str, Any] | None) -> Fault | None:
    return Fault(**{**body, "operations": tuple(body["operations"])}) if body else None


def _reap(ended: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        ended[pid] = os.waitstatus_to_exitcode(status)


def _say(body: dict[str, Any]) -> None:
    print(json.dumps(body), flush=True)


if __name__ == "__main__":
    serve()
