"""The backend for real language models: any server that speaks OpenAI's chat completions, such as vLLM's.

Answers are held to the agent's JSON schema by the server (structured outputs) and validated here all the
same; an answer that does not validate goes back once with the error. Several backbones may share the work: an
attempt's seed and the weights alone decide which of them makes it, so that a run can be repeated.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import ValidationError

from rods.config import SynthesisConfig
from rods.synthesis import prompting
from rods.synthesis.accounting import Accounts
from rods.synthesis.agents import Answer, AnswerT, BackendUnavailableError, MalformedAnswerError
from rods.synthesis.endpoint import NO_KEY, Backbone, Endpoint, Patience
from rods.synthesis.request_cache import RequestCache, key_of

API_KEY_VARIABLE = "RODS_LLM_API_KEY"
_ANSWERS = 2  # the first, and one after its validation error was fed back


class OpenAIBackend:
    """Asks chat completions servers.

    Args:
        config: sampling and limits.
        backbones: who answers, at least one.
        cache: answers of earlier processes of the run; None without.
        patience: how long to wait for what.

    Attributes:
        accounts: what each agent cost so far.
        endpoints: one per backbone.
    """

    def __init__(
        self,
        config: SynthesisConfig,
        backbones: Sequence[Backbone],
        cache: RequestCache | None = None,
        patience: Patience | None = None,
    ) -> None:
        self.accounts = Accounts()
        self._config, self._cache = config, cache
        patience = patience or Patience(deadline_s=config.request_timeout_s)
        self.endpoints = tuple(Endpoint(backbone, patience) for backbone in backbones)

    @property
    def llm_calls(self) -> int:
        """Requests sent so far."""
        return self.accounts.total("requests")

    @property
    def waiting(self) -> str:
        """The models whose servers are away just now; "" where all are there."""
        away = (endpoint.backbone.model for endpoint in self.endpoints if endpoint.away_since is not None)
        return ", ".join(away)

    def provenance(self, attempt_seed: int) -> dict[str, Any]:
        """Who makes the attempt with this seed, and by which prompts."""
        model = self._endpoint(attempt_seed).backbone.model
        return {"backend": "openai", "model": model, "prompts": prompting.versions()}

    async def ask(
        self, agent: str, inputs: Mapping[str, Any], output: type[AnswerT], rng_seed: int
    ) -> AnswerT:
        """The model's answer, validated.

        Raises:
            NoPromptError: the agent's prompt is missing or does not fit the inputs.
            MalformedAnswerError: also the second answer does not validate.
            BackendUnavailableError: the question kept failing, or the server was away too long.
            ServerKilledError: the server went away time and again while it owed this seed an answer.
        """
        endpoint = self._endpoint(inputs.get("attempt_seed", rng_seed))
        messages = [{"role": "user", "content": prompting.render(agent, inputs)}]
        schema = answer_schema(output, inputs)
        problem = ""
        for _ in range(_ANSWERS):
            text = await self._complete(
                endpoint, agent, self._body(endpoint, agent, messages, schema, rng_seed)
            )
            try:
                return output.model_validate_json(text)
            except ValidationError as error:
                problem = _explain(error)
            self.accounts.of(agent).invalid += 1
            messages = [
                *messages,
                {"role": "assistant", "content": text},
                {"role": "user", "content": f"This is not a valid answer: {problem}. Answer again."},
            ]
        raise MalformedAnswerError(f"{agent}: no valid answer in {_ANSWERS} tries: {problem}")

    async def close(self) -> None:
        """Close the connections and the cache."""
        for endpoint in self.endpoints:
            await endpoint.close()
        if self._cache is not None:
            self._cache.close()

    def _endpoint(self, attempt_seed: int) -> Endpoint:
        """The endpoint of an attempt: all its agents ask the same model."""
        if len(self.endpoints) == 1:
            return self.endpoints[0]
        weights = [endpoint.backbone.weight for endpoint in self.endpoints]
        return random.Random(attempt_seed).choices(self.endpoints, weights)[0]

    async def _complete(self, endpoint: Endpoint, agent: str, body: dict[str, Any]) -> str:
        account = self.accounts.of(agent)
        if self._cache is None:
            return await endpoint.complete(agent, body, account)
        key = key_of(body)
        text = self._cache.get(key)
        if text is not None:
            account.cached += 1
            return text
        text = await endpoint.complete(agent, body, account)
        self._cache.put(key, text)
        return text

    def _body(
        self,
        endpoint: Endpoint,
        agent: str,
        messages: list[dict[str, str]],
        schema: dict[str, Any],
        rng_seed: int,
    ) -> dict[str, Any]:
        return {
            "model": endpoint.backbone.model,
            "messages": messages,
            "temperature": self._config.temperature,
            "top_p": self._config.top_p,
            "max_tokens": self._config.max_tokens,
            "seed": rng_seed % 2**31,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": agent, "schema": schema, "strict": True},
            },
        }


def build(config: SynthesisConfig) -> OpenAIBackend:
    """The backend called `openai` on servers that others run; the key comes from RODS_LLM_API_KEY.

    See `rods.synthesis.service` for servers that a run starts itself.

    Raises:
        BackendUnavailableError: a backbone has no endpoint.
    """
    return OpenAIBackend(config, [remote(name, config) for name in config.chosen_backbones()])


def remote(name: str, config: SynthesisConfig) -> Backbone:
    """The backbone called `name` on a server that others run.

    Raises:
        BackendUnavailableError: it has no endpoint.
    """
    chosen = config.chosen_backbones()[name]
    if not chosen.base_url:
        raise BackendUnavailableError(
            f"backbone {name!r}: expected its server's address as base_url, found none; set it, "
            "for instance synthesis.base_url=http://127.0.0.1:8000/v1"
        )
    return Backbone(chosen.model, chosen.base_url, chosen.weight, os.environ.get(API_KEY_VARIABLE, NO_KEY))


def answer_schema(output: type[AnswerT], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an answer; the arguments of a call are held to the function's own parameters."""
    schema = _schema(output)
    if "doc" in inputs and "arguments" in schema["properties"]:
        parameters = {**inputs["doc"].parameters, "additionalProperties": False}
        return {**schema, "properties": {**schema["properties"], "arguments": parameters}}
    return schema


@cache
def _schema(output: type[Answer]) -> dict[str, Any]:
    """Of one kind of answer; pydantic makes it anew each time it is asked. Not to be changed."""
    return output.model_json_schema()


def _explain(error: ValidationError) -> str:
    """A validation error in one line, without the answer's own text."""
    parts = [f"{'.'.join(map(str, item['loc'])) or 'answer'}: {item['msg']}" for item in error.errors()]
    return "; ".join(parts)[:1000]
