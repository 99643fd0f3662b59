"""The chat formats beside the families' published templates, which TRL carries: text for text, token for token."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import llama3_tokenizer
import pytest
import random_policy
from chat_examples import Reply, Start
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, LlamaForCausalLM

from rods.config import ModelConfig, RewardConfig, RolloutConfig, SimulationConfig
from rods.config.compose import compose
from rods.rollout.chat import Chat, end_token
from rods.rollout.episode import collect
from rods.rollout.formats import ChatMl, Llama3, family
from rods.rollout.hf_engine import HfEngine
from rods.rollout.row_cache import ATTENTION
from rods.simulation import protocols
from rods.simulation.session import Session
from rods.tasks.model import Call, Task, TaskType, Turn

TREE = {
    "root": {"home": {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "é\n日本"}}}}
}
TASK = Task(
    "t",
    TaskType.BASE,
    ("GorillaFileSystem",),
    {"GorillaFileSystem": TREE},
    (Turn(" Make b.\n", ()), Turn("Räume auf – bitte!", ()), Turn("Look.", ())),
)
TOOLS = Session(TASK, SimulationConfig(), RewardConfig()).tools
SAID: tuple[str | list[Call], ...] = (
    [Call("mkdir", {"dir_name": "b"})],
    [Call("cat", {"file_name": "a.txt"})],
    "Done – all of it.",
    [Call("ls", {"a": True})],
    "Erledigt.",
)


def with_template(tokenizer: Any, name: str) -> Any:
    """`tokenizer` with a published template; TRL's own code is not loaded."""
    trl = find_spec("trl")
    assert trl is not None
    assert trl.origin is not None
    tokenizer.chat_template = (Path(trl.origin).parent / "chat_templates" / name).read_text()
    return tokenizer


LLAMA = with_template(llama3_tokenizer.tokenizer(), "llama3_1.jinja")
QWEN = with_template(random_policy.tokenizer(), "qwen2_5.jinja")
QWENS_OWN = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."


@dataclass
class Talk:
    """A dialogue as its tokens grow, and the messages that the template is given."""

    chat: Chat
    tokenizer: Any
    messages: list[dict[str, Any]]
    ids: list[int] = field(default_factory=list)

    def begin(self, session: Session) -> None:
        self.ids += self.chat.opening(session)
        self.messages.append({"role": "user", "content": session.query})

    def say(self, session: Session, text: str, message: dict[str, Any]) -> None:
        sampled = [*self.tokenizer.encode(text, add_special_tokens=False), self.chat.end_token]
        reply = session.advance(self.chat.text(sampled))
        self.messages.append({"role": "assistant", **message})
        self.messages += [{"role": "tool", "content": result} for result in reply.observations]
        if reply.query is not None:
            self.messages.append({"role": "user", "content": reply.query})
        self.ids += [*sampled, *self.chat.after(True, reply)]


def hermes(call: Call) -> str:
    return f"<tool_call>\n{json.dumps(call.to_json(), ensure_ascii=False)}\n</tool_call>"


def llama(call: Call) -> str:
    return json.dumps({"name": call.name, "parameters": call.arguments}, ensure_ascii=False)


def envtuning(call: Call) -> str:
    return f"<think>\nnext\n</think>\n<tool_call>\n{json.dumps([call.to_json()], ensure_ascii=False)}\n</tool_call>"


WRITE = {"hermes": hermes, "llama": llama, "envtuning": envtuning}


def answer(protocol: str, text: str) -> str:
    return f"<think>\ndone\n</think>\n<answer>\n{text}\n</answer>" if protocol == "envtuning" else text


def dialogue(tokenizer: Any, system: str, protocol: str, native: bool) -> Talk:
    """The whole dialogue; calls are the template's own where the protocol is the family's, else plain content."""
    session = Session(TASK, SimulationConfig(protocol=protocol), RewardConfig())
    model = ModelConfig(system_prompt=system, tools_in_prompt=True)
    talk = Talk(Chat(tokenizer, model, protocols.get(protocol)), tokenizer, [])
    talk.begin(session)
    for message in SAID:
        text = answer(protocol, message) if isinstance(message, str) else WRITE[protocol](message[0])
        calls = [] if isinstance(message, str) else [{"function": call.to_json()} for call in message]
        structured = {"content": "", "tool_calls": calls} if native and calls else {"content": text}
        talk.say(session, text, structured)
    return talk


def templated(tokenizer: Any, messages: list[dict[str, Any]], tools: Any) -> str:
    text = tokenizer.apply_chat_template(messages, tools=tools, add_generation_prompt=True, tokenize=False)
    assert isinstance(text, str)
    return text


def equal(talk: Talk, expected: str) -> None:
    assert talk.tokenizer.decode(talk.ids) == expected
    assert talk.ids == talk.tokenizer.encode(expected, add_special_tokens=False)


@pytest.mark.parametrize("system", ["", "You are careful."])
def test_llama_with_its_own_calls_is_the_template(system: str) -> None:
    talk = dialogue(LLAMA, system, "llama", native=True)
    before = [{"role": "system", "content": system}] if system else []
    equal(talk, templated(LLAMA, before + talk.messages, TOOLS))


@pytest.mark.parametrize("protocol", ["hermes", "envtuning"])
@pytest.mark.parametrize("system", ["", "You are careful."])
def test_llama_under_the_other_protocols_is_the_template_with_that_system_message(
    system: str, protocol: str
) -> None:
    talk = dialogue(LLAMA, system, protocol, native=False)
    _, _, told = ChatMl(protocols.get(protocol)).opening(system, TOOLS, "").partition("system\n")
    content = told.partition("<|im_end|>")[0]
    assert protocols.get(protocol).instruction in content
    equal(talk, templated(LLAMA, [{"role": "system", "content": content}, *talk.messages], None))


