"""The transcript of one episode: tokens that are appended once and never encoded again.

Training on other tokens than were sampled would be silent: the text reads the same, the log-probabilities
belong to something else. So the rule is checked in every run, not only in tests: an engine must have answered
the very tokens that stand here, what it sampled must be a message, and what the learner gets must be what was
sampled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rods.errors import RodsError
from rods.rollout.engine import Completion, Request

_ROUNDING = 1e-3  # a log-probability of almost 1 may come out a little above 0


class TranscriptError(RodsError):
    """An engine that answered something else than it was asked, or tokens that changed after sampling."""


class Transcript:
    """Grows at its end only.

    Args:
        name: of the episode, for messages.
        end: id of the token that ends a message.

    Attributes:
        name: the episode's.
        token_ids: the whole transcript.
        mask: 1 where the policy sampled the token.
        logprobs: the engine's, of each sampled token; 0.0 where the mask is 0.
        turns: the user turn, from 0, in which each token was sampled; 0 where the mask is 0.
        messages: how many the policy has written.
    """

    def __init__(self, name: str, end: int) -> None:
        self.token_ids: list[int] = []
        self.mask: list[int] = []
        self.logprobs: list[float] = []
        self.turns: list[int] = []
        self.messages = 0
        self.name = name
        self._end = end
        self._sampled: list[int] = []

    def read(self, token_ids: Sequence[int]) -> None:
        """Append tokens that the policy reads."""
        self.token_ids += token_ids
        self.mask += [0] * len(token_ids)
        self.logprobs += [0.0] * len(token_ids)
        self.turns += [0] * len(token_ids)

    def write(self, request: Request, message: Completion, turn: int) -> None:
        """Append what the policy sampled in answer to `request`, in the user's turn `turn`.

        Raises:
            TranscriptError: the prompt was not this transcript, or the message is none that a policy can write.
        """
        if request.prompt_ids != tuple(self.token_ids):
            raise self._error("a prompt of exactly the transcript's tokens", "a prompt of others")
        self._check(request, message)
        self.token_ids += message.token_ids
        self.mask += [1] * len(message.token_ids)
        self.logprobs += message.logprobs
        self.turns += [turn] * len(message.token_ids)
        self.messages += 1
        self._sampled += message.token_ids

    def verify(self) -> None:
        """Compare what the learner will be given with what was sampled.

        Raises:
            TranscriptError: they differ.
        """
        marked = [token for token, sampled in zip(self.token_ids, self.mask, strict=True) if sampled]
        if marked != self._sampled or len(self.logprobs) != len(self.token_ids):
            raise self._error(
                "the sampled tokens where the mask is 1", "others; a transcript was encoded again"
            )

    def _check(self, request: Request, message: Completion) -> None:
        tokens, most = message.token_ids, request.sampling.max_tokens
        if not 1 <= len(tokens) <= most:
            raise self._error(f"1 to {most} sampled tokens", f"{len(tokens)}")
        if len(message.logprobs) != len(tokens):
            raise self._error(f"{len(tokens)} log-probabilities", f"{len(message.logprobs)}")
        if self._end in tokens[:-1] or message.stopped != (tokens[-1] == self._end):
            raise self._error("the end token at the end of a stopped message and nowhere else", f"{tokens}")
        wrong = [value for value in message.logprobs if not (math.isfinite(value) and value <= _ROUNDING)]
        if wrong:
            raise self._error("finite log-probabilities of at most 0", f"{wrong[0]}")

    def _error(self, expected: str, found: str) -> TranscriptError:
        return TranscriptError(
            f"episode {self.name}, message {self.messages}: expected {expected}, found {found}; the engine "
            "cannot be trusted: report it, or set rollout.engine=hf"
        )
