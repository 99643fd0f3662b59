"""Conversations as tokens: text in the format of the policy's family, token in and token out.

Text is encoded once, piece by piece, and appended; a transcript is never decoded and encoded again, since
that would give other tokens than the policy sampled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from rods.config import ModelConfig
from rods.rollout.formats import family
from rods.rollout.tool_names import announced, listed
from rods.simulation.protocols import HERMES, Protocol

# BFCL's fixed user message for a turn that restores functions.
_RESTORED = "I have updated some more functions you can choose from. What about now?"

_SHORT = 2000  # characters
_KEPT, _KEPT_OPENINGS = 4096, 64


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
    """The id of the token that ends a message.

    Raises:
        ChatError: the tokenizer is of no known family, see `formats.family`.
    """
    (token,) = tokenizer.encode(family(tokenizer).end, add_special_tokens=False)
    return int(token)


class Chat:
    """Encodes conversations for one policy, in the format of its tokenizer's family.

    Args:
        tokenizer: of the policy.
        model: its `system_prompt`, `tools_in_prompt` and `tool_names_in_prompt`.
        protocol: how messages are written; its instruction goes with the tools.

    Raises:
        ChatError: see `end_token`.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, model: ModelConfig, protocol: Protocol = HERMES
    ) -> None:
        self.end_token = end_token(tokenizer)
        self._tokenizer = tokenizer
        self._model = model
        self._format = family(tokenizer)(protocol)
        # The rollouts of a group read and write much the same: the tokenizer is asked once. Short texts alone, and few
        # openings, bound the memory.
        self._encode_short = lru_cache(_KEPT)(self._tokens)
        self._encode_opening = lru_cache(_KEPT_OPENINGS)(self._tokens)
        self._decode = lru_cache(_KEPT)(self._decoded)
        self._control = _starts({*self._format.marks, *_special_tokens(tokenizer)})

    def opening(self, session: Opening) -> tuple[int, ...]:
        """Token ids up to where the first assistant message begins."""
        tools = session.tools if self._model.tools_in_prompt else ()
        text = self._format.opening(self._system_prompt(session), tools, self._plain(session.query))
        return self._encode_opening(text + self._format.generate)

    def after(self, stopped: bool, reply: Reply) -> tuple[int, ...]:
        """Token ids that follow an assistant message, up to where the next one begins.

        Args:
            stopped: the message ended with the end token; otherwise the suffix supplies it.
            reply: results of its calls, or the next user message, or both.
        """
        text = ("" if stopped else self._format.end) + self._format.close
        if reply.observations:
            text += self._format.results([self._plain(result) for result in reply.observations])
        if reply.query is not None:
            query = self._plain(reply.query) or (_RESTORED if reply.restored else "")
            if self._model.tool_names_in_prompt:
                query = announced(reply.restored) + query
            text += self._format.user(query, reply.restored if self._model.tools_in_prompt else ())
        return self._encode(text + self._format.generate)

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of an assistant message, without the end token that closes it."""
        if token_ids and token_ids[-1] == self.end_token:
            token_ids = token_ids[:-1]
        return self._decode(tuple(token_ids))

    def _system_prompt(self, session: Opening) -> str:
        names = listed(session.tools) if self._model.tool_names_in_prompt else ""
        return "\n\n".join(filter(None, (self._model.system_prompt, names)))

    def _decoded(self, token_ids: tuple[int, ...]) -> str:
        text = self._tokenizer.decode(
            list(token_ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        assert isinstance(text, str)
        return text

    def _plain(self, content: str) -> str:
        """Content that cannot end its own message: a control token inside it is broken by a space."""
        return self._control.sub(r"\1 ", content)

    def _encode(self, text: str) -> tuple[int, ...]:
        return self._encode_short(text) if len(text) <= _SHORT else self._tokens(text)

    def _tokens(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))


def _special_tokens(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    """Also those without a role of their own, of which Llama 3.1 has 250."""
    added = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    return added | set(tokenizer.all_special_tokens)


def _starts(tokens: set[str]) -> re.Pattern[str]:
    """The first character of each place where one of `tokens` stands, overlapping ones too."""
    return re.compile(f"(?=(?:{'|'.join(map(re.escape, sorted(tokens)))}))(.)", re.DOTALL)
