"""A stand-in for a language model's server: OpenAI's chat completions with scripted answers, latencies and faults.

In a test: `with running(script) as server`, and `server.url` is the endpoint. As a process of its own, with the
options of vLLM's server: `python -m tests.llm_server --port 8000 --model m` (answers as `file_task_answer`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(frozen=True)
class Reply:
    """What the server does with one request.

    Attributes:
        status: HTTP status.
        body: bytes of the response.
        half: announce more than is sent, and close the connection in the middle.
        hang_s: seconds of silence before the answer.
    """

    status: int = 200
    body: bytes = b""
    half: bool = False
    hang_s: float = 0.0


def completion(text: str | None, model: str = "m") -> Reply:
    """A chat completion whose message is `text`; 11 prompt tokens, 7 completion tokens."""
    choices = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    head = {"id": "1", "object": "chat.completion", "created": 0, "model": model}
    return Reply(body=json.dumps({**head, "choices": choices, "usage": usage}).encode())


def error(status: int, message: str = "scripted") -> Reply:
    """An error in OpenAI's form."""
    return Reply(status, json.dumps({"error": {"message": message}}).encode())


HALF = Reply(body=b'{"choices": [', half=True)
Script = Callable[[dict[str, Any]], Reply]


def in_turn(*replies: Reply) -> Script:
    """These replies one after the other, then the last one for ever."""
    left = list(replies)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def file_task_answer(body: dict[str, Any]) -> Reply:
    """What a good model answers for the seed of `synthesis_examples`: count words, then make a file."""
    agent = body["response_format"]["json_schema"]["name"]
    if agent == "arguments":
        wants_wc = "Choose the arguments of `wc`" in body["messages"][0]["content"]
        chosen = {"file_name": "notes.txt", "mode": "w"} if wants_wc else {"file_name": "plan.md"}
        return completion(json.dumps({"arguments": chosen}), body["model"])
    return completion(json.dumps(_FILE_TASK[agent]), body["model"])


_FILE_TASK: dict[str, Any] = {
    "planner": {"narrative": "A story.", "turns": [{"functions": ["wc"]}, {"functions": ["touch"]}]},
    "query": {"text": "Please see to notes.txt and plan.md."},
    "verifier": {"covered": [0], "verdict": "yes"},
    "rewriter": {"queries": ["How many words are in notes.txt?", "Add plan.md."]},
    "judge": {"accepted": True},
    "refine_class": {"verdict": "query_fixable"},
    "refiner": {"queries": ["How many words are in notes.txt?", "Add plan.md."]},
    "patch": {"patches": []},
}


@dataclass(frozen=True)
class Latency:
    """How long answers take: log-normal, a fraction of them slower by a factor.

    Attributes:
        median_s: of the log-normal part; 0 answers at once.
        sigma: of its logarithm.
        slow_fraction: of the answers that are slow.
        slow_factor: how many times longer those take.
    """

    median_s: float = 0.0
    sigma: float = 0.5
    slow_fraction: float = 0.0
    slow_factor: float = 10.0

    def draw(self, rng: random.Random) -> float:
        """Seconds of one answer."""
        if not self.median_s:
            return 0.0
        slow = self.slow_factor if rng.random() < self.slow_fraction else 1.0
        return self.median_s * rng.lognormvariate(0.0, self.sigma) * slow


