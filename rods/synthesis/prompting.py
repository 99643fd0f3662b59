"""The agents' prompts: one Markdown file each beside this module, rendered strictly.

A prompt that names an input the stage does not give is an error, not an empty place in a prompt: nobody reads
sixty-four workers' prompts to notice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from rods.synthesis.agents import NoPromptError

PROMPTS = Path(__file__).parent / "prompts"


def render(agent: str, inputs: Mapping[str, Any]) -> str:
    """The prompt of `agent` for these inputs.

    Raises:
        NoPromptError: no such prompt, or it names an input that is not there.
    """
    try:
        return _environment().get_template(f"{agent}.md").render(inputs)
    except jinja2.TemplateNotFound as error:
        raise NoPromptError(f"agent {agent!r}: expected a prompt {PROMPTS.name}/{error.name}") from error
    except jinja2.UndefinedError as error:
        raise NoPromptError(
            f"prompt {agent}.md: {error.message}; it was given: {', '.join(inputs)}"
        ) from error


@cache
def versions() -> dict[str, str]:
    """Agent → first 12 digits of its prompt's SHA-256, for a variant's provenance."""
    return {
        path.stem: hashlib.sha256(path.read_bytes()).hexdigest()[:12] for path in sorted(PROMPTS.glob("*.md"))
    }


@cache
def _environment() -> jinja2.Environment:
    # Prompts are plain text: escaping for HTML would change what a model reads.
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(PROMPTS),
        auto_reload=False,  # else each rendering looks at the file, in the event loop of all workers
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["json"] = _json
    return environment


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """Calls and documentation inside prompts."""
    if hasattr(value, "to_json"):
        return value.to_json()
    return dict(value) if isinstance(value, Mapping) else str(value)
