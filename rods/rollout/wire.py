"""HTTP to vLLM servers from code that is not asynchronous: an event loop in a thread of its own.

Answers are drawn with seeds, so asking again is harmless: what may pass by itself (no connection, 429, 5xx) is
tried again a few times. Commands about weights are given once. What is left is an error that says which server did
what.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

import httpx
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from rods.errors import RodsError

Answer = TypeVar("Answer")

_TRIES = 3
_REPEATABLE = "/v1/"
_FIRST_PAUSE_S = 0.5
_SHOWN = 300  # characters of a server's own words


class EngineServerError(RodsError):
    """A model server that cannot be reached, answers with an error or not in time, or answers nonsense."""


class _PassingError(Exception):
    """A fault that may be gone at the next try."""


class Thread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="engine-servers", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, Answer]) -> Future[Answer]:
        """Begin `work`; its result is in the future."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Do `work` and wait for its result."""
        return self.start(work).result()

    def close(self) -> None:
        """End the loop; what is still under way is abandoned. May be called twice."""
        if not self._loop.is_closed():
            self.run(_cancel_others())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class Wire:
    """Requests to one server.

    Args:
        url: http://HOST:PORT.
        key: sent along, in no message; "" for none.
        timeout_s: for one answer, queueing included.

    Attributes:
        url: the server's.
    """

    def __init__(self, url: str, key: str, timeout_s: float) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._client = httpx.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(None, connect=10.0),
            limits=httpx.Limits(max_connections=None),
        )

    async def post(self, path: str, body: Any = None) -> Any:
        """The JSON of the reply.

        Raises:
            EngineServerError: see there.
        """
        return await self._ask("POST", path, body)

    async def get(self, path: str) -> Any:
        """The JSON of the reply.

        Raises:
            EngineServerError: see there.
        """
        return await self._ask("GET", path, None)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _ask(self, method: str, path: str, body: Any) -> Any:
        tries = _TRIES if path.startswith(_REPEATABLE) else 1
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_PassingError),
            wait=wait_exponential(multiplier=_FIRST_PAUSE_S),
            stop=stop_after_attempt(tries),
            reraise=True,
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                return await retrying(self._once, method, path, body)
        except TimeoutError:
            raise self.error(
                path, f"no answer within rollout.answer_timeout_s = {self._timeout_s:g} s"
            ) from None
        except _PassingError as error:
            raise self.error(path, f"{error} (tries: {tries})") from None

    async def _once(self, method: str, path: str, body: Any) -> Any:
        try:
            reply = await self._client.request(method, path, json=body)
        except httpx.TransportError as error:
            raise _PassingError(f"{type(error).__name__}: {error}") from None
        if reply.status_code == 429 or reply.status_code >= 500:
            raise _PassingError(f"status {reply.status_code}: {reply.text[:_SHOWN]}")
        if not reply.is_success:
            raise self.error(path, f"status {reply.status_code}: {reply.text[:_SHOWN]}")
        try:
            return reply.json()
        except ValueError:
            raise self.error(path, f"no JSON: {reply.text[:_SHOWN]!r}") from None

    def error(self, path: str, found: str) -> EngineServerError:
        """What the server did wrong, in words."""
        return EngineServerError(
            f"model server {self.url}{path}: expected an answer, found {found}. Look at the server's log; then resume "
            "the run"
        )


async def together(work: Sequence[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    """All results in order; the first failure cancels the rest and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