@dataclass
class LLMServer:
    """The application.

    Attributes:
        script: request body → reply.
        key: what a request must carry; None accepts all.
        models: names in GET /v1/models.
        latency: of the completions.
        error_rate: share of completions answered with a 500 instead.
        die_after: end the process at this completion, 0 never.
        engine_dies_after: at this completion say what vLLM says when its engine died, and answer no more; 0 never.
        die_on: end the process at a request that holds this text, "" never.
        requests: bodies and keys of the completions so far.
        intervals: begin and end of each by `time.monotonic`.
    """

    script: Script
    key: str | None = None
    models: tuple[str, ...] = ("m",)
    latency: Latency = field(default_factory=Latency)
    error_rate: float = 0.0
    die_after: int = 0
    engine_dies_after: int = 0
    die_on: str = ""
    seed: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)
    intervals: list[tuple[float, float]] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def app(self) -> web.Application:
        """Routes of vLLM's server as far as a client needs them."""
        app = web.Application(client_max_size=2**28)
        app.router.add_get("/health", self._healthy)
        app.router.add_get("/v1/models", self._list_models)
        app.router.add_post("/v1/chat/completions", self._complete)
        return app

    async def _healthy(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _list_models(self, request: web.Request) -> web.Response:
        if not self._may(request):
            return web.json_response({"error": {"message": "wrong key"}}, status=401)
        return web.json_response({"object": "list", "data": [{"id": name} for name in self.models]})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        if not self._may(request):
            return web.json_response({"error": {"message": "wrong key"}}, status=401)
        began = time.monotonic()
        body = await request.json()
        self.requests.append({"body": body, "key": request.headers.get("Authorization")})
        if len(self.requests) == self.die_after or (self.die_on and self.die_on in json.dumps(body)):
            print("the stand-in dies as it was told", flush=True)
            os._exit(3)
        if 0 < self.engine_dies_after <= len(self.requests):
            print("EngineCore encountered a fatal error.", flush=True)
            return web.Response(status=500)
        reply = error(500, "drawn") if self._rng.random() < self.error_rate else self.script(body)
        await asyncio.sleep(self.latency.draw(self._rng) + reply.hang_s)
        self.intervals.append((began, time.monotonic()))
        if reply.half:
            return await _half(request, reply)
        return web.Response(status=reply.status, body=reply.body, content_type="application/json")

    def _may(self, request: web.Request) -> bool:
        return self.key is None or request.headers.get("Authorization") == f"Bearer {self.key}"


async def _half(request: web.Request, reply: Reply) -> web.StreamResponse:
    head = {"Content-Length": str(len(reply.body) + 1), "Content-Type": "application/json"}
    response = web.StreamResponse(status=reply.status, headers=head)
    await response.prepare(request)
    await response.write(reply.body)
    assert request.transport is not None
    request.transport.close()
    return response


async def _end(runner: web.AppRunner) -> None:
    """Also requests that clients have left hanging."""
    await runner.cleanup()
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


@contextlib.contextmanager
def running(
    script: Script, port: int = 0, kind: type[LLMServer] = LLMServer, **more: Any
) -> Iterator[LLMServer]:
    """A server on the loopback in a thread of its own; `port` 0 takes a free one."""
    server = kind(script, **more)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> web.AppRunner:
        runner = web.AppRunner(server.app(), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(_end(runner), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def main(arguments: list[str]) -> None:
    """The server as a process; the key comes from VLLM_API_KEY, as for vLLM."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", default="m")
    parser.add_argument("--served-model-name", default="m")
    parser.add_argument("--median-s", type=float, default=0.0)
    parser.add_argument("--slow-fraction", type=float, default=0.0)
    parser.add_argument("--error-rate", type=float, default=0.0)
    parser.add_argument("--die-after", type=int, default=0, help="exit with 3 at this completion")
    parser.add_argument(
        "--die-on", default="", help="exit with 3 at a completion whose request holds this text"
    )
    parser.add_argument(
        "--engine-dies-after", type=int, default=0, help="only errors from this completion on"
    )
    parser.add_argument("--die-at-once", action="store_true", help="exit with 3 before listening")
    parser.add_argument("--never-ready", action="store_true", help="sleep in place of listening")
    given = parser.parse_args(arguments)
    print(f"stand-in for {given.served_model_name} on {given.host}:{given.port}", flush=True)
    if given.die_at_once:
        print("RuntimeError: no memory for the weights", flush=True)
        sys.exit(3)
    if given.never_ready:
        time.sleep(3600)
    latency = Latency(given.median_s, slow_fraction=given.slow_fraction)
    key = os.environ.get("VLLM_API_KEY")
    models = (given.served_model_name,)
    server = LLMServer(
        file_task_answer,
        key,
        models,
        latency,
        error_rate=given.error_rate,
        die_after=given.die_after,
        engine_dies_after=given.engine_dies_after,
        die_on=given.die_on,
    )
    web.run_app(server.app(), host=given.host, port=given.port, print=None, reuse_address=True)


if __name__ == "__main__":
    main(sys.argv[1:])
