"""How families of models mark messages: ChatML (Qwen, SmolLM2) and the headers of Llama 3.1.

A format is text only; `rods.rollout.chat` turns it into tokens. Each family's wording is that of its published chat
template, so checkpoints trained on it read it as usual.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from typing import Protocol as Interface

from transformers import PreTrainedTokenizerBase

from rods.errors import RodsError
from rods.simulation.protocols import LLAMA, Protocol

Tools = Sequence[Mapping[str, Any]]

_TOOLS_BEFORE = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
_TOOLS_AFTER = "\n</tools>\n\n"


class ChatError(RodsError):
    """A tokenizer that has no known family's tokens."""


class Format(Interface):
    """One family's way to write a conversation, under the protocol given to its constructor.

    Attributes:
        marks: tokens by which a tokenizer is known to be of the family.
        end: the token that ends a message.
        generate: what stands before an assistant message.
        close: what follows the end token of an assistant message, before the next one.
    """

    marks: ClassVar[tuple[str, ...]]
    end: ClassVar[str]
    generate: ClassVar[str]
    close: ClassVar[str]

    def __init__(self, protocol: Protocol) -> None: ...

    def opening(self, system: str, tools: Tools, query: str) -> str:
        """The system message, if there is anything to say, and the first user message.

        Args:
            system: the system prompt, "" for none.
            tools: documentation to write into the prompt.
            query: of the user.
        """

    def results(self, results: Sequence[str]) -> str:
        """What an assistant message's calls returned, in order; at least one."""

    def user(self, query: str, restored: Tools) -> str:
        """A further user message, with the documentation of functions that it brings."""


class ChatMl:
    """ChatML with Hermes's tool texts, as in the templates of Qwen2.5 and Qwen3. See `Format`."""

    marks: ClassVar[tuple[str, ...]] = ("<|im_start|>", "<|im_end|>")
    end: ClassVar[str] = "<|im_end|>"
    generate: ClassVar[str] = "<|im_start|>assistant\n"
    close: ClassVar[str] = "\n"

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol

    def opening(self, system: str, tools: Tools, query: str) -> str:
        """See `Format.opening`."""
        content = _system(system, tools, self._protocol)
        return (self._message("system", content) if content else "") + self._message("user", query)

    def results(self, results: Sequence[str]) -> str:
        """See `Format.results`: one user message holds them all."""
        tagged = (f"<tool_response>\n{result}\n</tool_response>" for result in results)
        return self._message("user", "\n".join(tagged))

    def user(self, query: str, restored: Tools) -> str:
        """See `Format.user`."""
        return self._message("user", _announced(restored) + query)

    def _message(self, role: str, content: str) -> str:
        return f"<|im_start|>{role}\n{content}{self.end}\n"


class Llama3:
    """The headers of Llama 3.1's template. See `Format`.

    Under the protocol `llama`, the family's own, tools stand in a user message, as the template has them. The other
    protocols describe themselves in the system message, which the template passes on as it is.
    """

    marks: ClassVar[tuple[str, ...]] = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
    end: ClassVar[str] = "<|eot_id|>"
    generate: ClassVar[str] = "<|start_header_id|>assistant<|end_header_id|>\n\n"
    close: ClassVar[str] = ""

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._native = protocol is LLAMA

    def opening(self, system: str, tools: Tools, query: str) -> str:
        """See `Format.opening`. There always is a system message: it tells the template's fixed dates."""
        own = self._native and bool(tools)
        content = ("Environment: ipython\n" if own else "") + (
            "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
        )
        content += system.strip() if own else _system(system, tools, self._protocol).strip()
        return f"<|begin_of_text|>{self._message('system', content)}" + (
            self.user(query, tools if own else ())
        )

    def results(self, results: Sequence[str]) -> str:
        """See `Format.results`: a message each, the text as a JSON string."""
        return "".join(self._message("ipython", json.dumps(result, ensure_ascii=False)) for result in results)

    def user(self, query: str, restored: Tools) -> str:
        """See `Format.user`."""
        before = self._given(restored) if self._native else _announced(restored)
        return self._message("user", before + query.strip())

    def _given(self, tools: Tools) -> str:
        if not tools:
            return ""
        listed = "".join(f"{json.dumps(tool, ensure_ascii=False, indent=4)}\n\n" for tool in tools)
        return f"{self._protocol.instruction}\n\n{listed}"

    def _message(self, role: str, content: str) -> str:
        return f"<|start_header_id|>{role}<|end_header_id|>\n\n{content}{self.end}"


FAMILIES: tuple[type[Format], ...] = (ChatMl, Llama3)


def family(tokenizer: PreTrainedTokenizerBase) -> type[Format]:
    """The family whose marks are single tokens of `tokenizer`, the first of `FAMILIES` where several are.

    Raises:
        ChatError: there is none.
    """
    for kind in FAMILIES:
        if all(len(tokenizer.encode(mark, add_special_tokens=False)) == 1 for mark in kind.marks):
            return kind
    known = "; or ".join(", ".join(kind.marks) for kind in FAMILIES)
    raise ChatError(
        f"tokenizer {tokenizer.name_or_path!r}: expected single tokens for {known}; found neither; "
        "use a model with one of these chat formats (Qwen3, Qwen2.5, Llama-3.1-Instruct)"
    )


def _system(system: str, tools: Tools, protocol: Protocol) -> str:
    parts = [system] if system else []
    if tools:
        parts.append(_TOOLS_BEFORE + _lines(tools) + _TOOLS_AFTER + protocol.instruction)
    return "\n\n".join(parts)


def _announced(tools: Tools) -> str:
    return f"<tools>{_lines(tools)}\n</tools>\n" if tools else ""


def _lines(tools: Tools) -> str:
    return "".join("\n" + json.dumps(tool, ensure_ascii=False) for tool in tools)
