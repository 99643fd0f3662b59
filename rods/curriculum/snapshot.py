"""A state as bytes: strict JSON in pieces, so that writing a million tasks never holds up the step.

The state is a value, so a background thread may encode it while training goes on; between two pieces Python's
lock is free. What is read back is refused on an unknown or missing key, a wrong type, NaN or infinity, and on
entries that contradict each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from pydantic import ConfigDict, TypeAdapter, ValidationError

from rods.config import BoundaryConfig, BufferConfig
from rods.curriculum.errors import StateFormatError
from rods.curriculum.records import SeedRequest, StageRecord, TaskRecord

if TYPE_CHECKING:
    from rods.curriculum.value import CurriculumState

TABLES = ("tasks", "contents", "requests", "last_emitted", "refused")
SCALARS = ("step", "epoch", "in_epoch", "finished", "fingerprint", "seed", "stage")
PIECE = 256  # entries encoded at once: a fraction of a millisecond


class Stored(msgspec.Struct, forbid_unknown_fields=True):
    """A state as it is stored: all of it but the index."""

    boundary: msgspec.Raw
    buffer: msgspec.Raw
    tasks: dict[str, TaskRecord]
    contents: dict[str, str]
    requests: dict[str, SeedRequest]
    last_emitted: dict[str, int]
    refused: dict[str, int]
    step: int
    epoch: int
    in_epoch: bool
    finished: bool
    fingerprint: str | None
    seed: int | None
    stage: StageRecord | None


@dataclass(frozen=True)
class Rules:
    """The two config sections a state carries."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    boundary: BoundaryConfig
    buffer: BufferConfig


def head(state: CurriculumState) -> dict[str, Any]:
    """All of a state that is not entries, as JSON data."""
    sections = {"boundary": asdict(state.boundary), "buffer": asdict(state.buffer)}
    return sections | {name: getattr(state, name) for name in SCALARS}


def pieces(state: CurriculumState) -> Iterator[bytes]:
    """One JSON object; entries in no order."""
    yield msgspec.json.encode(head(state))[:-1]
    for name in TABLES:
        yield b',"%s":{' % name.encode()
        separator = b""
        entries = iter(getattr(state, name).items())
        while piece := dict(islice(entries, PIECE)):
            yield separator + msgspec.json.encode(piece)[1:-1]
            separator = b","
        yield b"}"
    yield b"}"


def parse(data: bytes) -> tuple[Stored, Rules]:
    """Inverse of `pieces`, checked.

    Raises:
        StateFormatError: on any other form; the message names the first offending place.
    """
    try:
        stored = _decoder().decode(data)
        rules = _rules().validate_json(b'{"boundary":%s,"buffer":%s}' % (stored.boundary, stored.buffer))
    except (msgspec.MsgspecError, ValidationError, ValueError) as error:
        raise flawed(error) from error
    _check_keys(stored)
    return stored, rules


def flawed(found: object) -> StateFormatError:
    """The error for bytes or data that are no state."""
    return StateFormatError(
        f"curriculum state: {found}. Expected what CurriculumState.to_json wrote; "
        "restore from an older checkpoint, or replay the journal from the start."
    )


def _check_keys(stored: Stored) -> None:
    for key, record in stored.tasks.items():
        if key != record.id:
            raise flawed(f"task {record.id!r} is stored under {key!r}")
        if record.request and record.request not in stored.requests:
            raise flawed(f"variant {key!r} answers the unknown seed request {record.request!r}")
    for key, request in stored.requests.items():
        if key != request.key:
            raise flawed(f"seed request {request.key!r} is stored under {key!r}")


@cache
def _decoder() -> msgspec.json.Decoder[Stored]:
    return msgspec.json.Decoder(Stored)


@cache
def _rules() -> TypeAdapter[Rules]:
    return TypeAdapter(Rules)
