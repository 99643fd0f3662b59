"""The openai backend against a small server on the loopback: good answers, bad answers, faults. No large
model.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from llm_server import HALF, LLMServer, Reply, completion, error, file_task_answer, in_turn, running
from synthesis_examples import FILES, context, seed_task
from tenacity import wait_none

from rods.config import BackboneConfig, SynthesisConfig
from rods.exchange import pressure
from rods.synthesis import llm, prompting
from rods.synthesis.accounting import billed
from rods.synthesis.agents import (
    Arguments,
    BackendUnavailableError,
    Judgement,
    MalformedAnswerError,
    NoPromptError,
    Plan,
    ServerKilledError,
)
from rods.synthesis.context import Draft, ExecutedTurn
from rods.synthesis.endpoint import Backbone, Patience
from rods.synthesis.llm import OpenAIBackend, answer_schema
from rods.synthesis.pipeline import Pipeline
from rods.synthesis.planner import Outline
from rods.synthesis.request_cache import RequestCache
from rods.tasks.model import Call

KEY = "a-secret-key"
QUICK = Patience(retry=wait_none(), probe_s=0.01, outage_s=0.0)
CONFIG = SynthesisConfig(backend="openai", model="m", temperature=0.7, top_p=0.9)


def draft() -> Draft:
    turns = (ExecutedTurn((Call("ls", {}),), ("{}",)),)
    return Draft("A story.", FILES, turns, ("What is here?",))


def backend(url: str, cache: RequestCache | None = None, patience: Patience = QUICK) -> OpenAIBackend:
    return OpenAIBackend(CONFIG, [Backbone("m", url, key=KEY)], cache, patience)


async def ask_judge(asked: OpenAIBackend, seed: int = 2**40 + 5) -> Judgement:
    try:
        return await asked.ask("judge", {"draft": draft()}, Judgement, seed)
    finally:
        await asked.close()


def judge(server: LLMServer, **more: Any) -> Judgement:
    return asyncio.run(ask_judge(backend(server.url, **more)))


def test_the_request_and_the_answer() -> None:
    with running(in_turn(completion('{"reason": "fine", "accepted": true, "issues": []}'))) as server:
        assert judge(server) == Judgement(reason="fine", accepted=True)
    (request,) = server.requests
    body = request["body"]
    assert request["key"] == f"Bearer {KEY}"
    assert (body["model"], body["temperature"], body["top_p"], body["seed"]) == ("m", 0.7, 0.9, 5)
    assert body["max_tokens"] == CONFIG.max_tokens
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"] == Judgement.model_json_schema()
    assert "What is here?" in body["messages"][0]["content"]


@pytest.mark.parametrize(
    "bad",
    ["", None, "not JSON", '{"accepted": tr', '{"accepted": "perhaps"}', '{"accepted": true, "x": 1}', "[]"],
)
def test_an_invalid_answer_goes_back_once_with_its_error(bad: str | None) -> None:
    with running(in_turn(completion(bad), completion('{"accepted": false}'))) as server:
        assert judge(server).accepted is False
    first, second = (request["body"]["messages"] for request in server.requests)
    assert len(first) == 1
    assert [message["role"] for message in second] == ["user", "assistant", "user"]
    assert "not a valid answer" in second[2]["content"]


def test_a_second_invalid_answer_is_final() -> None:
    with (
        running(in_turn(completion('{"accepted": 7}'))) as server,
        pytest.raises(MalformedAnswerError, match="no valid answer in 2 tries: accepted:"),
    ):
        judge(server)
    assert len(server.requests) == 2


FAULTS = [
    *(error(500), error(503), error(429), HALF),
    *(
        Reply(200, body)
        for body in (b"no JSON", b"<html>log in</html>", b"{}", b"[]", b"null", b"[" * 100_000)
    ),
    *(Reply(200, body) for body in (b'{"choices": [null]}', b'{"choices": [{}]}', b'{"choices": {"a": 1}}')),
    Reply(200, b'{"choices": [{"message": {"content": [1]}}]}'),
    Reply(200, b'{"choices": [{"message": {"content": "x"}}], "usage": "y"}'),
]


@pytest.mark.parametrize("fault", FAULTS)
def test_transient_faults_are_retried(fault: Reply) -> None:
    with running(in_turn(fault, fault, completion('{"accepted": true}'))) as server:
        assert judge(server).accepted
    assert len(server.requests) == 3


def test_a_question_that_keeps_failing_is_given_up_and_the_key_stays_secret() -> None:
    with (
        running(in_turn(error(500, f"for key {KEY}"))) as server,
        pytest.raises(BackendUnavailableError) as caught,
    ):
        judge(server)
    assert len(server.requests) == 15  # three rounds of five, since the server is there each time
    assert KEY not in str(caught.value)
    assert "***" in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_invalid_request_is_not_retried() -> None:
    with running(in_turn(error(400))) as server, pytest.raises(MalformedAnswerError, match="refuses"):
        judge(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize(("key", "model"), [("another", "m"), (KEY, "another")])
def test_a_server_that_refuses_the_key_or_the_model_counts_as_away(key: str, model: str) -> None:
    with (
        running(in_turn(error(404)), key=key, models=(model,)) as server,
        pytest.raises(BackendUnavailableError, match="is away"),
    ):
        judge(server)


@pytest.mark.parametrize(
    "page", [b"<html>back at noon</html>", b"[]", b"null", b'{"data": ["m"]}', b"[" * 100_000]
)
def test_a_server_whose_place_a_page_has_taken_counts_as_away(page: bytes) -> None:
    class Gate(LLMServer):
        """A site's proxy: whatever is asked, it answers 200."""

        async def _list_models(self, request: web.Request) -> web.Response:
            return web.Response(
                body=page, content_type="text/html" if page[:1] == b"<" else "application/json"
            )

    with (
        running(in_turn(Reply(200, page)), kind=Gate) as server,
        pytest.raises(BackendUnavailableError, match="is away"),
    ):
        judge(server)


