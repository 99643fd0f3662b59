"""The rules for the language models of the synthesis and the servers that it starts for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rods.config.checks import Problem, at_least, positive

if TYPE_CHECKING:
    from rods.config import BackboneConfig, SynthesisConfig


def backbones(synthesis: SynthesisConfig) -> Iterator[Problem]:
    """Contradictions in the settings of the openai backend."""
    yield from at_least("synthesis.max_tokens", synthesis.max_tokens, 1)
    yield from at_least("synthesis.cache_mib", synthesis.cache_mib, 0)
    yield from positive("synthesis.request_timeout_s", synthesis.request_timeout_s)
    yield from positive("synthesis.server.ready_timeout_s", synthesis.server.ready_timeout_s)
    yield from at_least("synthesis.server.max_restarts", synthesis.server.max_restarts, 0)
    unknown = sorted(set(synthesis.backbones) - set(synthesis.catalog))
    if unknown:
        known = ", ".join(sorted(synthesis.catalog)) or "none"
        yield Problem(
            "synthesis.backbones",
            list(synthesis.backbones),
            f"not in synthesis.catalog: {', '.join(unknown)} (it has {known})",
            "describe each in the catalog: model, base_url, weight",
        )
    elif synthesis.enabled and synthesis.backend == "openai":
        for name, backbone in synthesis.chosen_backbones().items():
            key = f"synthesis.catalog.{name}." if synthesis.backbones else "synthesis."
            yield from _backbone(key, backbone)


def _backbone(key: str, backbone: BackboneConfig) -> Iterator[Problem]:
    if not backbone.model:
        yield Problem(
            f"{key}model", backbone.model, "the openai backend needs a model", "name the served model"
        )
    if backbone.base_url and not backbone.base_url.startswith(("http://", "https://")):
        yield Problem(
            f"{key}base_url", backbone.base_url, "no http address", "set http://HOST:PORT/v1, or none"
        )
    yield from positive(f"{key}weight", backbone.weight)
