"""The shipped tiny policy is what its card says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from rods.model_path import resolve
from rods.tasks.scripted import KINDS, TYPES
from rods.warmstart.evaluation import GROUPINGS, evaluate
from rods.warmstart.recipe import TOKENS

TINY = Path(resolve("shipped/tiny"))
FOUR_MEGABYTES = 4_000_000


def stated() -> dict[str, object]:
    log: dict[str, object] = json.loads((TINY / "training_log.json").read_text())
    return log


def test_it_is_small_and_complete() -> None:
    names = {path.name for path in TINY.iterdir()}
    assert {
        "README.md",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "training_log.json",
    } <= names
    assert sum(path.stat().st_size for path in TINY.iterdir()) <= FOUR_MEGABYTES


def test_it_loads_with_the_size_its_log_states() -> None:
    model = AutoModelForCausalLM.from_pretrained(TINY, dtype=torch.float32)
    log = stated()
    assert model.num_parameters() == log["parameters"] == 984_448
    assert model.config.vocab_size == log["vocabulary"] == 1536
    assert model.config.max_position_embeddings == 2048
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


def test_it_was_made_by_the_recipe_that_the_command_has() -> None:
    assert (stated()["tokens"], stated()["seed"]) == (TOKENS, 0)


def test_its_card_states_the_figures_of_its_log() -> None:
    evaluation = json.loads((TINY / "training_log.json").read_text())["evaluation"]
    sampled, greedy = evaluation["sampled"], evaluation["greedy"]
    card = (TINY / "README.md").read_text()
    assert f"| **all** | **{sampled['reward']:.3f}** | **{greedy['reward']:.3f}** |" in card
    assert set(sampled["tables"]) == set(greedy["tables"]) == set(GROUPINGS)
    assert set(sampled["tables"]["kind"]) == set(KINDS)
    assert set(sampled["tables"]["type"]) == {type.value for type in TYPES}


def test_it_is_a_start_worth_training_from() -> None:
    evaluation = json.loads((TINY / "training_log.json").read_text())["evaluation"]
    assert 0.3 <= evaluation["sampled"]["reward"] <= 0.6
    assert evaluation["zones"].keys() == {"hard", "boundary", "mastered"}
    assert min(evaluation["zones"].values()) >= 0.1


@pytest.mark.slow
def test_it_plays_about_as_well_as_its_card_says() -> None:
    torch.set_num_threads(1)
    evaluation = json.loads((TINY / "training_log.json").read_text())["evaluation"]
    found = evaluate(TINY, per_kind=4, plays=1, seed=11)
    # 60 other tasks: four standard errors of about 0.05.
    assert found.sampled.reward == pytest.approx(evaluation["sampled"]["reward"], abs=0.2)
    assert found.greedy.reward == pytest.approx(evaluation["greedy"]["reward"], abs=0.2)
    easy = found.greedy.tables["requests"]["1"]
    assert easy > 0.7
