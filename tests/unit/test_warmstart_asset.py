"""The shipped tiny policy is what its card says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from rods.model_path import resolve
from rods.warmstart.evaluation import evaluate

TINY = Path(resolve("shipped/tiny"))
FOUR_MEGABYTES = 4_000_000


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
    log = json.loads((TINY / "training_log.json").read_text())
    assert model.num_parameters() == log["parameters"] == 918_912
    assert model.config.vocab_size == log["vocabulary"] == 1024
    assert model.config.max_position_embeddings == 2048
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())


def test_its_card_states_the_figures_of_its_log() -> None:
    evaluation = json.loads((TINY / "training_log.json").read_text())["evaluation"]
    card = (TINY / "README.md").read_text()
    assert (
        f"| **all** | **{evaluation['sampled']['reward']:.3f}** | **{evaluation['greedy']['reward']:.3f}** |"
        in card
    )
    assert set(evaluation["zones"]) == {"hard", "boundary", "mastered"}


@pytest.mark.slow
def test_it_plays_about_as_well_as_its_card_says() -> None:
    torch.set_num_threads(1)
    stated = json.loads((TINY / "training_log.json").read_text())["evaluation"]
    found = evaluate(TINY, per_kind=4, plays=1, seed=11)
    # 48 other tasks: four standard errors of about 0.06.
    assert found.sampled.reward == pytest.approx(stated["sampled"]["reward"], abs=0.24)
    assert found.greedy.reward > found.sampled.reward
    easy = [found.greedy.by_kind[kind] for kind in ("view", "create", "navigate")]
    assert sum(easy) / 3 > 0.8