@pytest.mark.parametrize("system", [QWENS_OWN, "You are careful."])
def test_qwen25_is_the_template(system: str) -> None:
    talk = dialogue(QWEN, system, "hermes", native=True)
    before = [] if system == QWENS_OWN else [{"role": "system", "content": system}]
    equal(talk, templated(QWEN, before + talk.messages, TOOLS))


def test_qwen25_under_envtunings_protocol_is_the_template_with_that_system_message() -> None:
    talk = dialogue(QWEN, QWENS_OWN, "envtuning", native=False)
    content = QWEN.decode(talk.ids).partition("system\n")[2].partition("<|im_end|>")[0]
    assert content.startswith(QWENS_OWN)
    assert content.endswith(protocols.ENVTUNING.instruction)
    equal(talk, templated(QWEN, [{"role": "system", "content": content}, *talk.messages], None))


def test_several_results_follow_each_other_as_in_the_templates() -> None:
    results = ("one", 'two "words"')
    tools = [{"role": "tool", "content": result} for result in results]
    for tokenizer in (LLAMA, QWEN):
        chat = Chat(tokenizer, ModelConfig(system_prompt=QWENS_OWN))
        opening = chat.opening(Start("Hi."))
        said = [*tokenizer.encode("Yes.", add_special_tokens=False), chat.end_token]
        talk = Talk(chat, tokenizer, [], [*opening, *said, *chat.after(True, Reply(results))])
        messages = [
            {"role": "system", "content": QWENS_OWN},
            {"role": "user", "content": "Hi."},
            {"role": "assistant", "content": "Yes."},
            *tools,
        ]
        equal(talk, templated(tokenizer, messages, None))


def test_the_configured_models_say_what_their_templates_say() -> None:
    qwen = compose(["+experiment=rods_qwen25_7b"])
    assert (qwen.model.system_prompt, qwen.simulation.protocol) == (QWENS_OWN, "hermes")
    own = compose(["+experiment=rods_llama31_8b"])
    assert (own.model.system_prompt, own.simulation.protocol) == ("", "llama")
    assert qwen.model.tools_in_prompt
    assert own.model.tools_in_prompt


def test_the_family_shows_in_the_tokens() -> None:
    assert (family(LLAMA), family(QWEN)) == (Llama3, ChatMl)
    assert LLAMA.decode([end_token(LLAMA)]) == "<|eot_id|>"
    both = llama3_tokenizer.tokenizer.__wrapped__()
    both.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    assert family(both) is ChatMl  # a Llama that was taught ChatML


def test_a_cut_message_is_closed_and_restored_functions_are_announced() -> None:
    tool = {"type": "function", "function": {"name": "ls"}}
    model = ModelConfig(tools_in_prompt=True)
    native = LLAMA.decode(Chat(LLAMA, model, protocols.LLAMA).after(False, Reply(query="", restored=(tool,))))
    assert native == (
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
        + protocols.LLAMA.instruction
        + "\n\n"
        + json.dumps(tool, indent=4)
        + "\n\nI have updated some more functions you can choose from. What about now?<|eot_id|>"
        + Llama3.generate
    )
    other = LLAMA.decode(Chat(LLAMA, model).after(True, Reply(query="Now?", restored=(tool,))))
    assert f"<tools>\n{json.dumps(tool)}\n</tools>\nNow?<|eot_id|>" in other
    silent = LLAMA.decode(
        Chat(LLAMA, ModelConfig(), protocols.LLAMA).after(True, Reply(query="Now?", restored=(tool,)))
    )
    assert silent == f"<|start_header_id|>user<|end_header_id|>\n\nNow?<|eot_id|>{Llama3.generate}"


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.sampled_from([*llama3_tokenizer.CONTROL, "<|eot_id", "|>", "<", "<|", "a", "\n", " ", "user"]),
        max_size=8,
    ).map("".join)
)
def test_content_cannot_pose_as_another_message(content: str) -> None:
    chat = Chat(LLAMA, ModelConfig())
    control = set(LLAMA.convert_tokens_to_ids(llama3_tokenizer.CONTROL))
    for made, plain in (
        (chat.opening(Start(content)), chat.opening(Start("x"))),
        (chat.after(True, Reply((content,))), chat.after(True, Reply(("x",)))),
        (chat.after(True, Reply(query=content)), chat.after(True, Reply(query="x"))),
    ):
        assert [i for i in made if i in control] == [i for i in plain if i in control]


def test_a_llama_plays_episodes_on_the_engine() -> None:
    config = LlamaConfig(
        vocab_size=len(LLAMA),
        max_position_embeddings=4096,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    config._attn_implementation = ATTENTION
    engine = HfEngine(LlamaForCausalLM(config), end_token(LLAMA), 4096, 8)
    chat = Chat(LLAMA, ModelConfig(), protocols.LLAMA)
    rollout = RolloutConfig(max_message_tokens=8)
    ((first, second),) = collect(
        engine, chat, [TASK], 2, rollout, SimulationConfig(protocol="llama"), RewardConfig(), 1
    )
    for episode in (first, second):
        text = LLAMA.decode(episode.token_ids)
        assert text.startswith("<|begin_of_text|><|start_header_id|>system")
        assert "Räume auf" in text
        assert sum(episode.mask)
        assert text.count(Llama3.generate) >= 3
