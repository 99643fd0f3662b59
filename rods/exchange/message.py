"""What lies in a queue's files: one message, or a batch of them, as JSON."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rods.exchange import names
from rods.exchange.atomic import CorruptFileError, parse_json
from rods.exchange.names import QueueError


@dataclass(frozen=True)
class Message:
    """A message as it is put.

    Attributes:
        key: its identity: the same key is accepted once.
        content: plain JSON.
        priority: higher ones are delivered first; finite.
    """

    key: str
    content: dict[str, Any]
    priority: float = 0.0

    @property
    def encoded(self) -> str:
        """The key as part of a file name. Raises InvalidKeyError."""
        return names.encode(self.key)


def encode(messages: tuple[Message, ...], label: str) -> bytes:
    """The bytes of the file with this label. Raises QueueError for what is no JSON."""
    bodies = [_envelope(message) for message in messages]
    if not names.is_batch(label):
        return bodies[0]
    return b'{"batch":"%s","messages":[%s]}' % (label.encode(), b",".join(bodies))


def _envelope(message: Message) -> bytes:
    body = {"key": message.key, "priority": message.priority, "message": message.content}
    try:
        return json.dumps(body, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise QueueError(
            f"message {message.key!r} must be plain JSON: {error}. Found: {str(message.content)[:200]}"
        ) from error


def read(path: Path, label: str) -> tuple[Message, ...]:
    """The messages of the file with this label, in the order in which they are delivered.

    Raises:
        CorruptFileError: it is not what `encode` makes for this label, or no regular file (a link put there
            by hand).
        FileNotFoundError: there is none.
    """
    body = parse_json(_read_regular(path), path)
    if not names.is_batch(label):
        messages: tuple[Message, ...] = (_message(body, path),)
        found = _label(messages[0])
    elif isinstance(body, dict) and body.keys() == {"batch", "messages"}:
        messages = tuple(_message(one, path) for one in body["messages"])
        found = body["batch"] if len(messages) == names.count(label) else f"{len(messages)} messages"
    else:
        raise CorruptFileError(f"{path}: expected a batch with messages; found {str(body)[:200]}.")
    if found != label:
        raise CorruptFileError(f"{path}: expected {label!r}, as its name says; found {found!r}.")
    return messages


def _message(body: Any, path: Path) -> Message:
    if isinstance(body, dict) and body.keys() == {"key", "priority", "message"}:
        key, priority, content = body["key"], body["priority"], body["message"]
        if isinstance(key, str) and isinstance(content, dict) and _is_finite(priority):
            return Message(key, content, priority)
    raise CorruptFileError(
        f"{path}: expected a message with key, priority, message; found {str(body)[:200]}."
    )


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _label(message: Message) -> str:
    """The message's own label; one that no file has if its key cannot be a name."""
    try:
        return message.encoded
    except names.InvalidKeyError:
        return repr(message.key)


def batch_of(path: Path) -> str | None:
    """The batch that the file itself says it is, whatever its name; None for everything else."""
    try:
        body = parse_json(_read_regular(path), path)
    except (CorruptFileError, FileNotFoundError):
        return None
    label = body.get("batch") if isinstance(body, dict) else None
    return label if isinstance(label, str) else None


def _read_regular(path: Path) -> bytes:
    """The bytes of a regular file. Follows no link, waits on no pipe: what lies in a queue is not trusted."""
    refusal = CorruptFileError(f"{path}: expected a message, found a link, a folder or a device. Remove it.")
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise refusal from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise refusal
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read()
