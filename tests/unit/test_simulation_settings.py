"""Training and official scoring are two choices of the configuration, and they judge differently."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from rods.config import Config, ConfigError, from_mapping, validate
from rods.reward import build
from rods.simulation.session import Session
from rods.tasks.model import Call, Task, TaskType, Turn

CONF = Path(__file__).parents[2] / "conf"
LS = '<tool_call>{"name": "ls", "arguments": {}}</tool_call>'


def settings(*overrides: str) -> Config:
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return from_mapping(compose(config_name="config", overrides=list(overrides)))


TRAINING = settings()
OFFICIAL = settings("simulation=official", "reward=official")
TASK = Task(
    "t",
    TaskType.MISS_FUNC,
    ("GorillaFileSystem",),
    {},
    (
        Turn("Look.", (Call("pwd", {}),)),
        Turn("And tail it.", ()),
        Turn("Again.", (Call("ls", {}),), restored=("ls",)),
        Turn("Where?", (Call("pwd", {}),)),
    ),
    withheld=("ls",),
)


def play(config: Config, turns: list[list[str]]) -> Session:
    session = Session(TASK, config.simulation, config.reward)
    for messages in turns:
        for message in [*messages, "Done."]:
            if not session.finished:
                session.advance(message)
    return session


def passed(session: Session) -> list[bool]:
    return [verdict.passed for verdict in session.outcome().verdicts]


def call(name: str) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': {}})}</tool_call>"


def test_the_limits_are_those_of_the_paper_and_of_the_official_runner() -> None:
    assert (TRAINING.simulation.step_limit, TRAINING.simulation.at_limit) == (5, "end_turn")
    assert (OFFICIAL.simulation.step_limit, OFFICIAL.simulation.at_limit) == (20, "force_quit")


@pytest.mark.parametrize(("config", "limit"), [(TRAINING, 5), (OFFICIAL, 20)], ids=["training", "official"])
def test_the_limit_counts_messages_of_one_turn(config: Config, limit: int) -> None:
    below = play(config, [[call("pwd")] * limit, [], [call("ls")], [call("pwd")]])
    assert passed(below) == [True] * 4
    assert below.outcome().calls == limit + 2
    above = play(config, [[call("pwd")] * (limit + 1)])
    assert above.outcome().calls == (limit if config is TRAINING else limit + 1)
    assert above.finished == (config is OFFICIAL)


def test_a_call_where_none_is_right_fails_in_training_and_is_not_judged_officially() -> None:
    turns = [[call("pwd")], [call("pwd")], [call("ls")], [call("pwd")]]
    assert passed(play(TRAINING, turns)) == [True, False, True, True]
    assert passed(play(OFFICIAL, turns)) == [True] * 4
    assert [verdict.judged for verdict in play(OFFICIAL, turns).outcome().verdicts][1] is False
    assert build(OFFICIAL.reward.name)(play(OFFICIAL, turns).outcome()) == 1


def test_later_turns_count_after_a_failed_one_and_turns_not_reached_count_nothing() -> None:
    failed_first = play(TRAINING, [[], [], [call("ls")], [call("pwd")]])
    assert passed(failed_first) == [False, True, True, True]
    assert build("progress")(failed_first.outcome()) == 0.75
    cut = play(TRAINING, [[call("pwd")], []])
    cut.abandon()
    assert build("progress")(cut.outcome()) == 0.5


@pytest.mark.parametrize("config", [TRAINING, OFFICIAL], ids=["training", "official"])
def test_a_withheld_function_does_not_exist_before_its_turn(config: Config) -> None:
    session = Session(TASK, config.simulation, config.reward)
    assert "ls" not in {tool["function"]["name"] for tool in session.tools}
    assert "there is no function 'ls'" in session.advance(LS).observations[0]
    assert session.advance("Done.").restored == ()
    (tool,) = session.advance("I cannot.").restored
    assert tool["function"]["name"] == "ls"
    assert "current_directory_content" in session.advance(LS).observations[0]


@pytest.mark.parametrize(
    ("key", "value"),
    [("at_limit", "stop"), ("types", "loose"), ("protocol", "xml"), ("hints", "all")],
)
def test_an_unknown_choice_is_named_with_those_there_are(key: str, value: str) -> None:
    data = TRAINING.to_dict()
    data["simulation"][key] = value
    with pytest.raises(ConfigError, match=rf"simulation\.{key} = '{value}'.*set it to one of"):
        validate(from_mapping(data))
