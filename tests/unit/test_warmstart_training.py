"""The supervised recipe: its optimizer, its loss, its schedule, and a toy run of the whole."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from rods.tasks.scripted import KINDS
from rods.warmstart import command
from rods.warmstart import model as tiny
from rods.warmstart.batches import Batch, Row, batches, copy_drills
from rods.warmstart.evaluation import Evaluation, evaluate
from rods.warmstart.muon import Muon, orthogonalise
from rods.warmstart.recipe import RecipeError, curriculum, run
from rods.warmstart.supervised import Progress, rate_scale, token_losses, train
from rods.warmstart.tokenizer import fit


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.parametrize("shape", [(24, 64), (64, 24), (32, 32)])
def test_orthogonalising_brings_singular_values_near_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    matrix = torch.randn(shape)
    result = orthogonalise(matrix)
    assert result.shape == matrix.shape
    values = torch.linalg.svdvals(result)
    assert values.max() < 1.25
    assert values.median() > 0.6


@pytest.mark.parametrize("shape", [(16, 48), (48, 16)])
def test_muon_agrees_with_torchs_up_to_its_bfloat16(shape: tuple[int, int]) -> None:
    torch.manual_seed(1)
    ours = torch.nn.Parameter(torch.randn(shape))
    theirs = torch.nn.Parameter(ours.detach().clone())
    pair = (
        (ours, Muon([ours], lr=0.02, weight_decay=0.1)),
        (theirs, torch.optim.Muon([theirs], lr=0.02, weight_decay=0.1, adjust_lr_fn="original")),
    )
    start = ours.detach().clone()
    for step in range(5):
        gradient = torch.randn(shape, generator=torch.Generator().manual_seed(step))
        for parameter, optimizer in pair:
            parameter.grad = gradient.clone()
            optimizer.step()
    assert (ours - theirs).abs().max() < 0.01 * (ours - start).abs().max() + 0.002


def test_muon_leaves_parameters_without_gradient_alone() -> None:
    parameter = torch.nn.Parameter(torch.ones(2, 2))
    Muon([parameter], lr=0.1, weight_decay=0.5).step()
    assert torch.equal(parameter.detach(), torch.ones(2, 2))


def test_rates_warm_up_stay_and_decay() -> None:
    assert rate_scale(0, 0.0) == pytest.approx(0.01)
    assert rate_scale(99, 0.1) == rate_scale(5000, 0.7) == 1.0
    assert rate_scale(5000, 0.85) == pytest.approx(0.5)
    assert rate_scale(5000, 1.0) == pytest.approx(0.05)


def test_losses_ignore_padding_and_silent_tokens() -> None:
    torch.manual_seed(0)
    model = tiny.new(64, 2, 0).eval()
    for parameter in model.parameters():
        parameter.data.add_(0.05 * torch.randn_like(parameter))
    rows = [[5, 9, 33, 12, 7, 40], [8, 21, 3]]
    ids, weights = torch.zeros(2, 6, dtype=torch.long), torch.zeros(2, 6)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row)
        weights[index, : len(row)] = 1.0
    weights[0, 2] = 0.0
    losses, kept = token_losses(model, Batch(ids, weights))
    expected = []
    for index, row in enumerate(rows):
        logits = model(input_ids=torch.tensor([row])).logits[0, :-1].detach()
        logprobs = torch.log_softmax(logits, -1)
        expected += [
            -float(logprobs[place - 1, row[place]])
            for place in range(1, len(row))
            if weights[index, place] > 0
        ]
    assert kept.shape == (6,)
    assert losses.detach().tolist() == pytest.approx(expected, abs=1e-5)


def test_a_new_model_starts_as_the_identity_and_has_the_shipped_shape() -> None:
    torch.manual_seed(0)
    model = tiny.new(1536, 2, 0)
    assert model.num_parameters() == 984_448
    ids = torch.tensor([[5, 6, 7]])
    hidden = model.model(input_ids=ids).last_hidden_state
    plain = model.model.norm(model.model.embed_tokens(ids))
    assert torch.allclose(hidden, plain, atol=1e-6)


def test_training_lowers_the_loss_and_is_reproducible() -> None:
    def trained() -> tuple[list[float], dict[str, torch.Tensor]]:
        torch.manual_seed(0)
        rng = random.Random(0)
        model = tiny.new(32, 2, 0)
        stream = copy_drills(32, rng)
        progress: list[Progress] = []
        train(model, lambda share: stream, 6_000, rng, progress.append, report_every=5)
        assert progress[-1].tokens >= 6_000
        return [item.loss for item in progress], model.state_dict()

    losses, weights = trained()
    assert losses[-1] < losses[0]
    again_losses, again_weights = trained()
    assert losses == again_losses
    assert all(torch.equal(weights[name], again_weights[name]) for name in weights)


def test_training_begins_with_drills_among_single_requests_and_ends_with_pairs() -> None:
    tokenizer = fit(0, vocabulary=512, episodes=60)
    rows = curriculum(tokenizer, random.Random(0))
    opening = tokenizer.encode("<|im_start|>system").ids[0]
    done = str(tokenizer.encode("Done.<|im_end|>").ids)[1:-1]

    def read(share: float) -> tuple[bool, set[int]]:
        """Whether there are drills; how many requests the episodes have."""
        found = list(islice(rows(share), 300))
        told = [row for row in found if row.ids[0] == opening]
        return len(told) < len(found), {str(row.ids).count(done) for row in told}

    def least(share: float) -> float:
        """The smallest weight of a token that counts."""
        return min(weight for row in islice(rows(share), 100) for weight in row.weights if weight)

    assert read(0.1) == (True, {1})
    assert read(0.5) == (False, {1})
    assert read(0.97) == (False, {1, 2})
    assert least(0.1) > least(0.5) == least(0.97) > 0


def test_the_curriculum_moves_on_with_the_share_of_the_budget() -> None:
    shares: list[float] = []

    def rows(share: float) -> Any:
        shares.append(share)
        return iter([Row((1,) * 10, (1.0,) * 10)] * 3000)

    torch.manual_seed(0)
    train(tiny.new(32, 2, 0), rows, 20_000, random.Random(0), lambda progress: None)
    assert shares[0] == 0.0
    assert shares == sorted(shares)
    assert 0.0 < shares[1] < 1.0
    assert next(batches(lambda: rows(0.0), 64, random.Random(0))).ids.shape == (6, 10)


@pytest.mark.parametrize(("tokens", "threads"), [(-1, 1), (0, 0)])
def test_impossible_budgets_are_refused(tmp_path: Path, tokens: int, threads: int) -> None:
    with pytest.raises(RecipeError, match=f"found {tokens} and {threads}"):
        run(tmp_path / "x", tokens, 0, threads, lambda record: None)
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_the_command_makes_a_checkpoint_that_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def quick(folder: Path) -> Evaluation:
        return evaluate(folder, per_kind=1, plays=1)

    monkeypatch.setattr(command, "evaluate", quick)
    command.warmstart(tmp_path, tokens=6000, seed=3)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert model.num_parameters() == 984_448
    assert load_file(tmp_path / "model.safetensors")["model.norm.weight"].dtype == torch.float16
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.eos_token == "<|im_end|>"
    assert model.config.eos_token_id == tokenizer.eos_token_id
    log = json.loads((tmp_path / "training_log.json").read_text())
    assert log["records"][-1]["tokens"] >= 6000
    assert (log["seed"], log["parameters"], log["evaluation"]["tasks"]) == (3, 984_448, 15)
    card = (tmp_path / "README.md").read_text()
    assert "6,000 tokens" in card
    assert all(f"\n| {kind} | " in card for kind in KINDS)
    assert "temperature 1" in capsys.readouterr().out
