"""One backbone's server: requests with a deadline, retried where that can help, and patience while it is away.

Three kinds of trouble are told apart. A transient fault (no connection, half a reply, 429, 5xx, no answer in time)
is retried with jitter, since sixty-four workers that retry together would only repeat the overload. A server that
does not even list its models is away: the question waits until it is back, because a seed is not at fault for it.
A question that fails time and again while the server is there is given up.

A seed may be what kills the server. Each absence counts for every seed that was owed an answer, until it gets it;
those that were there twice in a row are asked one at a time, so that the third absence finds the culprit alone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import random
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import httpx2
import openai
from openai.types.chat import ChatCompletion
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential
from tenacity.wait import wait_base

from rods.synthesis.accounting import Account, current_bill
from rods.synthesis.agents import (
    BackendError,
    BackendUnavailableError,
    MalformedAnswerError,
    ServerKilledError,
)

log = logging.getLogger(__name__)

NO_KEY = "EMPTY"  # what vLLM's server expects when it asks for none
_TRIES = 5
_ROUNDS = 3  # of tries, with the server there each time, before a question is given up
_SUSPECT, _GUILTY = 2, 3  # absences of the server in a row while it owed a seed an answer
_SAY_EVERY_S = 60.0
_PROBE_TIMEOUT_S = 10.0
_NO_LIMITS = httpx2.Limits(max_connections=0)  # aiohttp's word for any number; each worker needs one


class _BrokenResponseError(Exception):
    """The server's reply is no chat completion, for instance half a JSON body."""


class _DeadlineError(Exception):
    """No whole reply within the deadline; the client's own timeouts bound each read only."""


_TRANSIENT = (
    openai.APIConnectionError,
    openai.RateLimitError,
    openai.InternalServerError,
    _BrokenResponseError,
    _DeadlineError,
)
_INVALID_REQUEST = (openai.BadRequestError, openai.UnprocessableEntityError)


@dataclass(frozen=True)
class Backbone:
    """A model behind an endpoint.

    Attributes:
        model: the name under which it is served.
        base_url: ends in /v1.
        weight: its share of the attempts, relative to the other backbones'.
        key: sent to the server; in no message and no representation.
    """

    model: str
    base_url: str
    weight: float = 1.0
    key: str = field(default=NO_KEY, repr=False)


@dataclass(frozen=True)
class Patience:
    """How long to wait for what.

    Attributes:
        deadline_s: one request, until its reply is whole.
        retry: pauses between the tries of a request.
        probe_s: longest pause between two looks at a server that is away.
        outage_s: longest absence of the server.
    """

    deadline_s: float = 180.0  # one answer of Qwen3-32B under load
    retry: wait_base = field(default_factory=lambda: wait_random_exponential(multiplier=0.5, max=20))
    probe_s: float = 15.0
    outage_s: float = math.inf