def test_nobody_listens() -> None:
    with running(in_turn(error(500))) as server:
        pass
    with pytest.raises(BackendUnavailableError, match="ConnectionRefusedError"):
        judge(server)


def test_a_hanging_server_is_given_up() -> None:
    hang = replace(completion('{"accepted": true}'), hang_s=0.5)
    with (
        running(in_turn(hang)) as server,
        pytest.raises(BackendUnavailableError, match=r"no whole reply in 0\.01"),
    ):
        judge(server, patience=replace(QUICK, deadline_s=0.01))


def test_a_question_waits_for_a_server_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    """Also a question that was asked while the server was there."""

    async def scenario() -> Judgement:
        hang = replace(completion('{"accepted": false}'), hang_s=60)
        with running(in_turn(hang)) as first:
            port = int(first.url.split(":")[2].split("/")[0])
            asked = backend(first.url, patience=replace(QUICK, outage_s=60))
            waiting = asyncio.create_task(ask_judge(asked))
            while not first.requests:
                await asyncio.sleep(0.01)
        while not asked.waiting:
            await asyncio.sleep(0.01)
        assert "m" in asked.waiting
        with running(in_turn(completion('{"accepted": true}')), port=port):
            answer = await waiting
        assert not asked.waiting
        return answer

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(asyncio.wait_for(scenario(), 60)).accepted
    assert [record.getMessage() for record in caplog.records if "is back" in record.getMessage()]
    assert KEY not in caplog.text


def test_a_question_that_the_server_dies_of_is_given_up() -> None:
    """Three times; a server that is restarted only so often must not be used up by one prompt."""

    class Mortal(LLMServer):
        """Whatever is asked, it is away for the next two looks at its models."""

        absent = 0

        async def _list_models(self, request: web.Request) -> web.Response:
            self.absent -= 1
            return web.Response(status=503) if self.absent >= 0 else await super()._list_models(request)

    def die(_: Any) -> Reply:
        server.absent = 2
        return error(503)

    patience = replace(QUICK, outage_s=60.0)
    with (
        running(die, kind=Mortal) as server,
        pytest.raises(
            ServerKilledError, match="went away 3 times in a row while it owed this seed an answer"
        ),
        billed(),
    ):
        judge(server, patience=patience)
    assert len(server.requests) == 15


def test_a_cancelled_question_ends_at_once() -> None:
    async def scenario() -> None:
        with running(in_turn(replace(completion("{}"), hang_s=60))) as server:
            waiting = asyncio.create_task(ask_judge(backend(server.url)))
            while not server.requests:
                await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_accounts_by_agent() -> None:
    async def scenario(url: str) -> dict[str, Any]:
        asked = backend(url)
        await ask_judge(asked)
        return asked.accounts.to_json()

    replies = (error(500), completion("no JSON"), completion('{"accepted": true}'))
    with running(in_turn(*replies)) as server:
        accounts = asyncio.run(scenario(server.url))
    assert set(accounts) == {"judge"}
    counted = {
        "requests": 3,
        "failed": 1,
        "invalid": 1,
        "cached": 0,
        "prompt_tokens": 22,
        "completion_tokens": 14,
    }
    assert {name: accounts["judge"][name] for name in counted} == counted
    assert 0 < accounts["judge"]["p50_s"] <= accounts["judge"]["p95_s"] <= accounts["judge"]["seconds"]


# The request cache


def test_a_restart_asks_nothing_twice(tmp_path: Path) -> None:
    for _ in range(2):
        with running(in_turn(completion('{"accepted": true}'))) as server:
            assert judge(server, cache=RequestCache(tmp_path, 2**20)).accepted
    # The second process found the answer although its server has another port.
    assert server.requests == []
    assert KEY not in "".join(path.read_text(errors="replace") for path in tmp_path.iterdir())


