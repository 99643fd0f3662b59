"""Run directories with a few journaled events, written by the house's own writers."""

import json
from dataclasses import replace

import yaml

from rods.config import Config, TasksConfig
from rods.exchange.journal import JournalWriter
from rods.exchange.lineage import continuation
from rods.exchange.rundir import RunDir


def event(name, step, epoch, **rest):
    return {"name": name, "step": step, "epoch": epoch, **rest}


def evaluated(step, epoch, mean, mode="greedy"):
    """A held-out evaluation of four tasks of type base; one of them passes where the mean allows for it."""
    rest = (4 * mean - 1) / 3
    scores = (
        {"h1": 1.0, "h2": rest, "h3": rest, "h4": rest} if 0.25 <= mean < 1 else dict.fromkeys("hijk", mean)
    )
    return evaluation(step, epoch, mode, mean, scores)


def evaluation(step, epoch, mode, mean, scores):
    """A held-out evaluation with the score of each task, all of type base."""
    accuracy = sum(score == 1 for score in scores.values()) / len(scores)
    return event(
        "evaluation_done",
        step,
        epoch,
        split="heldout",
        mode=mode,
        mean=mean,
        accuracy=accuracy,
        by_kind={"view": mean},
        by_type={"base": mean},
        accuracy_by_type={"base": accuracy},
        scores=scores,
        count=len(scores),
    )


def history(score, variant="a~1"):
    """Two epochs of one step: task a is at the boundary, its variant arrives in 1, is trained on in 2 and retired."""
    seed = {"task_id": "a", "seed_id": "a", "type": "base", "mean": 0.5, "phi": 1.0, "key": "1-a"}
    arrived = {"task_id": variant, "seed_id": "a", "type": "base", "kind": "view", "key": "1-a", "index": 0}
    return [
        event("run_started", 0, 0, fingerprint="f", seed=0),
        evaluated(0, 0, 0.25),
        event("epoch_started", 0, 1, active=2),
        event("group_observed", 1, 1, task_id="a", rewards=[0.0, 1.0]),
        event("group_observed", 1, 1, task_id="b", rewards=[1.0, 0.8]),
        event("seed_emitted", 1, 1, **seed),
        event("group_observed", 2, 1, task_id="b", rewards=[1.0, 1.0]),
        event("variant_arrived", 2, 1, content_id="x", **arrived),
        event("variant_refused", 2, 1, task_id="a~2", key="1-a", reason="duplicate_content"),
        event("seed_closed", 2, 1, key="1-a", outcome="published", reason=""),
        event("epoch_finished", 2, 1),
        event("variant_injected", 2, 2, task_id=variant),
        event("epoch_started", 2, 2, active=3),
        event("group_observed", 3, 2, task_id="a", rewards=[0.5, 0.5]),
        event("group_observed", 5, 2, task_id=variant, rewards=[0.5, 1.0]),
        event("task_retired", 5, 2, task_id=variant, reason="drift_mastered", mean=0.75),
        event("epoch_finished", 5, 2),
        evaluated(5, 2, score),
        event("run_finished", 5, 2),
    ]


def make_run(folder, events, *, experiment="tiny", ablation="", seed=1, capacity=400, rollouts=()):
    """A run directory; `rollouts` are lines of step 1."""
    run = RunDir.create(folder, "example", "0" * 64)
    config = Config(experiment=experiment, ablation=ablation, seed=seed)
    config = replace(
        config,
        buffer=replace(config.buffer, capacity=capacity),
        tasks=TasksConfig(source="scripted", train_count=4, heldout_count=4),
    )
    run.config_file.write_text(yaml.safe_dump(json.loads(json.dumps(config.to_dict()))))
    with JournalWriter(run.journal_file("train", 1), fsync="never") as journal:
        journal.append_many([continuation(0), *events])
    failed = {"name": "attempt_failed", "key": "1-a", "index": 0, "function": "", "turn": None, "detail": ""}
    with JournalWriter(run.journal_file("synthesis", 1), fsync="never") as journal:
        journal.append({**failed, "type": "vm_exec_failed"})
        journal.append({**failed, "type": "vm_exec_failed"})  # told twice, after a crash
        journal.append({**failed, "type": "query_gen_failed", "key": "9-not-in-the-history"})
    if rollouts:
        (run.rollouts / "step_000001.jsonl").write_text("".join(json.dumps(line) + "\n" for line in rollouts))
    return run.path


def rollout(task="a", text="hello", reward=0.5, **rest):
    """A line of a rollouts file."""
    return {
        "task_id": task,
        "index": 0,
        "reward": reward,
        "turns_passed": [True],
        "codes": [-1, 1],
        "finish": "finished",
        "text": text,
        **rest,
    }


def write_result(run, verdicts, step=None):
    """What `rods evaluate` leaves of these verdicts, all of type base; of the finished policy, or of a step's."""
    passed = sum(verdicts.values())
    score = {"accuracy": passed / len(verdicts), "count": len(verdicts)}
    folder = run / "evaluations" / f"bfcl_v3-heldout-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    body = {
        "suite": "bfcl_v3",
        "split": "heldout",
        "policy": {"step": step},
        "overall": score,
        "by_type": {"base": score},
        "tasks": {task: {"type": "base", "passed": verdict} for task, verdict in verdicts.items()},
    }
    (folder / "result.json").write_text(json.dumps(body))