class Endpoint:
    """Sends requests to one backbone.

    Attributes:
        backbone: which.
        away_since: `time.monotonic` since when the server is known to be away; None while it is there.
    """

    def __init__(self, backbone: Backbone, patience: Patience) -> None:
        self.backbone = backbone
        self.away_since: float | None = None
        self._patience = patience
        self._said = -math.inf
        self._alone = asyncio.Lock()
        # The retries are ours: the client's own have no jitter across workers and hide the count.
        self._client = openai.AsyncOpenAI(
            base_url=backbone.base_url,
            api_key=backbone.key,
            max_retries=0,
            timeout=patience.deadline_s,
            # httpx looks through all connections at each request: with 256 workers that is most of its time.
            http_client=openai.DefaultAioHttpClient(limits=_NO_LIMITS),
        )

    async def complete(self, agent: str, body: dict[str, Any], account: Account) -> str:
        """Text of one completion; "" where the model gave none.

        Raises:
            MalformedAnswerError: the server calls the request invalid (too long, for instance).
            BackendUnavailableError: the question kept failing, or the server was away too long.
            ServerKilledError: the server went away time and again while it owed this seed an answer.
        """
        rounds, bill = 0, current_bill()
        while True:
            # Until the server is back: who asks next is not to blame for an absence that began before.
            async with self._alone if bill.outages >= _SUSPECT else nullcontext():
                try:
                    text = await self._tries(body, account)
                    bill.outages = 0
                    return text
                except _INVALID_REQUEST as error:
                    raise self._error(MalformedAnswerError, agent, "refuses the request", error) from None
                except (openai.APIError, *_TRANSIENT) as error:
                    waited = await self._until_there(agent, error)
                    failed = error
            rounds, bill.outages = rounds + (not waited), bill.outages + waited
            if rounds == _ROUNDS:
                raise self._error(BackendUnavailableError, agent, "gives no answer", failed) from None
            if bill.outages >= _GUILTY:
                what = f"went away {bill.outages} times in a row while it owed this seed an answer"
                raise self._error(ServerKilledError, agent, what, failed) from None

    async def problem(self) -> str:
        """Why the server cannot be used just now; "" when it lists the model."""
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                # Not `models.list`: it takes a page of HTML, or whatever else came, for a list.
                reply = await self._client.get("/models", cast_to=bytes)
            names = [model["id"] for model in json.loads(reply)["data"] or ()]
        except (openai.APIError, KeyError, TypeError, ValueError, RecursionError, TimeoutError) as error:
            return self._words(error)
        if names and self.backbone.model not in names:
            return f"it serves {', '.join(names)}, not {self.backbone.model}"
        return ""

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _tries(self, body: dict[str, Any], account: Account) -> str:
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_TRANSIENT),
            wait=self._patience.retry,
            stop=stop_after_attempt(_TRIES),
            reraise=True,
        )
        return await retrying(self._request, body, account)

    async def _request(self, body: dict[str, Any], account: Account) -> str:
        began = time.monotonic()
        account.sent()
        try:
            async with asyncio.timeout(self._patience.deadline_s):
                # Not `chat.completions.create`: it walks through every schema to rename fields that ours are called by.
                response = await self._client.post("/chat/completions", cast_to=ChatCompletion, body=body)
        except (json.JSONDecodeError, RecursionError) as error:
            # The client lets these through.
            account.failed += 1
            raise _BrokenResponseError(f"the reply is no JSON: {error}") from error
        except TimeoutError as error:
            account.failed += 1
            raise _DeadlineError(f"no whole reply in {self._patience.deadline_s:g} s") from error
        except openai.APIError:
            account.failed += 1
            raise
        try:
            text, tokens = _read(response)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            account.failed += 1
            raise _BrokenResponseError(
                f"expected a chat completion with a choice, found something else ({error})"
            ) from error
        account.answered(time.monotonic() - began, *tokens)
        return text

    async def _until_there(self, agent: str, error: Exception) -> bool:
        """Wait until the server can be used; whether that took any waiting.

        Raises:
            BackendUnavailableError: it was away for too long.
        """
        began, pause, waited = time.monotonic(), 0.5, False
        while problem := await self.problem():
            waited = True
            self._note_absence(problem)
            if time.monotonic() - began >= self._patience.outage_s:
                raise self._error(BackendUnavailableError, agent, "is away", error) from None
            await asyncio.sleep(min(pause, self._patience.probe_s) * random.uniform(0.5, 1.0))
            pause *= 2
        if self.away_since is not None:
            log.warning("%s is back", self.backbone.base_url)
            self.away_since, self._said = None, -math.inf
        return waited

    def _note_absence(self, problem: str) -> None:
        now = time.monotonic()
        self.away_since = now if self.away_since is None else self.away_since
        if now - self._said >= _SAY_EVERY_S:
            self._said = now
            log.warning(
                "%s (%s) is away for %.0f s: %s. Questions wait for it; no seed is given up.",
                self.backbone.base_url,
                self.backbone.model,
                now - self.away_since,
                problem,
            )

    def _error(self, kind: type[BackendError], agent: str, what: str, error: Exception) -> BackendError:
        """The client's error in words; its own chain may hold the request's headers."""
        return kind(f"{agent}: the server {self.backbone.base_url} {what}: {self._words(error)}")

    def _words(self, error: Exception) -> str:
        root: BaseException = error
        # The client calls every lost connection a timeout.
        while isinstance(error, openai.APIConnectionError) and root.__cause__ is not None:
            root = root.__cause__
        text = f"{type(root).__name__}: {root}"
        # vLLM's stand-in for no key is a word that may occur in a message.
        return (text if self.backbone.key == NO_KEY else text.replace(self.backbone.key, "***"))[:500]


def _read(response: ChatCompletion) -> tuple[str, tuple[int, int]]:
    """The answer's text, and the tokens of prompt and answer. The client has checked nothing of it."""
    text, usage = response.choices[0].message.content or "", response.usage
    if not isinstance(text, str):
        raise TypeError(f"the content is no text but {type(text).__name__}")
    return text, (int(usage.prompt_tokens or 0), int(usage.completion_tokens or 0)) if usage else (0, 0)
