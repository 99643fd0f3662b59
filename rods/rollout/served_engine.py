"""The engine that asks vLLM servers: on GPUs or nodes of their own, or on this machine's CPUs.

Prompts go out as token ids and come back as token ids; the server says which prompt it read, and it must be the one
that was sent. While an episode's calls run here, the servers go on with the others. An episode stays with its
server, whose prefix cache holds its transcript.
"""

from __future__ import annotations

import queue
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from rods.config import ModelConfig, RolloutConfig
from rods.errors import RodsError
from rods.rollout import ranks
from rods.rollout.chat import end_token, load_tokenizer
from rods.rollout.engine import (
    Completion,
    Request,
    RequestError,
    WeightsError,
    check_request,
    check_sequences,
)
from rods.rollout.fleet import Address, Fleet, key_of_others, served_model, wires
from rods.rollout.served_client import Client
from rods.rollout.weight_push import DiskPush, NcclPush, WeightPush
from rods.rollout.weights import checked, shapes
from rods.rollout.wire import EngineServerError, Thread, Wire, together

_SAME = 2e-2  # mean difference of log-probabilities between two servers of one policy, in bfloat16
_PROBE = tuple(range(3, 19))  # any tokens do


def build(
    model_dir: Path, model: ModelConfig, rollout: RolloutConfig, seed: int, logs: Path | None
) -> ServedEngine:
    """Start the servers, or reach those of others. `seed` is unused: requests bring their own. Collective.

    Raises:
        ServerError: a server does not come up.
        EngineServerError: a server of others cannot be reached or serves another number of models than one.
        ChatError: the tokenizer lacks the chat format's tokens.
    """
    end = end_token(load_tokenizer(model_dir))
    with ExitStack() as stack:
        thread = Thread()
        stack.callback(thread.close)
        fleet: Fleet | None = None
        addresses = [Address(url, key_of_others()) for url in rollout.servers]
        if not addresses and ranks.place()[0] == 0:
            folder = logs or Path(stack.enter_context(TemporaryDirectory(prefix="rods-servers-")))
            fleet = Fleet(thread, model_dir, model, rollout, folder)
            stack.callback(fleet.stop)
            fleet.start()
            addresses = fleet.addresses
        servers = wires(ranks.from_first(addresses), rollout.answer_timeout_s)
        names = thread.run(together([served_model(each, rollout.server.ready_timeout_s) for each in servers]))
        push = _push(thread, servers, rollout)
        stack.callback(push.close)
        client = Client(thread, dict(zip(servers, names, strict=True)), fleet)
        return ServedEngine(client, push, end, model.max_length, shapes(str(model_dir)), stack.pop_all())


def _push(thread: Thread, servers: Sequence[Wire], rollout: RolloutConfig) -> WeightPush:
    name = rollout.transfer
    if name == "auto":
        name = "nccl" if torch.cuda.is_available() else "disk"
    return NcclPush(thread, servers) if name == "nccl" else DiskPush(thread, servers, rollout.transfer_dir)


