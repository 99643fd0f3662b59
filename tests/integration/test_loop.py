"""The whole loop through launch.py: two processes, the real simulators, the shipped policy, the hf engine.

Three runs: one straight, one with the same seed, one interrupted and resumed. Their journals must agree.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import metrics_page
import pytest
from transformers import AutoModelForCausalLM
from wandb_files import identities, logged, records

from analysis import tables
from analysis.load import RunData, load
from analysis.wandb_report import PANELS
from rods.exchange.metrics import read_metrics
from rods.exchange.rundir import RunDir
from rods.tracking import numbers

ROOT = Path(__file__).resolve().parents[2]
EPOCHS, STEPS_PER_EPOCH = 3, 3
OVERRIDES = (
    "+experiment=rods_tiny",
    "rollout.engine=hf",
    f"training.epochs={EPOCHS}",
    "training.group_size=4",
    "training.tasks_per_step=6",
    "training.threads=1",
    "tasks.train_count=18",
    "tasks.heldout_count=6",
    "boundary.exclusion_steps=2",
    "buffer.capacity=4",
    "seed=3",
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@dataclass(frozen=True)
class Run:
    """A run that launch.py made: what it printed, and its directory."""

    output: str
    path: Path
    data: RunData


def command(runs_dir, *more):
    return [sys.executable, "launch.py", *OVERRIDES, f"launch.runs_dir={runs_dir}", *more]


def launch(runs_dir, *more):
    done = subprocess.run(
        command(runs_dir, *more),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        umask=0o022,  # a login shell's, which lets everybody read
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = runs_dir.iterdir()
    return Run(done.stdout, path, load(path))


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    return launch(tmp_path_factory.mktemp("straight"), "tracking.wandb=offline")


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """Interrupted by Ctrl-C in the second epoch, then continued to the end."""
    runs_dir = tmp_path_factory.mktemp("resumed")
    first = subprocess.Popen(
        command(runs_dir, "tracking.wandb=offline"),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    await_step(runs_dir, STEPS_PER_EPOCH + 1, first)
    first.send_signal(signal.SIGINT)
    output, _ = first.communicate(timeout=120)
    assert first.returncode == 130, output
    (path,) = runs_dir.iterdir()
    assert not load(path).finished
    return launch(runs_dir, "tracking.wandb=offline", f"launch.resume={path}")


def await_step(runs_dir, step, process):
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        for path in runs_dir.glob("*/metrics/train.jsonl"):
            if any(record.get("step", 0) >= step for record in read_metrics(path)):
                return
        time.sleep(0.1)
    pytest.fail(f"no step {step} within 240 s; launch.py ended with {process.poll()}")


def test_the_run_ends_by_itself_and_says_where_everything_is(straight):
    assert straight.data.finished
    for line in (str(straight.path), "report/index.html", "report/reward.png"):
        assert line in straight.output
    assert (straight.path / "report" / "index.html").is_file()
    assert (straight.path / "report" / "reward.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_in_the_run_is_open_to_others_whoever_wrote_it(straight):
    """Ours, DeepSpeed's, W&B's, submitit's, matplotlib's: all follow the run's folder (0750)."""
    found = [path for path in (straight.path, *straight.path.rglob("*")) if not path.is_symlink()]
    assert len(found) > 300
    assert [path for path in found if path.is_file() and path.stat().st_mode & 0o137] == []
    assert [path for path in found if path.is_dir() and path.stat().st_mode & 0o027] == []


def test_boundary_tasks_become_seeds_with_the_mean_that_was_observed(straight):
    emitted = straight.data.named("seed_emitted")
    observed = {(group.step, group.task_id): group for group in straight.data.groups}
    assert emitted
    for seed in emitted:
        group = observed[seed["step"], seed["task_id"]]
        assert seed["mean"] == pytest.approx(group.mean)
        assert group.zone == "boundary"


def test_every_seed_is_answered_before_its_epoch_ends(straight):
    events = straight.data.events
    open_keys = set()
    for event in events:
        if event["name"] == "seed_emitted":
            open_keys.add(event["key"])
        elif event["name"] == "seed_closed":
            open_keys.remove(event["key"])
        elif event["name"] == "epoch_finished":
            assert not open_keys


def test_variants_enter_in_the_epoch_after_their_arrival_and_are_trained_on(straight):
    arrived = {event["task_id"]: event["epoch"] for event in straight.data.named("variant_arrived")}
    injected = straight.data.named("variant_injected")
    assert injected
    assert all(event["epoch"] > arrived[event["task_id"]] for event in injected)
    chains = tables.chains(straight.data)
    assert chains
    assert all(chain.first_mean is not None for chain in chains)


def test_injection_keeps_to_its_share_of_the_active_pool(straight):
    share = straight.data.config["buffer"]["injection_fraction"]
    rows = tables.pool_by_epoch(straight.data)
    for epoch in range(2, EPOCHS + 1):
        count = sum(event["epoch"] == epoch for event in straight.data.named("variant_injected"))
        row = rows[epoch - 1]
        assert count <= share * (row.seeds + row.variants - count)


def test_some_variants_are_retired_and_no_seed_ever_is(straight):
    retired = straight.data.named("task_retired")
    variants = {event["task_id"] for event in straight.data.named("variant_injected")}
    assert retired
    assert all(event["task_id"] in variants for event in retired)
    assert all(row.seeds == 18 for row in tables.pool_by_epoch(straight.data))


