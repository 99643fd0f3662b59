"""ChatML with Hermes tool calls, token in and token out.

Text is encoded once, piece by piece, and appended; a transcript is never decoded and encoded again, since
that would give other tokens than the policy sampled. The wording is Qwen3's chat template's, so checkpoints
trained on it read it as usual.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from rods.config import ModelConfig
from rods.errors import RodsError
from rods.simulation.protocols import HERMES, Protocol

_END = "<|im_end|>"
_ASSISTANT = "<|im_start|>assistant\n"
_TOOLS_BEFORE = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
)
_TOOLS_AFTER = "\n</tools>\n\n"
# BFCL's fixed user message for a turn that restores functions.
_RESTORED = "I have updated some more functions you can choose from. What about now?"

_SHORT = 2000  # characters
_KEPT, _KEPT_OPENINGS = 4096, 64


class ChatError(RodsError):
    """A tokenizer that lacks the chat format's tokens."""


class Opening(Interface):
    """What a conversation starts from (`rods.simulation.session.Session` is one)."""

    @property
    def query(self) -> str:
        """The first user message."""

    @property
    def tools(self) -> Sequence[Mapping[str, Any]]:
        """Documentation of the functions available from the start."""


class Reply(Interface):
    """What the world answers to an assistant message (`rods.simulation.session.Advance` is one)."""

    @property
    def observations(self) -> Sequence[str]:
        """Results of the message's calls, in order."""

    @property
    def query(self) -> str | None:
        """The next user message, if a new turn begins."""

    @property
    def restored(self) -> Sequence[Mapping[str, Any]]:
        """Documentation of functions that become available with that turn."""


def load_tokenizer(model_dir: str | Path) -> PreTrainedTokenizerBase:
    """The tokenizer in `model_dir`."""
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(model_dir))
    return tokenizer


def end_token(tokenizer: PreTrainedTokenizerBase) -> int:
    """The id of `<|im_end|>`, which ends a message.

    Raises:
        ChatError: the tokenizer does not have `<|im_start|>` and `<|im_end|>` as single tokens.
    """
    for token in ("<|im_start|>", _END):
        ids = tokenizer.encode(token, add_special_tokens=False)
        if len(ids) != 1:
            raise ChatError(
                f"tokenizer {tokenizer.name_or_path!r}: expected {token} to be one token, found {len(ids)}; "
                "use a model with a ChatML chat format (Qwen3, for example)"
            )
    return int(ids[0])


class Chat:
    """Encodes conversations for one policy.

    Args:
        tokenizer: of the policy.
        model: its `system_prompt` and `tools_in_prompt`.
        protocol: how messages are written; its instruction follows the tools.

    Raises:
        ChatError: see `end_token`.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, model: ModelConfig, protocol: Protocol = HERMES
    ) -> None:
        self.end_token = end_token(tokenizer)
        self._tokenizer = tokenizer
        self._model = model
        self._protocol = protocol
        # The rollouts of a group read and write much the same: the tokenizer is asked once. Short texts alone, and few
        # openings, bound the memory.
        self._encode_short = lru_cache(_KEPT)(self._tokens)
        self._encode_opening = lru_cache(_KEPT_OPENINGS)(self._tokens)
        self._decode = lru_cache(_KEPT)(self._decoded)
        self._control_tokens = sorted({_END, "<|im_start|>", *tokenizer.all_special_tokens})

    def opening(self, session: Opening) -> tuple[int, ...]:
        """Token ids up to where the first assistant message begins."""
        return self._encode_opening(self._system(session) + self._user(session.query) + _ASSISTANT)

    def after(self, stopped: bool, reply: Reply) -> tuple[int, ...]:
        """Token ids that follow an assistant message, up to where the next one begins.

        Args:
            stopped: the message ended with the end token; otherwise the suffix supplies it.
            reply: results of its calls, or the next user message, or both.
        """
        text = "\n" if stopped else f"{_END}\n"
        if reply.observations:
            results = "\n".join(
                f"<tool_response>\n{self._plain(result)}\n</tool_response>" for result in reply.observations
            )
            text += f"<|im_start|>user\n{results}{_END}\n"
        if reply.query is not None:
            text += self._user(reply.query, reply.restored)
        return self._encode(text + _ASSISTANT)

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of an assistant message, without the end token that closes it."""
        if token_ids and token_ids[-1] == self.end_token:
            token_ids = token_ids[:-1]
        return self._decode(tuple(token_ids))

    def _decoded(self, token_ids: tuple[int, ...]) -> str:
        text = self._tokenizer.decode(
            list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        assert isinstance(text, str)
        return text

    def _system(self, session: Opening) -> str:
        parts = [self._model.system_prompt] if self._model.system_prompt else []
        if self._model.tools_in_prompt and (tools := session.tools):
            parts.append(_TOOLS_BEFORE + _lines(tools) + _TOOLS_AFTER + self._protocol.instruction)
        content = "\n\n".join(parts)
        return f"<|im_start|>system\n{content}{_END}\n" if parts else ""

    def _user(self, query: str, restored: Sequence[Mapping[str, Any]] = ()) -> str:
        content = self._plain(query)
        if restored:
            content = content or _RESTORED
            if self._model.tools_in_prompt:
                content = f"<tools>{_lines(restored)}\n</tools>\n{content}"
        return f"<|im_start|>user\n{content}{_END}\n"

    def _plain(self, content: str) -> str:
        """Content that cannot end its own message: a control token inside it is broken by a space."""
        for token in self._control_tokens:
            content = content.replace(token, f"{token[0]} {token[1:]}")
        return content

    def _encode(self, text: str) -> tuple[int, ...]:
        return self._encode_short(text) if len(text) <= _SHORT else self._tokens(text)

    def _tokens(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))


def _lines(tools: Sequence[Mapping[str, Any]]) -> str:
    return "".join("\n" + json.dumps(tool, ensure_ascii=False) for tool in tools)
