"""The openai backend against a small server on the loopback: good answers, bad answers, faults. No large
model.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from synthesis_examples import FILES, context, seed_task
from tenacity import wait_none

from rods.config import SynthesisConfig
from rods.errors import RodsError
from rods.synthesis import llm, prompting
from rods.synthesis.agents import (
    Arguments,
    BackendUnavailableError,
    Judgement,
    MalformedAnswerError,
    NoPromptError,
    Plan,
)
from rods.synthesis.context import Draft, ExecutedTurn
from rods.synthesis.llm import OpenAIBackend, answer_schema
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.planner import Outline
from rods.tasks.model import Call

KEY = "a-secret-key"
Reply = tuple[int, bytes]

HALF: Reply = (200, b'{"choices": [')  # announced longer than it is: the connection closes in the middle


def completion(text: str | None) -> Reply:
    message = {"role": "assistant", "content": text}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": choices}
    return 200, json.dumps(body).encode()


def error(status: int) -> Reply:
    return status, json.dumps({"error": {"message": f"status {status} for key {KEY}"}}).encode()


class Server:
    """Gives the prepared replies in turn, then the last one for ever."""

    def __init__(self, replies: list[Reply] | Callable[[dict[str, Any]], Reply]) -> None:
        self.requests: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append({"body": body, "key": self.headers["Authorization"]})
                if callable(replies):
                    status, payload = replies(body)
                else:
                    status, payload = replies.pop(0) if len(replies) > 1 else replies[0]
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload) + (payload == HALF[1])))
                self.end_headers()
                self.wfile.write(payload)
                self.close_connection = payload == HALF[1]

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def serve() -> Iterator[Callable[[Any], Server]]:
    servers: list[Server] = []

    def start(replies: Any) -> Server:
        servers.append(Server(replies))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def draft() -> Draft:
    turns = (ExecutedTurn((Call("ls", {}),), ("{}",)),)
    return Draft("A story.", FILES, turns, ("What is here?",))


def backend(url: str, **more: Any) -> OpenAIBackend:
    config = SynthesisConfig(backend="openai", model="m", base_url=url, temperature=0.7, top_p=0.9)
    return OpenAIBackend(config, KEY, wait=wait_none(), **more)


def judge(url: str, **more: Any) -> Judgement:
    async def ask() -> Judgement:
        asked = backend(url, **more)
        try:
            return await asked.ask("judge", {"draft": draft()}, Judgement, 2**40 + 5)
        finally:
            await asked.close()

    return asyncio.run(ask())


def test_the_request_and_the_answer(serve: Callable[[Any], Server]) -> None:
    server = serve([completion('{"reason": "fine", "accepted": true, "issues": []}')])
    assert judge(server.url) == Judgement(reason="fine", accepted=True)
    (request,) = server.requests
    body = request["body"]
    assert request["key"] == f"Bearer {KEY}"
    assert (body["model"], body["temperature"], body["top_p"], body["seed"]) == ("m", 0.7, 0.9, 5)
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"] == Judgement.model_json_schema()
    assert "What is here?" in body["messages"][0]["content"]


@pytest.mark.parametrize(
    "bad",
    ["", None, "not JSON", '{"accepted": tr', '{"accepted": "perhaps"}', '{"accepted": true, "x": 1}', "[]"],
)
def test_an_invalid_answer_goes_back_once_with_its_error(
    serve: Callable[[Any], Server], bad: str | None
) -> None:
    server = serve([completion(bad), completion('{"accepted": false}')])
    assert judge(server.url).accepted is False
    first, second = (request["body"]["messages"] for request in server.requests)
    assert len(first) == 1
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert "not a valid answer" in second[2]["content"]


def test_a_second_invalid_answer_is_final(serve: Callable[[Any], Server]) -> None:
    server = serve([completion('{"accepted": 7}')])
    with pytest.raises(MalformedAnswerError, match="no valid answer in 2 tries: accepted:"):
        judge(server.url)
    assert len(server.requests) == 2


@pytest.mark.parametrize("fault", [error(500), error(503), error(429), HALF, (200, b"no JSON"), (200, b"{}")])
def test_transient_faults_are_retried(serve: Callable[[Any], Server], fault: Reply) -> None:
    server = serve([fault, fault, completion('{"accepted": true}')])
    assert judge(server.url).accepted
    assert len(server.requests) == 3


def test_a_server_that_keeps_failing_is_unavailable_and_the_key_stays_secret(
    serve: Callable[[Any], Server],
) -> None:
    server = serve([error(500)])
    with pytest.raises(BackendUnavailableError) as caught:
        judge(server.url)
    assert len(server.requests) == 5
    assert KEY not in str(caught.value)
    assert "***" in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(("status", "kind"), [(400, MalformedAnswerError), (401, BackendUnavailableError)])
def test_refusals_are_not_retried(serve: Callable[[Any], Server], status: int, kind: type[RodsError]) -> None:
    server = serve([error(status)])
    with pytest.raises(kind):
        judge(server.url)
    assert len(server.requests) == 1


def test_nobody_listens() -> None:
    server = Server([error(500)])
    server.close()
    with pytest.raises(BackendUnavailableError, match="APIConnectionError"):
        judge(server.url)


def test_a_hanging_server_is_given_up(serve: Callable[[Any], Server]) -> None:
    release = threading.Event()

    def hang(_: dict[str, Any]) -> Reply:
        release.wait(10)
        return completion("{}")

    server = serve(hang)
    try:
        with pytest.raises(BackendUnavailableError, match="APITimeoutError"):
            judge(server.url, timeout_s=0.05)
    finally:
        release.set()


def test_arguments_are_held_to_the_functions_own_parameters() -> None:
    doc = context(backend("http://127.0.0.1:9/v1")).seed.docs["touch"]
    schema = answer_schema(Arguments, {"doc": doc})
    assert schema["properties"]["arguments"]["required"] == ["file_name"]
    assert schema["properties"]["arguments"]["additionalProperties"] is False
    assert "additionalProperties" not in doc.parameters
    assert answer_schema(Plan, {}) == Plan.model_json_schema()


# Prompts

AGENTS = [
    "planner",
    "arguments",
    "patch",
    "query",
    "verifier",
    "rewriter",
    "judge",
    "refine_class",
    "refiner",
    "miss_func",
    "miss_param",
]


def inputs(agent: str) -> dict[str, Any]:
    seed = context(backend("http://127.0.0.1:9/v1")).seed
    turn = {"turn": 0, "calls": (), "results": (), "function": "ls", "doc": seed.docs["ls"]}
    outline = Outline("A story.", (("ls",),), FILES)
    return {
        "planner": {"state": FILES, "history": [{"detail": "broke"}], "blocklist": ["x"], "composites": {}},
        "arguments": {"outline": outline, "done": draft().turns, "state": FILES, **turn},
        "patch": {"state": FILES, "error": {"detail": "broke"}},
        "query": {"draft": draft().with_queries(()), "turn": 0},
        "verifier": {"draft": draft(), "turn": 0},
        "refine_class": {"draft": draft(), "issues": ("stiff",)},
        "refiner": {"draft": draft(), "issues": ("stiff",)},
    }.get(agent, {"draft": draft()}) | {"seed": seed, "attempt": 1, "attempt_seed": 1}


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_has_a_prompt_that_its_inputs_fill(agent: str) -> None:
    text = prompting.render(agent, inputs(agent))
    assert "Answer in JSON" in text
    assert "{{" not in text
    assert "{%" not in text
    if "draft" in inputs(agent):
        assert '{"name": "ls", "arguments": {}} returned {}' in text


def test_a_missing_prompt_or_input_is_an_error() -> None:
    with pytest.raises(NoPromptError, match="expected a prompt"):
        prompting.render("nobody", {})
    with pytest.raises(NoPromptError, match="'draft' is undefined"):
        prompting.render("judge", {"seed": 1})
    with pytest.raises(NoPromptError):
        prompting.render("../llm", {})


def test_each_prompt_has_a_version() -> None:
    assert set(AGENTS) <= set(prompting.versions())


def test_no_endpoint_is_refused() -> None:
    with pytest.raises(BackendUnavailableError, match=r"synthesis\.base_url"):
        llm.build(SynthesisConfig(backend="openai", model="m"))


def test_the_key_comes_from_the_environment(
    serve: Callable[[Any], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(llm.API_KEY_VARIABLE, "from-env")
    server = serve([completion('{"accepted": true}')])
    config = SynthesisConfig(backend="openai", model="m", base_url=server.url)
    asyncio.run(llm.build(config).ask("judge", {"draft": draft()}, Judgement, 1))
    assert server.requests[0]["key"] == "Bearer from-env"


def test_the_whole_pipeline_over_http(serve: Callable[[Any], Server]) -> None:
    """A model that answers well, as far as a table can: the stages, the client and the prompts fit
    together.
    """
    good = {
        "planner": {"narrative": "A story.", "turns": [{"functions": ["wc"]}, {"functions": ["touch"]}]},
        "query": {"text": "Please see to notes.txt and plan.md."},
        "verifier": {"covered": [0], "verdict": "yes"},
        "rewriter": {"queries": ["How many words are in notes.txt?", "Add plan.md."]},
        "judge": {"accepted": True},
    }

    def answer(body: dict[str, Any]) -> Reply:
        agent = body["response_format"]["json_schema"]["name"]
        if agent == "arguments":
            wants_wc = "Choose the arguments of `wc`" in body["messages"][0]["content"]
            chosen = {"file_name": "notes.txt", "mode": "w"} if wants_wc else {"file_name": "plan.md"}
            return completion(json.dumps({"arguments": chosen}))
        return completion(json.dumps(good[agent]))

    server = serve(answer)
    config = SynthesisConfig(backend="openai", model="m", base_url=server.url)
    asked = OpenAIBackend(config, KEY, wait=wait_none())
    outcome = asyncio.run(Pipeline(config, asked, 0).run(seed_task(), "key"))
    (task,) = outcome.tasks
    assert [turn.query for turn in task.turns] == good["rewriter"]["queries"]
    assert task.provenance["model"] == "m"
    assert task.provenance["prompts"]["judge"]
    assert asked.llm_calls == len(server.requests) == 9
