"""The files of a static dataset: what `rods synthesize` leaves, and what the task source `file` reads.

    manifest.json   settings, prompt hashes, acceptance figures; "complete" once the files below are there
    journal/        finished requests (see `offline`)
    train.jsonl     accepted variants in the order of requests, one task a line
    train.parquet   the same, with columns to filter by; the task itself is the JSON text in `task`
    heldout.jsonl   the held-out tasks of the source, which no variant repeats
    rejected.jsonl  requests that nothing was accepted from, and repetitions, with reasons

Every file is written whole at the end, by rename, so that half a dataset cannot be trained on by mistake.
"""

from __future__ import annotations

import io
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow
from pyarrow import parquet

from rods.errors import RodsError
from rods.exchange.atomic import make_dirs, read_json, write_bytes, write_json, write_text
from rods.synthesis.offline import Request
from rods.synthesis.similarity import Corpus
from rods.tasks.file import HELDOUT, TRAIN
from rods.tasks.model import Task

MANIFEST, JOURNAL, PARQUET, REJECTED = "manifest.json", "journal", "train.parquet", "rejected.jsonl"
_FORMAT = 1
_SCHEMA = pyarrow.schema(
    [
        ("id", pyarrow.string()),
        ("type", pyarrow.string()),
        ("kind", pyarrow.string()),
        ("seed_id", pyarrow.string()),
        ("turns", pyarrow.int32()),
        ("calls", pyarrow.int32()),
        ("attempts", pyarrow.int32()),
        ("profile_distance", pyarrow.float64()),
        ("content_id", pyarrow.string()),
        ("task", pyarrow.string()),
    ]
)


class DatasetFolderError(RodsError):
    """A folder that holds something else than this dataset."""


@dataclass(frozen=True)
class Selection:
    """The dataset's part of the finished requests.

    Attributes:
        accepted: variants and their content ids, in the order of requests, none like one before it.
        rejected: lines of rejected.jsonl.
        requests: those that were needed; later ones were made ahead and play no part.
    """

    accepted: list[tuple[dict[str, Any], str]]
    rejected: list[dict[str, Any]]
    requests: list[Request]


def prepare(folder: Path, identity: Mapping[str, Any], count: int) -> None:
    """Make a dataset's folder, or check that this one was begun with the same settings.

    Args:
        identity: all that the content depends on, as JSON.
        count: variants wanted.

    Raises:
        DatasetFolderError: the folder holds other files, a dataset with other settings (names what differs), or one
            with more variants than are wanted, which would be lost.
    """
    manifest = folder / MANIFEST
    if manifest.exists():
        found = read_json(manifest)
        _compare(manifest, found, identity)
        _keep_all(folder, found, count)
        return
    if folder.is_dir() and any(folder.iterdir()):
        raise DatasetFolderError(
            f"--out {folder}: expected an empty folder or a dataset to go on with, found other files; "
            "choose another folder"
        )
    make_dirs(folder)
    write_json(manifest, {"format": _FORMAT, "complete": False, "identity": identity})


def select(requests: Mapping[int, Request], count: int, max_similarity: float) -> Selection:
    """The first `count` variants in the order of requests that repeat none before them, and what was rejected.

    Args:
        requests: finished ones, by index.
        count: variants wanted.
        max_similarity: from which on a variant repeats another (`similarity`).
    """
    chosen = Selection([], [], [])
    before = Corpus((), max_similarity)
    for index in itertools.count():
        if index not in requests or len(chosen.accepted) == count:
            return chosen
        request = requests[index]
        chosen.requests.append(request)
        if not request.tasks:
            chosen.rejected.append(_rejected(request, request.reason))
        for task, content in zip(request.tasks, request.contents, strict=True):
            read = Task.from_json(task)
            if repeated := before.repeated(read):
                chosen.rejected.append(_rejected(request, f"duplicate: {repeated}"))
            elif len(chosen.accepted) < count:
                before.add(read)
                chosen.accepted.append((task, content))
    raise AssertionError("unreachable")


