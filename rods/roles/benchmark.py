"""`rods benchmark`: run a suite's own command line in its own environment, against a server of the policy."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rods.evaluation import external
from rods.evaluation.external import External, ExternalError, Target
from rods.exchange.atomic import make_dirs, write_json
from rods.model_path import local
from rods.serving.server import ModelServer, ServerPlan

_SERVER_ARGS = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
_VERSION = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"


@dataclass(frozen=True)
class Order:
    """A benchmark that is asked for.

    Attributes:
        policy: a Hugging Face folder, such as a run's `policy`, or a cached model's name.
        environment: Python of the environment that the suite is installed in.
        folder: of the result and the suite's files; for τ²-bench and ACEBench their repository.
        name: of the policy in the suite; "": as the server calls it.
        url, key: of a server that runs; "": one is started.
        user: model that plays the user, as the suite names it.
    """

    suite: str
    policy: str
    environment: str
    folder: Path
    name: str = ""
    url: str = ""
    key: str = "EMPTY"
    user: str = ""


def benchmark(order: Order) -> dict[str, Any]:
    """Run it and read its scores; returns the result, which is also in `rods_<suite>.json`.

    Raises:
        ExternalError: the suite, a key or a file of it is missing, or it failed.
        ServerError: the server does not come up.
    """
    suite = external.get(order.suite)
    version = check(suite, order)
    make_dirs(order.folder)
    return asyncio.run(_run(suite, order, version))


def check(suite: External, order: Order) -> str:
    """The suite's version, once everything that it needs is there.

    Raises:
        ExternalError: something is not.
    """
    if shutil.which(order.environment) is None:
        raise ExternalError(
            f"--environment {order.environment}: expected the Python of the suite's environment, found no such program"
        )
    missing = [key for key in suite.keys if not os.environ.get(key)]
    if missing:
        raise ExternalError(
            f"{suite.name} needs {', '.join(missing)} in the environment; set it and try again"
        )
    if suite.name.startswith("tau2") and not order.user:
        raise ExternalError(f"{suite.name} needs --user: the model that plays the user, as litellm names it")
    absent = [name for name in suite.files if not (order.folder / name).exists()]
    if absent:
        raise ExternalError(
            f"--folder {order.folder}: expected the repository of {suite.name}, found no {', '.join(absent)} in it"
        )
    return _version(suite, order.environment) if suite.distribution else "from its repository"


def _version(suite: External, python: str) -> str:
    asked = subprocess.run(
        [python, "-c", _VERSION, suite.distribution], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        raise ExternalError(
            f"--environment {python}: expected {suite.distribution} to be installed there, for {suite.name}; it is not"
        )
    return asked.stdout.strip()


async def _run(suite: External, order: Order, version: str) -> dict[str, Any]:
    async with _target(order) as target:
        variables = {**os.environ, **suite.variables(target, order.folder.absolute())}
        commands = suite.commands(target, order.folder.absolute())
        for command in commands:
            await asyncio.to_thread(_call, suite, order, command, variables)
        parts = suite.scores(target, order.folder.absolute())
    result = {
        "suite": suite.name,
        "policy": order.policy,
        "version": version,
        "commands": commands,
        "parts": [asdict(part) for part in parts],
    }
    write_json(order.folder / f"rods_{suite.name}.json", result)
    return result


@asynccontextmanager
async def _target(order: Order) -> AsyncIterator[Target]:
    model = str(Path(local(order.policy)).absolute())
    if order.url:
        name = order.name or order.policy
        yield Target(name, order.policy, order.url, order.key, model, order.user)
        return
    server = ModelServer(ServerPlan(model=model, args=_SERVER_ARGS), order.folder, "server")
    try:
        await server.start()
        await server.until_ready(lambda _: None)
        yield Target(order.name or model, model, server.url, server.key, model, order.user)
    finally:
        await server.stop()


def _call(suite: External, order: Order, command: list[str], variables: Mapping[str, str]) -> None:
    log = order.folder / f"rods_{suite.name}.log"
    python = Path(
        shutil.which(order.environment) or order.environment
    ).absolute()  # it runs in another folder
    with log.open("ab") as output:
        done = subprocess.run(
            [str(python), *command],
            cwd=order.folder,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            check=False,
        )
    if done.returncode:
        lines = log.read_text(errors="replace").splitlines()[-10:]
        raise ExternalError(
            f"{suite.name}: `{' '.join(command)}` ended with status {done.returncode}. The last lines of {log}:\n"
            + "\n".join(lines)
        )
