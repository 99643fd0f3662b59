"""A stop in the middle of rollouts that several ranks play: all leave together and save, none waits for another."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("moment", "leavers"),
    [("first", "rank 0, 1 of 2"), ("waiting", "rank 0, 1 of 2")],
)
def test_all_ranks_leave_when_rank_0_does(moment: str, leavers: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    path = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    ranks = [
        subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "leaving_rank.py"), str(port), moment],
            env={**os.environ, "RANK": str(rank), "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    said = [json.loads(rank.communicate(timeout=250)[0].splitlines()[-1]) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0]
    assert said == [[f"episodes were left in their middle by {leavers}", "saved here"]] * 2