def test_another_question_or_seed_is_asked(tmp_path: Path) -> None:
    with running(in_turn(completion('{"accepted": true}'))) as server:
        for seed in (1, 2, 1):
            asyncio.run(ask_judge(backend(server.url, RequestCache(tmp_path, 2**20)), seed))
    assert len(server.requests) == 2


def test_a_damaged_segment_costs_requests_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = RequestCache(tmp_path, 2**20)
    first.put("a", "1")
    first.close()
    (segment,) = tmp_path.glob("*.log")
    segment.write_bytes(b"damaged" * 20)
    second = RequestCache(tmp_path, 2**20)
    second.put("b", "2")
    second.close()
    third = RequestCache(tmp_path, 2**20)
    assert (third.get("a"), third.get("b")) == (None, "2")
    assert "not read" in caplog.text


def test_the_cache_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    bound = 64 * 2**10
    cache = RequestCache(tmp_path, bound)
    for index in range(200):
        cache.put(str(index), "x" * 1000)
    cache.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= bound
    again = RequestCache(tmp_path, bound)
    assert again.get("199") is not None
    assert again.get("0") is None


def test_a_full_disk_ends_the_writing_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache = RequestCache(tmp_path / "cache", 2**20)
    (tmp_path / "cache").rmdir()
    (tmp_path / "cache").write_text("a file in the way")
    cache.put("a", "1")
    cache.put("b", "2")
    assert cache.get("a") == "1"
    assert caplog.text.count("not written any more") == 1


# Several backbones


def test_attempts_are_shared_by_weight_and_each_has_one_author() -> None:
    async def scenario() -> tuple[OpenAIBackend, list[str]]:
        backbones = [Backbone("large", one.url, 3.0, KEY), Backbone("small", two.url, 1.0, KEY)]
        asked = OpenAIBackend(CONFIG, backbones, None, QUICK)
        for seed in range(40):
            for agent_seed in (1, 2):
                inputs = {"draft": draft(), "attempt_seed": seed}
                await asked.ask("judge", inputs, Judgement, agent_seed)
        authors = [str(asked.provenance(seed)["model"]) for seed in range(40)]
        await asked.close()
        return asked, authors

    answer = in_turn(completion('{"accepted": true}'))
    with running(answer, models=("large",)) as one, running(answer, models=("small",)) as two:
        _, authors = asyncio.run(scenario())
    counts = Counter(authors)
    assert counts["large"] > counts["small"] > 0
    assert (len(one.requests), len(two.requests)) == (2 * counts["large"], 2 * counts["small"])


def test_names_of_backbones_are_resolved_by_the_catalog() -> None:
    catalog = {
        "a": BackboneConfig("model-a", "http://a/v1", 2.0),
        "b": BackboneConfig("model-b", "http://b/v1"),
    }
    config = SynthesisConfig(backend="openai", backbones=("b", "a"), catalog=catalog)
    found = [endpoint.backbone for endpoint in llm.build(config).endpoints]
    assert [(one.model, one.base_url, one.weight) for one in found] == [
        ("model-b", "http://b/v1", 1.0),
        ("model-a", "http://a/v1", 2.0),
    ]


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
        "planner": {"state": FILES, "history": [{"detail": "broke"}], "blocklist": ["x"], "composites": {}}
        | {"links": {"find": ["cat"]}},
        "arguments": {"outline": outline, "done": draft().turns, "state": FILES, "blocklist": ["x"], **turn},
        "patch": {"state": FILES, "error": {"detail": "broke"}, "history": [{"detail": "broke before"}]},
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


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(llm.API_KEY_VARIABLE, "from-env")
    with running(in_turn(completion('{"accepted": true}')), key="from-env") as server:
        made = llm.build(replace(CONFIG, base_url=server.url))
        assert asyncio.run(ask_judge(made)).accepted
    assert "from-env" not in repr(made.endpoints[0].backbone)


def test_the_whole_pipeline_over_http() -> None:
    """A model that answers well, as far as a table can: the stages, the client and the prompts fit
    together.
    """
    with running(file_task_answer) as server:
        asked = backend(server.url)
        outcome = asyncio.run(Pipeline(CONFIG, asked, 0).run(seed_task(), "key"))
    (task,) = outcome.tasks
    assert [turn.query for turn in task.turns] == ["How many words are in notes.txt?", "Add plan.md."]
    assert task.provenance["model"] == "m"
    assert task.provenance["prompts"]["judge"]
    assert asked.llm_calls == len(server.requests) == 9


class _Never:
    """A policy for full disks that must not be asked."""

    def wait(self, shortage: Exception, waits: int) -> None:
        raise AssertionError("the event loop would wait for space")

    def relieved(self) -> None: ...


def test_a_full_disk_holds_no_answer_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rods.exchange.journal.write_fully", full)
    cache = RequestCache(tmp_path, 2**20)
    with pressure.using(_Never()):
        cache.put("k", "text")
        cache.put("l", "text")
    assert cache.get("k") == cache.get("l") == "text"
    assert caplog.text.count("not written any more") == 1
