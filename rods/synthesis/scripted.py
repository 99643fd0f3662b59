"""The scripted backend: rules and templates in place of a language model. It is no language model.

It answers every agent of the pipeline, so that the whole loop runs on a laptop and in tests. Seeds from the
phrasebook (`rods.tasks.scripted`) become the same operations in a fresh workspace with fresh names and
phrasings, which is the distribution that the tiny policy knows. Any other seed keeps its functions and gets
other literals and stiff template messages; much of that fails to execute and is dropped, as the pipeline
drops what a model gets wrong. Every answer is a pure function of the inputs and the seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from rods.config import SynthesisConfig
from rods.synthesis import scripted_general, scripted_phrasebook
from rods.synthesis.accounting import Accounts
from rods.synthesis.agents import AnswerT, NoPatternError

Rule = Callable[[Mapping[str, Any], random.Random], Any]


class ScriptedBackend:
    """Answers by rule; never asks a language model."""

    llm_calls = 0
    waiting = ""

    def __init__(self) -> None:
        self.accounts = Accounts()

    def provenance(self, attempt_seed: int) -> Mapping[str, Any]:
        """Rules; the same for every attempt."""
        return {"backend": "scripted"}

    async def ask(
        self, agent: str, inputs: Mapping[str, Any], output: type[AnswerT], rng_seed: int
    ) -> AnswerT:
        """The rule's answer.

        Raises:
            NoPatternError: no rule for this agent, or none that fits.
        """
        rules: Mapping[str, Rule] = scripted_general.RULES
        if scripted_phrasebook.applies(inputs["seed"].task):
            rules = {**rules, **scripted_phrasebook.RULES}
        if agent not in rules:
            raise NoPatternError(f"the scripted backend has no rule for the agent {agent!r}")
        answer = rules[agent](inputs, random.Random(rng_seed))
        assert isinstance(answer, output)
        return answer

    async def close(self) -> None:
        """Nothing to free."""


def build(config: SynthesisConfig) -> ScriptedBackend:
    """The backend called `scripted`; no setting concerns it."""
    return ScriptedBackend()
