"""The chat format on Qwen3's own vocabulary and beside its own template; messages survive the round trip."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from typing import Any

import pytest
import qwen3_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from rods.config import ModelConfig, RewardConfig, SimulationConfig
from rods.rollout.chat import Chat, load_tokenizer
from rods.simulation import protocols
from rods.simulation.session import Session
from rods.tasks.model import Call, Task, TaskType, Turn

# Qwen's tokenizer brings text into Unicode's composed form (NFC); a policy writes nothing else.
TEXT = st.text(alphabet=st.characters(exclude_categories=("Cs", "Mn", "Mc", "Me")), max_size=20).map(
    lambda text: unicodedata.normalize("NFC", text)
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.lists(st.builds(Call, TEXT, st.dictionaries(TEXT, VALUES, max_size=3)), min_size=1, max_size=3)
TREE = {
    "root": {"home": {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "é\n日本"}}}}
}
TASK = Task(
    "t",
    TaskType.BASE,
    ("GorillaFileSystem",),
    {"GorillaFileSystem": TREE},
    (Turn("Make b.", ()), Turn("Räume auf – bitte!", ()), Turn("Look.", ())),
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    try:
        return load_tokenizer(qwen3_tokenizer.fetch())
    except qwen3_tokenizer.UnavailableError as reason:
        pytest.skip(str(reason))


@dataclass
class Written:
    """A transcript in tokens, and the messages it stands for."""

    ids: tuple[int, ...]
    messages: list[dict[str, Any]]


def hermes(calls: list[Call]) -> str:
    return "\n".join(
        f"<tool_call>\n{json.dumps(call.to_json(), ensure_ascii=False)}\n</tool_call>" for call in calls
    )


def envtuning(calls: list[Call]) -> str:
    text = json.dumps([call.to_json() for call in calls], ensure_ascii=False)
    return f"<think>\nfirst this\n</think>\n<tool_call>\n{text}\n</tool_call>"


def talk(chat: Chat, tokenizer: Any, system: str) -> Written:
    """A dialogue with several calls in a message, two results in one, and three user turns."""
    session = Session(TASK, SimulationConfig(), RewardConfig())
    ids = list(chat.opening(session))
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": session.query})
    said: list[str | list[Call]] = [
        [Call("mkdir", {"dir_name": "b"}), Call("cat", {"file_name": "a.txt"})],
        [Call("ls", {"a": True})],
        "Done – all of it.",
        [Call("cd", {"folder": "b"})],
        "Erledigt.",
    ]
    for message in said:
        text = message if isinstance(message, str) else hermes(message)
        sampled = [*tokenizer.encode(text, add_special_tokens=False), chat.end_token]
        reply = session.advance(chat.text(sampled))
        ids += [*sampled, *chat.after(True, reply)]
        calls = [] if isinstance(message, str) else [{"function": call.to_json()} for call in message]
        messages.append(
            {
                "role": "assistant",
                "content": "" if calls else text,
                **({"tool_calls": calls} if calls else {}),
            }
        )
        messages += [{"role": "tool", "content": result} for result in reply.observations]
        if reply.query is not None:
            messages.append({"role": "user", "content": reply.query})
    return Written(tuple(ids), messages)


@pytest.mark.parametrize("system", ["", "You are careful."])
def test_a_conversation_with_tools_is_the_templates_token_by_token(tokenizer: Any, system: str) -> None:
    chat = Chat(tokenizer, ModelConfig(system_prompt=system, tools_in_prompt=True))
    written = talk(chat, tokenizer, system)
    tools = Session(TASK, SimulationConfig(), RewardConfig()).tools
    expected = tokenizer.apply_chat_template(
        written.messages, tools=tools, add_generation_prompt=True, tokenize=False
    )
    assert tokenizer.decode(written.ids) == expected
    assert written.ids == tuple(tokenizer.encode(expected, add_special_tokens=False))


@settings(deadline=None)
@given(calls=CALLS)
@pytest.mark.parametrize(
    ("protocol", "write"), [("hermes", hermes), ("envtuning", envtuning)], ids=["hermes", "envtuning"]
)
def test_calls_survive_the_vocabulary(tokenizer: Any, protocol: str, write: Any, calls: list[Call]) -> None:
    chat = Chat(tokenizer, ModelConfig(), protocols.get(protocol))
    sampled = [*tokenizer.encode(write(calls), add_special_tokens=False), chat.end_token]
    text = chat.text(sampled)
    assert text == write(calls)
    assert protocols.get(protocol).parse(text).calls == tuple(calls)


def test_the_system_message_tells_the_protocol(tokenizer: Any) -> None:
    session = Session(TASK, SimulationConfig(), RewardConfig())
    for name in protocols.PROTOCOLS:
        chat = Chat(tokenizer, ModelConfig(tools_in_prompt=True), protocols.get(name))
        opening = tokenizer.decode(chat.opening(session))
        assert protocols.get(name).instruction + "<|im_end|>" in opening
