"""Every kept episode of some runs on one page that searches and filters by itself, without a server.

Episodes are text that a model wrote. They reach the page as JSON in which no tag can begin or end, are shown as
text nodes only, and the page's policy lets no script but its own run and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from tokenizers import Tokenizer

from analysis.load import RunData
from rods import tasks
from rods.config import from_mapping
from rods.errors import RodsError
from rods.exchange.metrics import read_metrics
from rods.tasks.model import Task

MOST_BYTES = 24_000_000
"""Of episodes on one page; a browser takes a few seconds for as much."""
_IDS = 2**32  # the tokenizer counts so far
_UNKNOWN = "unknown"
_NO_ZONE = "none"
_TRAINING = "training"
_ESCAPES = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


class TokenizerError(RodsError):
    """A tokenizer that cannot be read."""


def render(title: str, runs: Sequence[RunData], most_bytes: int = MOST_BYTES) -> str:
    """The page as text.

    Where the episodes are more than `most_bytes` of JSON, every n-th is left out, and the page says how many.

    Raises:
        RodsError: a file of rollouts, or a policy's tokenizer, that holds something else.
    """
    found = [episode for run in runs for episode in episodes(run)]
    lines = _within([_encode(episode) for episode in found], most_bytes)
    script = files("analysis").joinpath("templates/trajectories.js").read_text(encoding="utf-8")
    environment = Environment(
        loader=PackageLoader("analysis"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("trajectories.html.j2").render(
        title=title,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=f"[{','.join(lines)}]",
        shown=len(lines),
        total=len(found),
    )


def episodes(run: RunData) -> Iterable[dict[str, Any]]:
    """What the page needs of each kept episode: those trained on in the order of the steps, then those of evaluations.

    `set` is where it was played, `tokens` the transcript's tokens where they were kept: text where the run's tokenizer
    is at hand, ids otherwise.
    """
    tokenizer = _tokenizer(run)
    yield from _trained(run, tokenizer)
    yield from _evaluated(run, tokenizer)


def _trained(run: RunData, tokenizer: Tokenizer | None) -> Iterable[dict[str, Any]]:
    """Episodes of training; `zone` is that of the task's whole group in that step."""
    zones = {(group.step, group.task_id): (group.zone, group.mean) for group in run.groups}
    types = _types(run)
    for file in sorted((run.path / "rollouts").glob("step_*.jsonl")):
        step = int(file.stem.removeprefix("step_"))
        for kept in read_metrics(file):
            zone, mean = zones.get((step, kept["task_id"]), (_UNKNOWN, None))
            yield {
                "run": run.name,
                "set": _TRAINING,
                "step": step,
                "task": kept["task_id"],
                "index": kept["index"],
                "type": types.get(kept["task_id"], _UNKNOWN),
                "zone": zone,
                "mean": mean,
                "reward": kept["reward"],
                "turns": kept["turns_passed"],
                **_transcript(kept, tokenizer),
            }


def _evaluated(run: RunData, tokenizer: Tokenizer | None) -> Iterable[dict[str, Any]]:
    """Episodes that `rods evaluate` left in the run: one a task, so without a zone; named by their folder."""
    for file in sorted(run.path.glob("evaluations/**/trajectories.jsonl")):
        for kept in read_metrics(file):
            yield {
                "run": run.name,
                "set": str(file.parent.relative_to(run.path / "evaluations")),
                "step": None,
                "task": kept["task_id"],
                "index": 0,
                "type": kept["type"],
                "zone": _NO_ZONE,
                "mean": None,
                "reward": kept["progress"],
                "turns": [not judged or (state and told) for state, told, judged in kept["verdicts"]],
                **_transcript(kept, tokenizer),
            }


def _transcript(kept: Mapping[str, Any], tokenizer: Tokenizer | None) -> dict[str, Any]:
    return {
        "codes": kept["codes"],
        "finish": kept["finish"],
        "text": kept["text"],
        "tokens": _tokens(kept, tokenizer),
        "mask": kept.get("mask"),
    }


def _types(run: RunData) -> Mapping[str, str]:
    """Task types by id: of the run's tasks where they can be loaded here, and of what its journal names."""
    named = {event["task_id"]: event["type"] for event in run.events if {"task_id", "type"} <= event.keys()}
    try:
        own: Sequence[Task] = tasks.load(from_mapping(run.config).tasks).train
    except RodsError:
        # Tasks from a file or a package that this machine does not have: the journal's types must do.
        own = ()
    return {task.id: task.type.value for task in own} | named


def _tokenizer(run: RunData) -> Tokenizer | None:
    """That of the exported policy; None where the run has not come so far.

    Raises:
        TokenizerError: it is damaged.
    """
    file: Path = run.path / "policy" / "tokenizer.json"
    if not file.is_file():
        return None
    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing more special
        raise TokenizerError(
            f"{file}: expected the policy's tokenizer, found something else ({error}); copy it from the model that the "
            "run began from"
        ) from error


def _tokens(kept: Mapping[str, Any], tokenizer: Tokenizer | None) -> list[str] | None:
    ids = kept.get("token_ids")
    if ids is None:
        return None
    return [_token(token, tokenizer) for token in ids]


def _token(token: int, tokenizer: Tokenizer | None) -> str:
    if tokenizer is None or not 0 <= token < _IDS:
        return f"[{token}]"
    return tokenizer.decode([token], skip_special_tokens=False) or f"[{token}]"


def _encode(episode: Mapping[str, Any]) -> str:
    """JSON that is safe inside a script element, whatever the strings hold."""
    return json.dumps(episode, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)


def _within(lines: list[str], most: int) -> list[str]:
    """All lines, or evenly spread ones that are at most about `most` bytes together."""
    size = sum(len(line.encode()) for line in lines)
    if size <= most:
        return lines
    wanted = max(1, len(lines) * most // size)
    return [lines[index * len(lines) // wanted] for index in range(wanted)]
