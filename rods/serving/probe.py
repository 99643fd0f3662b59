"""Whether a model server can be used just now."""

from __future__ import annotations

import asyncio

import httpx

_TIMEOUT_S = 10.0


class Probe:
    """Asks one server for its models.

    Args:
        model: the name that it must list.
        url: ends in /v1.
        key: sent along; in no message.
    """

    def __init__(self, model: str, url: str, key: str) -> None:
        self._model = model
        self._key = key
        self._client = httpx.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=_TIMEOUT_S
        )

    async def problem(self) -> str:
        """Why the server cannot be used; "" when it lists the model."""
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                reply = await self._client.get("/models")
            reply.raise_for_status()
            names = [model["id"] for model in reply.json()["data"]]
        except (httpx.HTTPError, KeyError, TypeError, ValueError, RecursionError, TimeoutError) as error:
            return f"{type(error).__name__}: {error}".replace(self._key, "***")[:500]
        if names and self._model not in names:
            return f"it serves {', '.join(names)}, not {self._model}"
        return ""

    async def close(self) -> None:
        """Close the connection."""
        await self._client.aclose()