def test_held_out_tasks_are_evaluated_sampled_and_greedy_at_both_ends(straight):
    points = [(point.epoch, point.mode) for point in tables.evaluations(straight.data)]
    assert points == [(0, "sampled"), (0, "greedy"), (EPOCHS, "sampled"), (EPOCHS, "greedy")]


def test_the_page_shows_the_numbers_of_the_journal(straight):
    page = (straight.path / "report" / "index.html").read_text()
    funnel = tables.funnel(straight.data)
    assert f"<b>{funnel.seeds_emitted}</b><span>seeds emitted</span>" in page
    assert straight.data.digest[:16] in page
    assert "no language model" in page
    assert "http://" not in page
    assert "https://" not in page


def test_engine_and_learner_agreed_after_every_sync(straight):
    steps = [record for record in read_metrics(straight.path / "metrics" / "train.jsonl") if "loss" in record]
    assert len(steps) == max(group.step for group in straight.data.groups)
    assert all(record["engine"] == "hf" for record in steps)
    assert all(record["logprob_gap"] < 1e-4 for record in steps)


def test_the_metrics_are_those_of_their_page(straight):
    lines = [*read_metrics(straight.path / "metrics" / "train.jsonl")]
    steps, update = metrics_page.keys("A step"), metrics_page.keys("Its update")
    some = metrics_page.keys("Only in some runs")
    by_event = {
        name: [each for each in lines if each.get("event") == name] for name in (None, "epoch", "evaluation")
    }
    assert all(by_event.values())
    page = metrics_page.missing_and_unknown
    assert page(by_event[None], steps | update, some) == (set(), set())
    assert page(by_event["evaluation"], metrics_page.keys("An evaluation"), set()) == (set(), set())
    assert page(by_event["epoch"], {"event", "step", "epoch", "zones"}, steps) == (set(), set())
    synthesis = read_metrics(straight.path / "metrics" / "synthesis.jsonl")
    assert page(synthesis, metrics_page.keys("Synthesis"), set()) == (set(), set())


def test_wandb_has_every_number_of_a_step(straight):
    lines = read_metrics(straight.path / "metrics" / "train.jsonl")
    line = next(each for each in lines if "event" not in each)
    found = records(straight.path / "wandb")
    copied = {key: dict(logged(found, key)).get(line["step"]) for key in numbers({"train": line})}
    assert copied == numbers({"train": line})


def test_the_trained_policy_loads_in_transformers_and_differs_from_the_start(straight):
    trained = AutoModelForCausalLM.from_pretrained(straight.path / "policy").state_dict()
    start = AutoModelForCausalLM.from_pretrained(ROOT / "rods" / "assets" / "tiny").state_dict()
    assert trained.keys() == start.keys()
    assert any((trained[name].float() - start[name].float()).abs().max() > 1e-5 for name in start)


def test_expanded_files_hold_what_arrived(straight):
    run = RunDir.open(straight.path)
    ids = [
        json.loads(line)["id"]
        for epoch in range(1, EPOCHS + 1)
        for line in run.expanded_file(epoch).read_text().splitlines()
    ]
    assert ids == [event["task_id"] for event in straight.data.named("variant_arrived")]


def test_wandb_has_both_roles_under_the_names_that_a_report_shows(straight):
    found = records(straight.path / "wandb")
    name = straight.path.name
    assert identities(found) == {(f"{name}-{role}", name, role) for role in ("train", "synthesis")}
    steps = [step for step, _ in logged(found, "train/reward_mean")]
    assert steps == sorted({group.step for group in straight.data.groups})
    assert logged(found, "seeds/nrows")
    absent = [name for _, names in PANELS for name in names if not logged(found, name)]
    assert absent == []


def test_wandb_goes_on_with_the_runs_that_it_began(resumed):
    found = records(resumed.path / "wandb")
    name = resumed.path.name
    assert identities(found) == {(f"{name}-{role}", name, role) for role in ("train", "synthesis")}
    steps = {step for step, _ in logged(found, "train/reward_mean")}
    assert steps == {group.step for group in resumed.data.groups}
    lines = read_metrics(RunDir.open(resumed.path).metrics / "synthesis.jsonl")
    told = logged(found, "synthesis/accepted")
    assert [value for _, value in told] == [line["accepted"] for line in lines]
    assert sorted({step for step, _ in told}) == [step for step, _ in told]


def test_status_from_another_shell_sees_a_finished_run(straight):
    done = subprocess.run(
        [str(Path(sys.executable).parent / "rods"), "status", str(straight.path), "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    status = json.loads(done.stdout)
    assert status["status"] == "finished"
    assert status["epoch"] == EPOCHS


def test_the_same_seed_gives_the_same_journal(straight, tmp_path):
    again = launch(tmp_path, "tracking.wandb=disabled")
    assert again.data.digest == straight.data.digest


def test_an_interrupted_and_resumed_run_did_what_the_straight_run_did(straight, resumed):
    def deeds(run):
        return [event for event in run.data.events if event["name"] != "run_started"]

    assert deeds(resumed) == deeds(straight)
    assert len(resumed.data.named("run_started")) == 2


def test_nothing_is_left_running(straight, resumed):
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        assert straight.path.name not in line
        assert resumed.path.name not in line
