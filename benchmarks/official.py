"""BFCL's own multi-turn checker, called as it is, on instances that are fresh for every check.

The official simulators keep state in their modules and share it between the policy's instance and the ground
truth's. What an earlier check left behind is undone before each check; what leaks within one check is theirs.
`LEAKS` names each such leak with a repair, so that a disagreement can be traced to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from unittest.mock import patch

from rods.simulation.isolation import copy_json
from rods.tasks.bfcl_package import read_records
from rods.tasks.model import Call, TaskType

_ROOT = "bfcl_eval.eval_checker.multi_turn_eval"
_TABLES = ("CREDIT_CARD_EXTENSION", "BOOKING_RECORD_EXTENSION")
_KINDS = {"empty_turn_model_response": "empty", "execution_response_mismatch": "response"}

Steps = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Failure:
    """The first turn that a checker fails.

    Attributes:
        turn: its index; the number of turns when the episode was ended by force.
        kind: empty | state | response | terminated.
    """

    turn: int
    kind: str


def read_entries() -> dict[str, dict[str, Any]]:
    """The 800 entries by id, each with its `ground_truth`."""
    entries = {}
    for kind in TaskType:
        file = f"BFCL_v4_multi_turn_{kind.value}.json"
        for entry, answer in zip(read_records(file), read_records(f"possible_answer/{file}"), strict=True):
            entries[entry["id"]] = {**entry, "ground_truth": answer["ground_truth"]}
    return entries


def as_python(call: Call) -> str:
    """The call as the official checker wants it, all arguments by keyword."""
    return f"{call.name}({', '.join(f'{name}={value!r}' for name, value in call.arguments.items())})"


class OfficialChecker:
    """BFCL's checker with the state that it leaves behind undone before every check."""

    def __init__(self) -> None:
        self._checker = import_module(f"{_ROOT}.multi_turn_checker")
        self._utils = import_module(f"{_ROOT}.multi_turn_utils")
        source = f"{_ROOT}.func_source_code"
        self._posting = import_module(f"{source}.posting_api").TwitterAPI
        self._travel = import_module(f"{source}.travel_booking").TravelAPI
        self._extensions = import_module(f"{source}.long_context")
        self._pristine = {name: copy_json(getattr(self._extensions, name)) for name in _TABLES}
        self._own = frozenset(vars(self._utils))

    def check(self, entry: Mapping[str, Any], turns: Sequence[Steps], repaired: str = "") -> Failure | None:
        """The first turn that fails, None when all pass.

        Args:
            entry: with its ground truth.
            turns: per turn its steps, per step its calls as Python text. Turns may be missing at the end, as
                after a forced end.
            repaired: name of the leak that is repaired for this check; "" for none.
        """
        if len(turns) != len(entry["ground_truth"]):
            return Failure(len(entry["ground_truth"]), "terminated")
        self.forget()
        with ExitStack() as stack:
            if repaired:
                stack.enter_context(LEAKS[repaired](self))
            verdict = self._checker.multi_turn_checker(
                [list(map(list, steps)) for steps in turns], entry["ground_truth"], entry, "", "parity"
            )
        return None if verdict["valid"] else _first_failure(verdict)

    def execute(self, entry: Mapping[str, Any], calls: Sequence[str]) -> list[str]:
        """Results of further calls on the entry's instances; `forget` makes the next ones fresh."""
        results, _ = self._utils.execute_multi_turn_func_call(
            func_call_list=list(calls),
            initial_config=entry["initial_config"],
            involved_classes=entry["involved_classes"],
            model_name="parity",
            test_entry_id=entry["id"],
            long_context="long_context" in entry["id"],
        )
        return list(results)

    def forget(self) -> None:
        """Undo what the official simulators leave behind in their modules."""
        self._posting.post_tweet.__defaults__ = ([], [])
        for name, pristine in self._pristine.items():
            table = getattr(self._extensions, name)
            if table != pristine:
                table.clear()
                table.update(copy_json(pristine))
        for name in vars(self._utils).keys() - self._own:
            delattr(self._utils, name)

    @contextmanager
    def _cards_apart(self) -> Iterator[None]:
        load = self._travel._load_scenario

        def loaded(instance: Any, scenario: Any, long_context: bool = False) -> None:
            load(instance, scenario, long_context=long_context)
            instance.credit_card_list = copy_json(instance.credit_card_list)
            instance.booking_record = copy_json(instance.booking_record)

        with patch.object(self._travel, "_load_scenario", loaded):
            yield

    @contextmanager
    def _defaults_apart(self) -> Iterator[None]:
        post = self._posting.post_tweet

        def posted(instance: Any, content: str, tags: Any = None, mentions: Any = None) -> Any:
            shared = vars(instance).setdefault("_shared_defaults", ([], []))
            tags = shared[0] if tags is None else tags
            return post(instance, content, tags, shared[1] if mentions is None else mentions)

        with patch.object(self._posting, "post_tweet", posted):
            yield

    @contextmanager
    def _strings_kept(self) -> Iterator[None]:
        def qualified(text: str, instances: Mapping[str, str]) -> str:
            name = text.partition("(")[0].strip()
            return f"{instances[name]}.{text}" if name in instances else text

        with patch.object(self._utils, "_process_method_calls", qualified):
            yield


LEAKS: Mapping[str, Callable[[OfficialChecker], Any]] = {
    "long_context credit cards and bookings are one module dictionary": OfficialChecker._cards_apart,
    "post_tweet's default lists are shared by all instances": OfficialChecker._defaults_apart,
    "names followed by a bracket are rewritten inside strings": OfficialChecker._strings_kept,
}
"""What the official checker gets wrong by itself → a context in which it does not."""


def _first_failure(verdict: Mapping[str, Any]) -> Failure:
    kind = verdict["error_type"].removeprefix("multi_turn:")
    if kind == "instance_state_mismatch":
        return Failure(len(verdict["execution_result"]) - 1, "state")
    turn = re.search(r"turn (\d+)", verdict["error_message"])
    assert turn is not None
    return Failure(int(turn[1]), _KINDS[kind])
