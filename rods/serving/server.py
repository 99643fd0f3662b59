"""A model server that a role starts, watches, restarts and stops.

It runs in a process group of its own, which a guard ends when the role is killed outright, on a port that is held from
before its first start until the role ends, with a key made for this start of the role: in a file that only its owner
reads and in the server's environment, never on a command line. No wait is without end: a process that ends, or does
not answer in time, is an error that closes with the log's last lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rods.errors import RodsError
from rods.serving import guard
from rods.serving.probe import Probe

log = logging.getLogger(__name__)

VLLM = (sys.executable, "-m", "vllm.entrypoints.openai.api_server")
_STOP_S = 20.0  # for a clean end, before the group is killed
_TAIL_LINES = 15
_TAIL_BYTES = 16384
_POLL_S = 0.5
_STEADY_S = 600.0  # a server that worked for so long gets all its restarts anew
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 2.0, 120.0
_UNRESPONSIVE_S = 300.0  # alive, but not even its models can be listed
_FATAL = re.compile(
    r"EngineDeadError|EngineCore encountered a fatal error|CUDA error:.*"
)  # vLLM's, in its log

Waiting = Callable[[str], None]


class ServerError(RodsError):
    """The model server cannot be started, or does not stay up."""


@dataclass(frozen=True)
class ServerPlan:
    """What to run.

    Attributes:
        model: what the server loads, and the name under which it serves it.
        command: the program; it is given vLLM's options --host, --port, --model and --served-model-name.
        args: further options.
        env: additions to its environment.
        host: where it listens.
        ready_timeout_s: from its start until it answers.
        max_restarts: in a row.
        first_pause_s: before the first restart; it doubles.
    """

    model: str
    command: Sequence[str] = VLLM
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    ready_timeout_s: float = 1800.0
    max_restarts: int = 5
    first_pause_s: float = _FIRST_PAUSE_S


class ModelServer:
    """One server process, and its successors where it dies.

    Args:
        plan: what to run.
        folder: for its log and its key file, `name`.log and `name`.key.
        name: part of file names.

    Attributes:
        url: where it answers, ends in /v1; the same over all restarts, as is the key.
        key: what it asks for.
        log_file: output of the process and its successors.
    """

    def __init__(self, plan: ServerPlan, folder: Path, name: str) -> None:
        self._plan, self._name = plan, name
        self.log_file = folder / f"{name}.log"
        self._key_file = folder / f"{name}.key"
        self._port = HeldPort(plan.host)
        self.key = secrets.token_urlsafe(32)
        reach = "127.0.0.1" if plan.host in ("0.0.0.0", "::") else plan.host
        self.url = f"http://{reach}:{self._port.number}/v1"
        self._probe = Probe(plan.model, self.url, self.key)
        self._process: asyncio.subprocess.Process | None = None
        self._began, self._log_read = 0.0, 0

    async def start(self) -> None:
        """Start the process; it is not ready yet.

        Raises:
            ServerError: there is no such program.
        """
        plan = self._plan
        command = list(plan.command or VLLM)
        if shutil.which(command[0]) is None:
            raise ServerError(f"model server {plan.model}: cannot run {command[0]}: there is no such program")
        options = ["--host", plan.host, "--port", str(self._port.number)]
        options += ["--model", plan.model, "--served-model-name", plan.model, *plan.args]
        _write_secret(self._key_file, self.key)
        with self.log_file.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", guard.__file__, str(os.getpid())),
                *command,
                *options,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **plan.env, "VLLM_API_KEY": self.key},
                start_new_session=True,
            )
        self._began, self._log_read = time.monotonic(), self.log_file.stat().st_size

    async def until_ready(self, waiting: Waiting) -> None:
        """Wait until the server answers.

        Args:
            waiting: called every half second with what is waited for; what it raises ends the wait.

        Raises:
            ServerError: the process ended, or the time is over; with the log's last lines.
        """
        while problem := await self._probe.problem():
            if self.exit_status() is not None:
                raise self._failure(f"ended with status {self.exit_status()} before it was ready")
            if time.monotonic() - self._began > self._plan.ready_timeout_s:
                raise self._failure(f"is not ready after {self._plan.ready_timeout_s:g} s ({problem})")
            waiting(f"model server {self._plan.model}: {self._last_line()}")
            await asyncio.sleep(_POLL_S)

    async def watch(self) -> None:
        """Restart the server whenever it ends or stops answering; runs until it is cancelled.

        Raises:
            ServerError: it did not stay up, `max_restarts` times in a row.
        """
        restarts = 0
        while True:
            what = await self._until_broken()
            if time.monotonic() - self._began > _STEADY_S:
                restarts = 0
            while True:
                if restarts >= self._plan.max_restarts:
                    raise self._failure(f"{what}, and {restarts} restarts did not help")
                pause = min(self._plan.first_pause_s * 2**restarts, _LONGEST_PAUSE_S)
                restarts += 1
                log.warning(
                    "model server %s %s; restart %d of %d in %.0f s. Log: %s",
                    self._plan.model,
                    what,
                    restarts,
                    self._plan.max_restarts,
                    pause,
                    self.log_file,
                )
                await self._end()
                await asyncio.sleep(pause)
                await self.start()
                try:
                    await self.until_ready(lambda _: None)
                except ServerError as error:
                    what = str(error).splitlines()[0]
                    continue
                break

    async def stop(self) -> None:
        """End the process group, forget the key and release the port; harmless when it never started."""
        await self._end()
        await self._probe.close()
        self._key_file.unlink(missing_ok=True)
        self._port.release()

    async def _until_broken(self) -> str:
        """Wait for the process to end, to fall silent or to say that it is lost; says which."""
        good = time.monotonic()
        while self.exit_status() is None:
            if not await self._probe.problem():
                good = time.monotonic()
            if time.monotonic() - good > _UNRESPONSIVE_S:
                return f"has not answered for {_UNRESPONSIVE_S:g} s"
            if words := self._fatal_words():
                return f"says {words!r} in its log"
            await self._sleep_or_exit(10 * _POLL_S)
        return f"ended with status {self.exit_status()}"

    async def _sleep_or_exit(self, seconds: float) -> None:
        assert self._process is not None
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._process.wait()), seconds)

    async def _end(self) -> None:
        if self._process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            # Also behind a leader that is gone: its workers hold the GPUs.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            if number is signal.SIGTERM:
                await self._sleep_or_exit(_STOP_S)
        await self._process.wait()
        self._process = None

    def exit_status(self) -> int | None:
        """Of the process that ended last; None while one runs."""
        return None if self._process is None else self._process.returncode

    def _failure(self, what: str) -> ServerError:
        return ServerError(
            f"model server {self._plan.model} {what}. The last lines of {self.log_file}:\n{self.tail()}"
        )

    def tail(self) -> str:
        """The log's last lines, without the key."""
        with self.log_file.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = stream.read().decode(errors="replace")
        return "\n".join(text.replace(self.key, "***").splitlines()[-_TAIL_LINES:])

    def _fatal_words(self) -> str:
        """What in the log since the last look says that the server will not answer again; "" for nothing.

        The process that speaks HTTP may live on, and list its models, when its engine is dead.
        """
        with self.log_file.open("rb") as stream:
            stream.seek(self._log_read)
            new = stream.read()
        whole = new.rfind(b"\n") + 1
        self._log_read += whole
        found = _FATAL.search(new[:whole].decode(errors="replace"))
        return found[0][:200].replace(self.key, "***") if found else ""

    def _last_line(self) -> str:
        return self.tail().rpartition("\n")[2][:200] or "no output yet"


class HeldPort:
    """A free TCP port that stays ours while servers come and go.

    The socket is bound and never listens, so it takes no connection. Linux lets another socket with SO_REUSEADDR,
    which servers set, bind the same address and listen as long as nobody else listens there.

    Attributes:
        number: the port.
    """

    def __init__(self, host: str) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, 0))
        except OSError as error:
            self._socket.close()
            raise ServerError(
                f"model server: cannot listen on {host!r}: {error}; correct the host it is to use"
            ) from error
        self.number = int(self._socket.getsockname()[1])

    def release(self) -> None:
        """Give the port up."""
        self._socket.close()


def _write_secret(path: Path, text: str) -> None:
    """Replace `path` by a file that only its owner reads, from its first byte on."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
