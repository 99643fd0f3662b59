"""Demonstrations as the text of a conversation, cut where the assistant begins and ends to speak.

The text is that of `rods.rollout.chat` (ChatML, Hermes tool calls, the system prompt of
`conf/model/tiny.yaml`, tools by name); each piece is encoded on its own, as rollouts do, so that the policy
is trained on the very tokens it will see.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from rods.rollout.tool_names import announced, listed
from rods.tasks.model import Call
from rods.warmstart.demonstrations import Demonstration

SYSTEM_PROMPT = "Use the tools."
END = "<|im_end|>"
_ASSISTANT = "<|im_start|>assistant\n"


@dataclass(frozen=True)
class Piece:
    """A stretch of text; `spoken` by the assistant, or given to it."""

    text: str
    spoken: bool


def pieces(demonstration: Demonstration) -> Iterator[Piece]:
    """The conversation in order; joined, the pieces are its full text."""
    lead = f"<|im_start|>system\n{SYSTEM_PROMPT}\n\n{listed(demonstration.tools)}{END}\n"
    for turn in demonstration.turns:
        query = announced(turn.restored) + turn.query
        yield Piece(f"{lead}<|im_start|>user\n{query}{END}\n{_ASSISTANT}", False)
        for call, result in zip(turn.calls, turn.results, strict=True):
            yield Piece(f"{call_text(call)}{END}", True)
            response = f"<tool_response>\n{result}\n</tool_response>"
            yield Piece(f"\n<|im_start|>user\n{response}{END}\n{_ASSISTANT}", False)
        yield Piece(f"{turn.answer}{END}", True)
        lead = "\n"


def call_text(call: Call) -> str:
    """A call as the assistant writes it."""
    return f"<tool_call>\n{json.dumps(call.to_json())}\n</tool_call>"