def write(
    folder: Path,
    identity: Mapping[str, Any],
    chosen: Selection,
    requests: Iterable[Request],
    heldout: Sequence[Task],
    count: int,
) -> dict[str, Any]:
    """Write every file of the dataset and return its manifest.

    Args:
        requests: all that are finished, for the effort.
        heldout: tasks that the dataset shall be evaluated on.
        count: variants that were asked for.
    """
    write_text(folder / TRAIN, _lines(task for task, _ in chosen.accepted))
    write_text(folder / HELDOUT, _lines(task.to_json() for task in heldout))
    write_text(folder / REJECTED, _lines(chosen.rejected))
    write_bytes(folder / PARQUET, _parquet(chosen))
    made = list(requests)
    manifest = {
        "format": _FORMAT,
        "complete": len(chosen.accepted) == count,
        "identity": identity,
        "count": count,
        "figures": figures(chosen),
        "effort": {
            "requests": len(made),
            "llm_calls": sum(request.llm_calls for request in made),
            "seconds": round(sum(request.seconds for request in made), 1),
        },
    }
    write_json(folder / MANIFEST, manifest)
    return manifest


def figures(chosen: Selection) -> dict[str, Any]:
    """Acceptance of the requests that were needed; equal datasets have equal figures."""
    requests = chosen.requests
    attempts = sum(request.attempts for request in requests)
    accepted = Counter(task["type"] for task, _ in chosen.accepted)
    asked = Counter(request.type for request in requests)
    failures = Counter(failure["type"] for request in requests for failure in request.failures)
    return {
        "requests": len(requests),
        "accepted": len(chosen.accepted),
        "rejected": len(chosen.rejected),
        "attempts": attempts,
        "acceptance_rate": round(len(chosen.accepted) / len(requests), 4) if requests else None,
        "attempts_per_accepted": round(attempts / len(chosen.accepted), 4) if chosen.accepted else None,
        "failures": dict(sorted(failures.items())),
        "by_type": {name: {"requests": asked[name], "accepted": accepted[name]} for name in sorted(asked)},
    }


def _compare(manifest: Path, found: Any, identity: Mapping[str, Any]) -> None:
    before = _flat(found.get("identity", {})) if isinstance(found, Mapping) else {}
    wanted = _flat(json.loads(json.dumps(identity)))
    differing = sorted(key for key in before.keys() | wanted.keys() if before.get(key) != wanted.get(key))
    if differing:
        shown = ", ".join(f"{key} {before.get(key)!r} → {wanted.get(key)!r}" for key in differing[:4])
        raise DatasetFolderError(
            f"{manifest}: the dataset there was begun with other settings ({shown}); give those, or another --out"
        )


def _keep_all(folder: Path, manifest: Mapping[str, Any], count: int) -> None:
    there = manifest.get("figures", {}).get("accepted", 0)
    if count < there:
        raise DatasetFolderError(
            f"--count {count}: expected at least the {there} variants that {folder} holds, since fewer would remove "
            f"some; give --count {there} or more, or another --out"
        )


def _flat(data: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(data, Mapping):
        return {prefix: data}
    return {
        name: value
        for key, inner in data.items()
        for name, value in _flat(inner, f"{prefix}.{key}" if prefix else str(key)).items()
    }


def _rejected(request: Request, reason: str) -> dict[str, Any]:
    names = ("index", "key", "seed", "type", "attempts", "failures")
    return {name: getattr(request, name) for name in names} | {"reason": reason}


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False, sort_keys=True) + "\n" for row in rows)


def _parquet(chosen: Selection) -> bytes:
    rows = [
        {
            **{name: task[name] for name in ("id", "type", "kind", "seed_id")},
            "turns": len(task["turns"]),
            "calls": sum(len(turn["calls"]) for turn in task["turns"]),
            "attempts": task["provenance"].get("attempts"),
            "profile_distance": task["provenance"].get("profile_distance"),
            "content_id": content,
            "task": json.dumps(task, ensure_ascii=False, sort_keys=True),
        }
        for task, content in chosen.accepted
    ]
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows, _SCHEMA), buffer, compression="zstd")
    return buffer.getvalue()
