"""A run that only evaluates: its journal, metrics and result; what stops it, and what it refuses."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
import random_policy
import yaml
from evaluation_examples import checkpointed, made_run
from omegaconf import OmegaConf

from launchers.identity import plain
from rods.config import (
    ClusterConfig,
    Config,
    ConfigError,
    EvaluationConfig,
    LaunchConfig,
    ModelConfig,
    SimulationConfig,
    SynthesisConfig,
    TrackingConfig,
)
from rods.errors import RodsError
from rods.evaluation import folders, play, policies, result
from rods.exchange import stop
from rods.exchange.atomic import CorruptFileError
from rods.exchange.lineage import history
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import RunDir
from rods.model_path import ModelNotFoundError
from rods.roles import evaluating, place
from rods.roles.train import RunWatcher

TYPED = (
    "+experiment=evaluate_only",
    "launch.mode=wait",
    "rollout.engine=hf",
    "rollout.max_message_tokens=8",
    "rollout.max_concurrent=1",
    "model.max_length=512",
    "tasks.heldout_count=3",
)


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return random_policy.save(tmp_path_factory.mktemp("start") / "model")


def made(folder: Path, policy: Path, *typed: str) -> RunDir:
    """A launched run whose one role has not begun."""
    run = RunDir.create(folder / "runs", "made", "0" * 64)
    config = Config(
        evaluation=EvaluationConfig(True, str(policy), "scripted", "heldout"),
        synthesis=SynthesisConfig(enabled=False),
        tracking=TrackingConfig(wandb="disabled"),
    )
    run.config_file.write_text(yaml.safe_dump(plain(config)))
    run.update_manifest(overrides=[*TYPED, *typed])
    run.attempt_dir(1).mkdir(parents=True)
    return run


def asked_to_stop_after_two(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attempt of `run` is asked to stop when two tasks were played."""
    beat = RunWatcher.beat

    def asked(watcher: RunWatcher, phase: str, **info: int) -> None:
        beat(watcher, phase, **info)
        if info.get("done") == 2:
            stop.request(run, 1, "for the test")

    monkeypatch.setattr(RunWatcher, "beat", asked)


def test_the_result_lies_in_the_run_and_its_journal_is_that_of_a_run_without_steps(
    tmp_path: Path, start: Path
) -> None:
    run = made(tmp_path, start)
    assert evaluating.main(str(run.path), 1) == 0
    events = history(run.journal_dir, "train")
    assert [event["name"] for event in events] == ["run_started", "evaluation_done", "run_finished"]
    folder = run.path / "evaluations" / "scripted-heldout"
    played = play.read(folder / folders.TRAJECTORIES)
    assert events[1]["scores"] == {task: each["progress"] for task, each in played.items()}
    assert (events[1]["mode"], events[1]["split"], events[1]["count"]) == ("greedy", "heldout", 3)
    (line,) = read_metrics(run.metrics / "train.jsonl")
    assert (line["event"], line["mean"], line["accuracy"]) == ("evaluation", events[1]["mean"], 0.0)
    assert (folder / "result.json").is_file()


