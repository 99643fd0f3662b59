"""`rods evaluate` from end to end with a policy of random weights: what it takes, what it keeps, what it refuses."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import random_policy
import torch
from evaluation_examples import checkpointed, made_run
from safetensors.torch import load_file
from typer.testing import CliRunner

from rods.cli import app
from rods.config import ModelConfig
from rods.evaluation import policies
from rods.evaluation.folders import EvaluationError, alone
from rods.evaluation.policies import PolicyError
from rods.exchange import marker
from rods.exchange.ended import remark
from rods.roles.evaluate import Audience, Order, evaluate, prepare
from rods.roles.outcome import Outcome, Status, record

SILENT = Audience(lambda done, count: None, lambda sentence: None)
REFUSING = Audience(lambda done, count: pytest.fail("played"), lambda sentence: pytest.fail("begun"))
OVERRIDES = ("rollout.engine=hf", "rollout.max_message_tokens=8")


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_policy.save(tmp_path_factory.mktemp("start") / "model")


@pytest.mark.parametrize("zero_stage", [0, 2])
def test_a_checkpoint_becomes_a_model_with_its_weights(
    tmp_path: Path, start: Path, zero_stage: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path, start)
    trained = random_policy.save(tmp_path / "trained", seed=1)
    folder = checkpointed(run, trained, zero_stage)
    capsys.readouterr()
    for named in (run.path, folder):
        chosen = policies.find(str(named))
        assert (chosen.folder, chosen.step, chosen.run) == (folder, 7, run.path)
    model = policies.as_model(chosen, ModelConfig(path=str(start)), tmp_path / "made")
    assert capsys.readouterr().out == ""  # where the result goes as JSON
    wanted, found = load_file(trained / "model.safetensors"), load_file(model / "model.safetensors")
    assert wanted.keys() == found.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name
    assert (model / "tokenizer.json").is_file()


def test_an_exported_policy_comes_before_checkpoints(tmp_path: Path, start: Path) -> None:
    run = made_run(tmp_path, start)
    random_policy.save(run.path / "policy")
    chosen = policies.find(str(run.path))
    assert (chosen.folder, chosen.step, chosen.run) == (run.path / "policy", None, run.path)


def test_a_run_without_a_policy_and_a_torn_checkpoint_are_refused(tmp_path: Path, start: Path) -> None:
    run = made_run(tmp_path, start)
    with pytest.raises(PolicyError, match="found neither; wait for"):
        policies.find(str(run.path))
    record(run, run.next_attempt(), Outcome(Status.failed, "the role train exited with 1"))
    with pytest.raises(PolicyError, match="found neither; the run failed: the role train exited with 1"):
        policies.find(str(run.path))
    folder = checkpointed(run, start, 0)
    (folder / marker.MARKER).unlink()
    with pytest.raises(PolicyError, match="cut short"):
        policies.find(str(folder))


def test_an_evaluation_is_kept_in_its_run_and_repeated_for_free(tmp_path: Path, start: Path) -> None:
    run = made_run(tmp_path, start)
    random_policy.save(run.path / "policy")
    told: list[tuple[int, int]] = []
    said: list[str] = []
    order = Order(str(run.path), "scripted", "heldout")
    folder, found = evaluate(
        prepare(order), Audience(lambda done, count: told.append((done, count)), said.append)
    )
    assert folder.parent == run.path / "evaluations"
    assert (told[0], told[-1]) == ((0, 3), (3, 3))
    assert said[0] == "starting the engine hf"
    assert said[1].startswith("ready after ")
    assert found["overall"]["count"] == len((folder / "trajectories.jsonl").read_text().splitlines()) == 3
    assert found["engine"] == "hf"
    assert {"torch", "transformers", "bfcl-eval", "python"} <= set(found["versions"])
    assert evaluate(prepare(order), REFUSING) == (folder, found)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"status": "failed", "sentence": "out of memory"}', "{run} failed: out of memory"),
        ("{", "how {run} ended is not known: "),
        ('{"status": "finished"}', ""),
    ],
)
def test_how_a_run_ended_keeps_nobody_from_its_policy(
    tmp_path: Path, start: Path, text: str, told: str
) -> None:
    run = made_run(tmp_path, start)
    number = run.next_attempt()
    run.attempt_dir(number).mkdir(parents=True, exist_ok=True)
    (run.attempt_dir(number) / "outcome.json").write_text(text)
    assert remark(run).startswith(told.format(run=run.path.name))
    assert bool(remark(run)) == bool(told)


@pytest.mark.parametrize("text", ["[]", "null", "{}", '{"policy": []}'])
def test_a_damaged_note_of_what_a_folder_is_for_is_named(tmp_path: Path, start: Path, text: str) -> None:
    (tmp_path / "evaluation.json").write_text(text)
    few = (*OVERRIDES, "model.max_length=512", "tasks.heldout_count=1")
    with pytest.raises(EvaluationError, match=r"evaluation\.json: expected"):
        evaluate(prepare(Order(str(start), "scripted", "heldout", tmp_path, few)), SILENT)


def test_another_policy_or_other_settings_do_not_continue_a_folder(tmp_path: Path, start: Path) -> None:
    out = tmp_path / "out"
    few = (*OVERRIDES, "model.max_length=512", "tasks.heldout_count=1")
    evaluate(prepare(Order(str(start), "scripted", "heldout", out, few)), SILENT)
    other = random_policy.save(tmp_path / "other", seed=1)
    for order in (
        Order(str(other), "scripted", "heldout", out, few),
        Order(str(start), "scripted", "heldout", out, (*few, "rollout.temperature=1.0")),
    ):
        with pytest.raises(EvaluationError, match=r"another (policy|settings)"):
            evaluate(prepare(order), SILENT)


def test_two_processes_do_not_play_one_evaluation(tmp_path: Path, start: Path) -> None:
    out = tmp_path / "out"
    few = (*OVERRIDES, "model.max_length=512", "tasks.heldout_count=1")
    exam = prepare(Order(str(start), "scripted", "heldout", out, few))
    held = "from rods.evaluation.folders import alone; from pathlib import Path\n"
    held += f"with alone(Path({str(out)!r}), print): "
    with subprocess.Popen(
        [sys.executable, "-c", held + "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(
            EvaluationError, match=f"process {other.pid} on {socket.gethostname()} plays this"
        ):
            evaluate(exam, REFUSING)
        assert not (out / "trajectories.jsonl").exists()
        other.kill()
    folder, found = evaluate(exam, SILENT)
    with alone(folder, pytest.fail):  # a finished one is read, whoever holds it
        assert evaluate(exam, REFUSING) == (folder, found)


def test_the_command_prints_a_table_json_and_a_comparison(tmp_path: Path, start: Path) -> None:
    out = tmp_path / "out"
    words = ["evaluate", str(start), *OVERRIDES, "model.max_length=512", "tasks.heldout_count=2"]
    words += ["--suite", "scripted", "--out", str(out)]
    shown = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "overall" in shown.stdout
    assert "0/2" in shown.stdout
    printed = CliRunner().invoke(app, [*words, "--json", "--against", str(out)], catch_exceptions=False)
    assert json.loads(printed.stdout)["against"]["difference"] == 0
