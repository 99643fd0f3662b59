"""The model server as the role runs it, with a stand-in process in place of vLLM's: started, found ready, killed,
restarted, stopped; and what happens when it does not come up.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from rods.config import ServerConfig, SynthesisConfig
from rods.serving.server import HeldPort, ModelServer, ServerError, ServerPlan
from rods.synthesis.pipeline import Outcome, Pipeline
from rods.synthesis.service import open_backend
from tests.unit.synthesis_examples import seed_task

STAND_IN = (sys.executable, str(Path(__file__).parents[1] / "llm_server.py"))


def plan(*args: str, **more: Any) -> ServerPlan:
    return ServerPlan("m", command=STAND_IN, args=args, first_pause_s=0.01, **more)


def config(*args: str, **more: Any) -> SynthesisConfig:
    server = ServerConfig(command=STAND_IN, ready_timeout_s=30.0, **more)
    return SynthesisConfig(backend="openai", model="m", server=server, server_args=args)


def quiet(_: str) -> None:
    """Wait on."""


async def make(config: SynthesisConfig, folder: Path) -> Outcome:
    async with open_backend(config, folder, folder / "logs", quiet) as backend:
        return await Pipeline(config, backend, 0).run(seed_task(), "key")


def group_is_gone(pid: int) -> bool:
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_the_pipeline_on_a_server_of_its_own(tmp_path: Path) -> None:
    outcome = asyncio.run(asyncio.wait_for(make(config(), tmp_path), 60))
    assert len(outcome.tasks) == 1
    assert not list((tmp_path / "logs").glob("*.key"))
    assert "stand-in for m" in (tmp_path / "logs" / "server-m.log").read_text()


def test_a_server_that_dies_in_the_middle_costs_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rods.synthesis.service.ServerPlan", _quick)
    # It dies at its fourth answer, again and again; the pipeline needs nine.
    outcome = asyncio.run(asyncio.wait_for(make(config("--die-after", "4"), tmp_path), 120))
    assert (len(outcome.tasks), outcome.attempts) == (1, 1)
    assert (tmp_path / "logs" / "server-m.log").read_text().count("the stand-in dies") >= 2


def test_a_server_that_lists_its_models_with_a_dead_engine_is_restarted(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = ModelServer(plan("--engine-dies-after", "1"), tmp_path, "server")
        await server.start()
        await server.until_ready(quiet)
        first = server._process
        watching = asyncio.create_task(server.watch())
        headers = {"Authorization": f"Bearer {server.key}"}
        async with httpx.AsyncClient(headers=headers) as client:
            reply = await client.post(f"{server.url}/chat/completions", json={})
        assert reply.status_code == 500
        while server._process is first or server._process is None:
            await asyncio.sleep(0.01)
        await server.until_ready(quiet)
        watching.cancel()
        await server.stop()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def _quick(**given: Any) -> ServerPlan:
    return ServerPlan(**given, first_pause_s=0.01)


def test_key_group_port_and_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        server = ModelServer(plan(), tmp_path, "server")
        await server.start()
        await server.until_ready(quiet)
        first = server._process
        assert first is not None
        key_file = tmp_path / "server.key"
        assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
        assert key_file.read_text() == server.key
        assert server.key not in Path(f"/proc/{first.pid}/cmdline").read_text()
        assert os.getpgid(first.pid) == first.pid
        watching = asyncio.create_task(server.watch())
        os.kill(first.pid, signal.SIGKILL)
        while server._process is first or server._process is None:
            await asyncio.sleep(0.01)
        await server.until_ready(quiet)
        second = server._process
        watching.cancel()
        await server.stop()
        until(lambda: group_is_gone(first.pid))
        until(lambda: group_is_gone(second.pid))
        assert not key_file.exists()
        assert server.key not in server.log_file.read_text()

    asyncio.run(asyncio.wait_for(scenario(), 60))


@pytest.mark.parametrize(
    ("args", "timeout_s", "what"),
    [
        (["--die-at-once"], 60.0, "ended with status 3 before it was ready"),
        (["--never-ready"], 6.0, "is not ready after 6 s"),
    ],
)
def test_a_server_that_does_not_come_up_ends_with_its_last_words(
    tmp_path: Path, args: Sequence[str], timeout_s: float, what: str
) -> None:
    async def scenario() -> None:
        server = ModelServer(plan(*args, ready_timeout_s=timeout_s), tmp_path, "server")
        try:
            await server.start()
            await server.until_ready(quiet)
        finally:
            await server.stop()

    with pytest.raises(ServerError, match=what) as caught:
        asyncio.run(asyncio.wait_for(scenario(), 60))
    assert "stand-in for m" in str(caught.value)


def test_a_server_that_does_not_stay_up_ends_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rods.synthesis.service.ServerPlan", _quick)
    with pytest.raises(ServerError, match=r"2 restarts did not help[\s\S]*the stand-in dies"):
        asyncio.run(asyncio.wait_for(make(config("--die-after", "1", max_restarts=2), tmp_path), 120))


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    server = ServerConfig(command=("/nowhere/vllm",))
    wrong = SynthesisConfig(backend="openai", model="m", server=server)
    with pytest.raises(ServerError, match="cannot run /nowhere/vllm"):
        asyncio.run(make(wrong, tmp_path))


_ROLE = """
import asyncio, sys
from pathlib import Path
from rods.serving.server import ModelServer, ServerPlan

async def main():
    command = (sys.executable, "-c", sys.argv[2])
    server = ModelServer(ServerPlan("m", command=command), Path(sys.argv[1]), "server")
    await server.start()
    print(server._process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""
_FORKING = """
import os, signal, time
if os.fork():
    time.sleep(600)
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # an engine that does not listen
print("engine", os.getpid(), flush=True)
time.sleep(600)
"""


def test_nothing_of_the_server_survives_a_role_that_is_killed_outright(tmp_path: Path) -> None:
    role = subprocess.Popen(
        [sys.executable, "-c", _ROLE, tmp_path, _FORKING], stdout=subprocess.PIPE, text=True
    )
    assert role.stdout is not None
    group = int(role.stdout.readline())
    log = tmp_path / "server.log"
    until(lambda: "engine" in log.read_text())
    engine = int(log.read_text().split()[1])
    assert os.getpgid(engine) == group
    role.kill()
    role.wait()
    until(lambda: group_is_gone(group))
    assert not Path(f"/proc/{engine}").exists()


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_held_port_can_be_served_on_and_is_not_handed_out() -> None:
    held = HeldPort("127.0.0.1")
    with socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", held.number))
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", held.number))
        server.listen()
        socket.create_connection(("127.0.0.1", held.number)).close()
    held.release()