def test_asked_to_stop_it_keeps_what_was_played_and_another_attempt_goes_on(
    tmp_path: Path, start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(tmp_path, start, "rollout.temperature=1.0")
    asked_to_stop_after_two(run, monkeypatch)
    assert evaluating.main(str(run.path), 1) == os.EX_TEMPFAIL
    file = run.path / "evaluations" / "scripted-heldout" / folders.TRAJECTORIES
    kept = file.read_bytes()
    assert len(kept.splitlines()) == 2
    assert not list(run.journal_dir.glob("*"))
    run.attempt_dir(2).mkdir(parents=True)
    assert evaluating.main(str(run.path), 2) == 0
    assert file.read_bytes().startswith(kept)
    assert history(run.journal_dir, "train")[1]["mode"] == "sampled"


def test_a_run_that_trains_on_meanwhile_is_scored_at_the_checkpoint_that_was_begun_with(
    tmp_path: Path, start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = made_run(tmp_path / "trained", start)
    first = checkpointed(trained, start, 0)
    run = made(tmp_path, trained.path)
    asked_to_stop_after_two(run, monkeypatch)
    assert evaluating.main(str(run.path), 1) == os.EX_TEMPFAIL
    checkpointed(trained, start, 0, step=9)
    assert not first.exists()
    resumed = Config(
        evaluation=EvaluationConfig(True, str(first), "scripted", "heldout"),
        launch=LaunchConfig(resume=str(run.path)),
    )
    place.check_files(resumed, TYPED)
    run.attempt_dir(2).mkdir(parents=True)
    assert evaluating.main(str(run.path), 2) == 0
    policy = result.read(run.path / "evaluations" / "scripted-heldout")["policy"]
    assert (policy["step"], policy["run"]) == (7, trained.path.name)


def test_a_checkpoint_that_was_removed_before_it_was_gathered_is_replaced_by_the_newest(
    tmp_path: Path, start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = made_run(tmp_path / "trained", start)
    checkpointed(trained, start, 0)
    run = made(tmp_path, trained.path)

    def removed(*_: object) -> Path:
        checkpointed(trained, start, 0, step=9)
        raise OSError("removed meanwhile")

    with monkeypatch.context() as patched:
        patched.setattr(policies, "as_model", removed)
        with pytest.raises(OSError, match="meanwhile"):
            evaluating.main(str(run.path), 1)
    run.attempt_dir(2).mkdir(parents=True)
    assert evaluating.main(str(run.path), 2) == 0
    assert result.read(run.path / "evaluations" / "scripted-heldout")["policy"]["step"] == 9


def test_a_damaged_note_of_the_checkpoint_is_named(tmp_path: Path, start: Path) -> None:
    run = made(tmp_path, start)
    folder = run.path / "evaluations" / "scripted-heldout"
    folder.mkdir(parents=True)
    (folder / "pinned.json").write_text('{"step": 7}')
    with pytest.raises(CorruptFileError, match=r"pinned\.json: expected the checkpoint"):
        evaluating.main(str(run.path), 1)


@pytest.mark.parametrize("typed", ["rollout=paper", "simulation.hints=envtuning", "rollout.temperature=0.7"])
def test_what_the_policy_or_the_suite_decides_is_refused(typed: str, tmp_path: Path, start: Path) -> None:
    run = made(tmp_path, start, typed)
    with pytest.raises(ConfigError, match=typed.partition("=")[0]):
        evaluating.main(str(run.path), 1)
    assert not list(run.journal_dir.glob("*"))


def test_a_policy_that_is_not_there_is_refused_before_the_launch(tmp_path: Path) -> None:
    config = Config(evaluation=EvaluationConfig(True, str(tmp_path / "nothing"), "scripted", "heldout"))
    with pytest.raises(ModelNotFoundError, match="nothing"):
        place.check_files(config, TYPED)


def test_missing_weights_are_refused_before_a_start_on_this_machine(tmp_path: Path, start: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_text("{}")
    training = Config(model=ModelConfig(path=str(bare)), synthesis=SynthesisConfig(enabled=False))
    place.check_files(training, ())  # a plan needs none
    place.check(replace(training, model=ModelConfig(path=str(start))), ())
    scoring = Config(evaluation=EvaluationConfig(True, str(bare), "scripted", "heldout"))
    for config, typed in ((training, ()), (scoring, TYPED)):
        with pytest.raises(ModelNotFoundError, match="expected weights in"):
            place.check(config, typed)


def test_models_that_a_cluster_may_have_are_missed_aloud(
    start: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm = ClusterConfig(kind="slurm")
    absent = ModelConfig(path="nobody/no-policy")
    served = SynthesisConfig(enabled=True, backend="openai", model="nobody/no-teacher")
    training = Config(cluster=slurm, model=absent, synthesis=served)
    scoring = Config(cluster=slurm, evaluation=EvaluationConfig(True, "nowhere", "scripted", "heldout"))
    there = replace(
        training, model=ModelConfig(path=str(start)), synthesis=replace(served, base_url="http://h:1")
    )
    place.warn([there, replace(training, cluster=ClusterConfig(kind="local"))])
    assert capsys.readouterr().err == ""
    place.warn([training, there, training, scoring])
    policy, teacher, scored = capsys.readouterr().err.splitlines()
    assert policy.startswith(
        "launch.py: warning: weights of the policy: nobody/no-policy: not in the Hugging"
    )
    assert policy.endswith("hf download nobody/no-policy")
    assert teacher.endswith("hf download nobody/no-teacher")
    assert scored.startswith("launch.py: warning: the policy to be scored: model.path = 'nowhere'")


@pytest.mark.parametrize(
    ("typed", "split", "named"),
    [
        ("training.ranks_per_node=2", "heldout", "training.ranks_per_node"),
        ("+ablation=binary_reward", "heldout", "ablation"),
        ("rollout.temperature=0.7", "heldout", "rollout.temperature"),
        ("rollout.max_concurrent=0", "heldout", "rollout.max_concurrent"),
        ("tasks.validation_count=0", "validation", "--split validation"),
    ],
)
def test_what_it_would_refuse_as_it_starts_is_refused_before_the_launch(
    start: Path, typed: str, split: str, named: str
) -> None:
    asked = EvaluationConfig(True, str(start), "scripted", split)
    place.check_files(Config(evaluation=asked), TYPED)
    with pytest.raises(RodsError, match=named):
        place.check_files(Config(evaluation=asked), (*TYPED, typed))


@pytest.mark.parametrize(
    "path", ["/a: b/recordings", "/é/😀", "/q'\"u\\", "/tab\t\x85", "/a=b,[c]", "/" + "long " * 40]
)
def test_paths_that_were_typed_are_read_as_they_were_frozen(tmp_path: Path, start: Path, path: str) -> None:
    run = made(tmp_path, start, "simulation.cassettes=recordings", "+model.path=there", "rollout.top_p=1.0")
    config = Config(
        evaluation=EvaluationConfig(True, str(start), "scripted", "heldout"),
        simulation=SimulationConfig(cassettes=path),
        model=ModelConfig(path="/begun/there"),
    )
    words = evaluating.order_of(run, config).overrides
    merged = OmegaConf.from_dotlist([text.lstrip("+") for text in words])
    assert (merged.simulation.cassettes, merged.model.path) == (path, "/begun/there")
    assert merged.rollout.top_p == 1.0


def test_of_another_machine_nothing_is_known_but_what_is_never_settable_is_refused() -> None:
    elsewhere = ClusterConfig(kind="slurm")
    config = Config(
        evaluation=EvaluationConfig(True, "/only/there", "scripted", "heldout"), cluster=elsewhere
    )
    place.check_files(config, TYPED)
    with pytest.raises(ConfigError, match=r"training\.epochs"):
        place.check_files(config, (*TYPED, "training.epochs=2"))