class ServedEngine:
    """See `rods.rollout.engine.Engine`.

    Args:
        client: asks the servers.
        push: brings them weights.
        end: id of the token that ends a message.
        max_length: most tokens of a sequence.
        expected: shape of each tensor by name, see `weights.shapes`.
        held: closed with the engine.
    """

    name = "served"

    def __init__(
        self,
        client: Client,
        push: WeightPush,
        end: int,
        max_length: int,
        expected: Mapping[str, torch.Size],
        held: ExitStack,
    ) -> None:
        self.max_length = max_length
        self.version = 0
        self._client = client
        self._push = push
        self._end = end
        self._shapes = expected
        self._held = held
        self._in_flight: set[str] = set()
        self._done: queue.SimpleQueue[tuple[str, Future[dict[str, Any]]]] = queue.SimpleQueue()

    def submit(self, request: Request) -> None:
        """See `Engine.submit`."""
        check_request(request, self.max_length, request.id in self._in_flight)
        sampling = request.sampling
        body = {
            "prompt": list(request.prompt_ids),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": min(sampling.max_tokens, self.max_length - len(request.prompt_ids)),
            "seed": sampling.seed % 2**63,
            "stop_token_ids": [self._end],
        }
        self._in_flight.add(request.id)
        future = self._client.begin(request.id, body)
        future.add_done_callback(lambda done: self._done.put((request.id, done)))

    def step(self) -> list[Completion]:
        """See `Engine.step`: waits for one message and takes what else has arrived.

        Raises:
            EngineServerError: a server failed.
        """
        if not self._in_flight:
            return []
        arrived = [self._done.get()]
        while not self._done.empty():
            arrived.append(self._done.get())
        return [self._completion(name, future) for name, future in arrived]

    def update_weights(self, weights: Iterable[tuple[str, torch.Tensor]], version: int) -> None:
        """See `Engine.update_weights`. Collective; the first rank sends.

        Raises:
            EngineServerError: a server did not take them.
        """
        self._refuse_in_flight("update_weights")
        rank, count = ranks.place()
        gathering, problem = iter(weights), ""
        if rank == 0:
            try:
                self._send(checked(gathering, self._shapes))
            except RodsError as error:
                if count == 1:
                    raise
                problem = str(error)
        for _ in gathering:
            """Gathering sharded weights takes all ranks, to the end, also where sending failed half-way."""
        for found in ranks.from_all(problem):
            if found:
                raise WeightsError(f"weights: the first rank could not send them: {found}")
        self._client.forget()
        self.version = version

    def score(self, sequences: Sequence[Sequence[int]]) -> list[list[float]]:
        """See `Engine.score`."""
        self._refuse_in_flight("score")
        check_sequences(sequences, self.max_length)
        return self._scores(sequences, self._client.servers)

    def sleep(self) -> None:
        """See `Engine.sleep`: the servers share nothing with the learner."""

    def wake(self) -> None:
        """See `Engine.wake`."""

    def close(self) -> None:
        """See `Engine.close`; ends servers that were started here."""
        self._in_flight.clear()
        self._held.close()

    def _send(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        try:
            self._client.everywhere("/pause?mode=wait")
            self._push.send(weights)
            if not all(reply["success"] for reply in self._client.everywhere("/reset_prefix_cache")):
                raise EngineServerError(
                    "weights: a server could not forget its prefix cache: requests of others are on it; "
                    "give the run servers of its own"
                )
            self._client.everywhere("/resume")
        except EngineServerError as error:
            raise self._client.explained(error) from None
        self._refuse_strays()

    def _refuse_strays(self) -> None:
        """The learner is compared with one server; so all must agree with that one."""
        servers = self._client.servers
        if len(servers) == 1:
            return
        first, *others = [self._scores([_PROBE], [server])[0] for server in servers]
        for server, scores in zip(servers[1:], others, strict=True):
            gap = sum(abs(a - b) for a, b in zip(first, scores, strict=True)) / len(first)
            if not gap <= _SAME:
                raise WeightsError(
                    f"weights: {server.url} differs from {servers[0].url} by {gap:.2e} in "
                    f"log-probability, expected at most {_SAME:.0e}: it did not take the weights; restart it"
                )

    def _scores(self, sequences: Sequence[Sequence[int]], servers: Sequence[Wire]) -> list[list[float]]:
        # The last token is forced as the one that is generated, so that a full context can be scored too.
        bodies = [
            {
                "prompt": list(sequence[:-1]),
                "max_tokens": 1,
                "temperature": 0.0,
                "allowed_token_ids": [sequence[-1]],
                "prompt_logprobs": 0,
            }
            for sequence in sequences
        ]
        try:
            choices = self._client.complete(bodies, servers)
        except EngineServerError as error:
            raise self._client.explained(error) from None
        return [
            [*_prompt_logprobs(choice, body["prompt"]), *_logprobs(choice)]  # type: ignore[arg-type]
            for choice, body in zip(choices, bodies, strict=True)
        ]

    def _completion(self, name: str, future: Future[dict[str, Any]]) -> Completion:
        self._in_flight.discard(name)
        try:
            choice = future.result()
        except EngineServerError as error:
            raise self._client.explained(error) from None
        tokens = tuple(choice["token_ids"])
        return Completion(name, tokens, _logprobs(choice), stopped=bool(tokens) and tokens[-1] == self._end)

    def _refuse_in_flight(self, action: str) -> None:
        if self._in_flight:
            count = len(self._in_flight)
            raise RequestError(f"{action}: {count} requests are in flight; step() until they are done first")


def _logprobs(choice: Mapping[str, Any]) -> tuple[float, ...]:
    return tuple(choice["logprobs"]["token_logprobs"])


def _prompt_logprobs(choice: Mapping[str, Any], prompt: Sequence[int]) -> list[float]:
    """Log-probabilities of prompt tokens 1…n-1 (the first has none)."""
    rows = choice["prompt_logprobs"]
    return [row[str(token)]["logprob"] for row, token in zip(rows[1:], prompt[1:], strict=True)]
