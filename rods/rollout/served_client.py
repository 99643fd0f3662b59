"""Completions from several vLLM servers of one policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from rods.rollout.fleet import Fleet
from rods.rollout.wire import EngineServerError, Thread, Wire, together

# Log-probabilities of the sampled tokens alone; the ids of all tokens; the end token is among the stop tokens.
_ALWAYS = {"logprobs": 0, "return_token_ids": True, "return_tokens_as_token_ids": True, "ignore_eos": True}


class Client:
    """Asks servers. An episode stays with one, whose prefix cache holds its transcript.

    Args:
        thread: where requests run.
        models: the name under which each server serves the policy.
        fleet: the servers that this process started, if any.
    """

    def __init__(self, thread: Thread, models: Mapping[Wire, str], fleet: Fleet | None) -> None:
        self.thread = thread
        self.servers = list(models)
        self._models = models
        self._fleet = fleet
        self._home: dict[str, Wire] = {}

    def begin(self, name: str, body: dict[str, Any]) -> Future[dict[str, Any]]:
        """Ask the episode's server; a new episode goes where the fewest are at home."""
        if name not in self._home:
            load = Counter(self._home.values())
            self._home[name] = min(self.servers, key=load.__getitem__)
        return self.thread.start(self._complete(self._home[name], body))

    def forget(self) -> None:
        """Episodes that come have no server yet."""
        self._home.clear()

    def everywhere(self, path: str, body: Any = None) -> list[Any]:
        """The same command to all servers; their replies."""
        return self.thread.run(together([server.post(path, body) for server in self.servers]))

    def complete(self, bodies: Sequence[dict[str, Any]], servers: Sequence[Wire]) -> list[dict[str, Any]]:
        """Completions of `bodies`, dealt out to `servers` in turn."""
        asked = [self._complete(servers[place % len(servers)], body) for place, body in enumerate(bodies)]
        return self.thread.run(together(asked))

    async def _complete(self, server: Wire, body: dict[str, Any]) -> dict[str, Any]:
        reply = await server.post("/v1/completions", {"model": self._models[server], **_ALWAYS, **body})
        try:
            (choice,) = reply["choices"]
            if choice["prompt_token_ids"] != body["prompt"]:
                raise server.error("/v1/completions", "an answer to another prompt than was sent")
            return dict(choice)
        except (KeyError, TypeError, ValueError):
            raise server.error("/v1/completions", f"{str(reply)[:300]}") from None

    def explained(self, error: EngineServerError) -> EngineServerError:
        """The error, with what is known of servers of ours that ended."""
        ended = self._fleet.obituary() if self._fleet is not None else ""
        return EngineServerError(f"{error}\n{ended}") if ended else error
