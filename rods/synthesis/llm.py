"""The backend for real language models: any server that speaks OpenAI's chat completions, such as vLLM's.

Answers are held to the agent's JSON schema by the server (structured outputs) and validated here all the
same; an answer that does not validate goes back once with the error. Transient faults are retried with
jitter, since sixty-four workers that retry together would only repeat the overload. It was tested against a
small local server with scripted answers and faults, not against a large model.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from typing import Any

import openai
from openai.types.chat import ChatCompletion
from pydantic import ValidationError
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential
from tenacity.wait import wait_base

from rods.config import SynthesisConfig
from rods.synthesis import prompting
from rods.synthesis.agents import AnswerT, BackendError, BackendUnavailableError, MalformedAnswerError

API_KEY_VARIABLE = "RODS_LLM_API_KEY"
_NO_KEY = "EMPTY"  # what vLLM's server expects when it asks for none
_TIMEOUT_S = 180.0  # one answer of Qwen3-32B under load
_MAX_TOKENS = 4096
_TRIES = 5
_ANSWERS = 2  # the first, and one after its validation error was fed back


class _BrokenResponseError(Exception):
    """The server's reply is no chat completion, for instance half a JSON body."""


_TRANSIENT = (
    openai.APIConnectionError,
    openai.RateLimitError,
    openai.InternalServerError,
    _BrokenResponseError,
)


class OpenAIBackend:
    """Asks a chat completions server.

    Args:
        config: model, endpoint and sampling.
        api_key: sent to the server, and removed from every error text.
        wait: pauses between retries.
        timeout_s: deadline of one request.
    """

    def __init__(
        self,
        config: SynthesisConfig,
        api_key: str = _NO_KEY,
        wait: wait_base | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self.llm_calls = 0
        self.provenance = {"backend": "openai", "model": config.model, "prompts": prompting.versions()}
        self._config = config
        self._key = api_key
        self._wait = wait or wait_random_exponential(multiplier=0.5, max=20)
        # The retries are ours: the client's own have no jitter across workers and hide the count.
        self._client = openai.AsyncOpenAI(
            base_url=config.base_url, api_key=api_key, max_retries=0, timeout=timeout_s
        )

    async def ask(
        self, agent: str, inputs: Mapping[str, Any], output: type[AnswerT], rng_seed: int
    ) -> AnswerT:
        """The model's answer, validated.

        Raises:
            NoPromptError: the agent's prompt is missing or does not fit the inputs.
            MalformedAnswerError: also the second answer does not validate.
            BackendUnavailableError: the server kept failing or refuses us.
        """
        messages = [{"role": "user", "content": prompting.render(agent, inputs)}]
        schema = answer_schema(output, inputs)
        problem = ""
        for _ in range(_ANSWERS):
            text = await self._complete(agent, messages, schema, rng_seed)
            try:
                return output.model_validate_json(text)
            except ValidationError as error:
                problem = _explain(error)
            messages = [
                *messages,
                {"role": "assistant", "content": text},
                {"role": "user", "content": f"This is not a valid answer: {problem}. Answer again."},
            ]
        raise MalformedAnswerError(f"{agent}: no valid answer in {_ANSWERS} tries: {problem}")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _complete(
        self, agent: str, messages: list[dict[str, str]], schema: dict[str, Any], rng_seed: int
    ) -> str:
        """Text of one completion; "" where the model gave none."""
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_TRANSIENT),
            wait=self._wait,
            stop=stop_after_attempt(_TRIES),
            reraise=True,
        )
        try:
            return await retrying(self._request, agent, messages, schema, rng_seed)
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            raise self._error(
                MalformedAnswerError, f"{agent}: the server refuses the request", error
            ) from None
        except (openai.APIError, _BrokenResponseError) as error:
            raise self._error(BackendUnavailableError, f"{agent}: no answer from the server", error) from None

    async def _request(
        self, agent: str, messages: list[dict[str, str]], schema: dict[str, Any], rng_seed: int
    ) -> str:
        self.llm_calls += 1
        body: dict[str, Any] = {
            "model": self._config.model,
            "messages": messages,
            "temperature": self._config.temperature,
            "top_p": self._config.top_p,
            "max_tokens": _MAX_TOKENS,
            "seed": rng_seed % 2**31,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": agent, "schema": schema, "strict": True},
            },
        }
        try:
            response = await self._client.chat.completions.create(**body)
        except json.JSONDecodeError as error:
            # The client lets this one through.
            raise _BrokenResponseError(f"the reply is no JSON: {error}") from error
        if not isinstance(response, ChatCompletion) or not response.choices:
            raise _BrokenResponseError("expected a chat completion with a choice, found something else")
        return response.choices[0].message.content or ""

    def _error(self, kind: type[BackendError], what: str, error: Exception) -> BackendError:
        """The client's error in words, without the key; its own chain may hold the request's headers."""
        detail = f"{type(error).__name__}: {error}".replace(self._key, "***")
        return kind(f"{what} ({self._config.base_url}): {detail[:500]}")


def build(config: SynthesisConfig) -> OpenAIBackend:
    """The backend called `openai`; its key comes from the environment.

    Raises:
        BackendUnavailableError: no endpoint is configured.
    """
    if not config.base_url:
        raise BackendUnavailableError(
            "synthesis.base_url: expected the server's address, found none; set it, "
            "for instance synthesis.base_url=http://127.0.0.1:8000/v1"
        )
    return OpenAIBackend(config, os.environ.get(API_KEY_VARIABLE, _NO_KEY))


def answer_schema(output: type[AnswerT], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an answer; the arguments of a call are held to the function's own parameters."""
    schema = copy.deepcopy(output.model_json_schema())
    if "doc" in inputs and "arguments" in schema["properties"]:
        parameters = {**copy.deepcopy(dict(inputs["doc"].parameters)), "additionalProperties": False}
        schema["properties"]["arguments"] = parameters
    return schema


def _explain(error: ValidationError) -> str:
    """A validation error in one line, without the answer's own text."""
    parts = [f"{'.'.join(map(str, item['loc'])) or 'answer'}: {item['msg']}" for item in error.errors()]
    return "; ".join(parts)[:1000]
