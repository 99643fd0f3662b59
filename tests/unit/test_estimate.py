"""`rods estimate`: known parameter counts, what ZeRO divides, and what does not fit."""

from __future__ import annotations

import dataclasses
import json

import pytest
from typer.testing import CliRunner

from rods.cli import app
from rods.config import Config, ModelConfig, TrainingConfig
from rods.config.compose import compose
from rods.estimate import command, memory
from rods.estimate.duration import Episodes
from rods.estimate.duration import estimate as time_of
from rods.estimate.hardware import UnknownDeviceError, device
from rods.estimate.memory import Load
from rods.estimate.shape import KNOWN, UnknownShapeError, from_config, of_model

PUBLISHED = {  # billions, from the models' cards
    "Qwen3-4B": 4.02,
    "Qwen3-8B": 8.19,
    "Qwen3-32B": 32.8,
    "Qwen2.5-7B": 7.62,
    "Llama-3.1-8B": 8.03,
    "SmolLM2-135M": 0.1345,
}


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_known_shapes_have_the_published_number_of_parameters(name):
    assert KNOWN[name].parameters / 1e9 == pytest.approx(PUBLISHED[name], rel=2e-3)


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_a_shape_counts_what_transformers_makes(family):
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(
        family,
        vocab_size=97,
        hidden_size=48,
        intermediate_size=80,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=12,
        tie_word_embeddings=family == "qwen3",
    )
    model = AutoModelForCausalLM.from_config(config)
    shape = from_config(config.to_dict(), "here")
    assert shape.parameters == sum(parameter.numel() for parameter in model.parameters())


def test_the_shipped_policy_is_read_from_its_files():
    assert of_model("shipped/tiny").parameters == 984_448


def test_a_model_without_files_or_numbers_is_refused_by_name():
    with pytest.raises(UnknownShapeError, match=r"someone/else-1B.*Qwen3-4B"):
        of_model("someone/else-1B")


def test_a_mixture_of_experts_is_refused():
    with pytest.raises(UnknownShapeError, match="qwen3_moe"):
        from_config({"model_type": "qwen3_moe"}, "here")


def memory_at(stage, ranks=8, kl=0.01, dtype="bfloat16", checkpointing=True):
    training = TrainingConfig(zero_stage=stage, kl_coefficient=kl)
    config = dataclasses.replace(Config(), training=training, model=ModelConfig(dtype=dtype))
    return memory.estimate(KNOWN["Qwen3-4B"], config, Load(ranks, 32768, 8192, checkpointing))


def test_each_zero_stage_divides_one_thing_more():
    plain, one, two, three = (memory_at(stage) for stage in range(4))
    assert one.optimizer == plain.optimizer / 8
    assert (one.gradients, one.weights) == (plain.gradients, plain.weights)
    assert (two.gradients, two.weights) == (plain.gradients / 8, plain.weights)
    assert (three.gradients, three.weights) == (plain.gradients / 8, plain.weights / 8)
    assert three.reference == plain.reference


def test_states_take_sixteen_bytes_a_parameter_in_either_precision():
    for dtype in ("bfloat16", "float32"):
        found = memory_at(0, dtype=dtype)
        states = found.weights + found.gradients + found.optimizer
        assert states == 16 * KNOWN["Qwen3-4B"].parameters


def test_no_kl_term_no_reference():
    assert memory_at(3, kl=0.0).reference == 0


def test_checkpointing_keeps_far_less():
    assert memory_at(3).activations < memory_at(3, checkpointing=False).activations / 8


def test_the_papers_run_fits_eight_a100_and_not_two():
    config = compose(["+experiment=rods_qwen4b"])
    assert command.estimate(config, "", None, None).fits
    few = compose(["+experiment=rods_qwen4b", "cluster.train.gpus_per_node=2", "training.zero_stage=1"])
    assert not command.estimate(few, "a100-40g", None, None).fits


def test_longer_episodes_take_longer_in_every_phase():
    config = compose(["+experiment=rods_qwen4b"])
    short, long = (
        time_of(KNOWN["Qwen3-4B"], config, device("a100"), 8, Episodes(tokens, tokens // 3), 400)
        for tokens in (3000, 12000)
    )
    for phase in ("decoding", "prefill", "update", "hours"):
        assert getattr(long, phase) > 4 * getattr(short, phase) * 0.99
    assert long.waves > short.waves


def test_a_gpu_without_numbers_is_refused():
    with pytest.raises(UnknownDeviceError, match=r"tpu.*h200"):
        device("tpu")


def test_the_command_prints_both_ways_and_tells_by_its_status():
    run = CliRunner().invoke
    table = run(app, ["estimate", "+experiment=rods_qwen4b"])
    assert table.exit_code == 0
    assert "fits in 80 GiB" in table.output
    data = run(app, ["estimate", "+experiment=rods_qwen4b", "--gpu", "a100-40g", "--json"])
    assert data.exit_code == 1
    assert json.loads(data.output)["fits"] is False
    tiny = run(app, ["estimate", "+experiment=rods_tiny", "--json"])
    assert tiny.exit_code == 0
    assert json.loads(tiny.output)["time"] is None


def test_an_ablation_counts_whichever_way_round_it_is_typed():
    overrides = ["+ablation=random_seeds", "+experiment=rods_tiny"]
    assert compose(overrides).boundary.selection == "random"
    assert compose(overrides[::-1]) == compose(overrides)


def test_without_an_experiment_it_says_which_model_it_is_about():
    bare = CliRunner().invoke(app, ["estimate"])
    assert "no experiment was named" in bare.stderr
    assert "shipped/tiny" in bare.stdout
    unsure = CliRunner().invoke(app, ["estimate", "rods_qwen4b"])
    assert unsure.exit_code != 0
    assert "did you mean +experiment=rods_qwen4b?" in str(unsure.exception) + unsure.output
