"""How a journal's records lie in its file.

A record is framed (magic, length, checksum of the two, checksum of the payload), because a process killed in
the middle of a write tears large records, and a torn line would swallow the next one. Records that were appended
together share one frame, whose payload is then an array: after a crash all of them are there, or none.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from rods.errors import RodsError

MAGIC = b"RJ01"
_PREFIX = struct.Struct(">4sI")  # magic, payload length
_CHECKS = struct.Struct(">II")  # crc32 of the prefix, crc32 of the payload
HEADER_BYTES = _PREFIX.size + _CHECKS.size
MAX_RECORD_BYTES = 64 * 2**20


class JournalError(RodsError):
    """A journal cannot be read or written."""


class JournalCorruptError(JournalError):
    """Damage that no crash of the writer explains.

    Attributes:
        file: the journal.
        offset: first byte of the frame that does not check out.
        found: what is there.
    """

    def __init__(self, file: Path, offset: int, found: str) -> None:
        super().__init__(
            f"journal {file} is damaged at byte {offset}: expected a record, found {found}. "
            "Records before it are whole; restore the file from a copy or go back to a checkpoint before it."
        )
        self.file = file
        self.offset = offset
        self.found = found


def frame(*records: dict[str, Any]) -> bytes:
    """The bytes of a frame that holds `records`, at least one.

    Raises:
        JournalError: they are not JSON objects, or larger than MAX_RECORD_BYTES.
    """
    content = records[0] if len(records) == 1 else records
    try:
        payload = json.dumps(content, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise JournalError(
            f"a journal record must be plain JSON: {error}. Found: {str(content)[:200]}"
        ) from error
    if len(payload) > MAX_RECORD_BYTES:
        raise JournalError(
            f"a journal record may have {MAX_RECORD_BYTES} bytes, found {len(payload)}. Split it."
        )
    prefix = _PREFIX.pack(MAGIC, len(payload))
    return prefix + _CHECKS.pack(zlib.crc32(prefix), zlib.crc32(payload)) + payload


def payload_bytes(header: bytes) -> int:
    """The length of the payload behind `header`; 0 for a torn or damaged one, which `decode` tells apart."""
    if len(header) < HEADER_BYTES:
        return 0
    prefix = header[: _PREFIX.size]
    magic, length = _PREFIX.unpack(prefix)
    check, _ = _CHECKS.unpack_from(header, _PREFIX.size)
    return int(length) if (magic, check) == (MAGIC, zlib.crc32(prefix)) else 0


def decode(data: bytes, file: Path, base: int = 0) -> tuple[list[dict[str, Any]], int]:
    """Records in `data`, which starts at byte `base` of `file`, and the offset after the last of them.

    Raises:
        JournalCorruptError: bytes that are neither a record nor a torn tail.
    """
    records: list[dict[str, Any]] = []
    end = base
    for payload in _payloads(data, file, base):
        content = json.loads(payload)
        records.extend(content if isinstance(content, list) else [content])
        end += HEADER_BYTES + len(payload)
    return records, end


def split(data: bytes, file: Path) -> list[msgspec.Raw]:
    """The records in `data`, all of `file`, each as its bytes: checked as `decode` does, told apart, not parsed.

    Raises:
        JournalCorruptError: as `decode`.
    """
    records: list[msgspec.Raw] = []
    for payload in _payloads(data, file, 0):
        records.extend(_array(payload) if payload.startswith(b"[") else [msgspec.Raw(payload)])
    return records


def _payloads(data: bytes, file: Path, base: int) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        payload = _payload(data, position, file, base)
        if payload is None:
            return
        yield payload
        position += HEADER_BYTES + len(payload)


def _payload(data: bytes, position: int, file: Path, base: int) -> bytes | None:
    """The payload of the frame at `position`; None for a torn tail."""
    start = position + HEADER_BYTES
    if start > len(data):
        return None
    prefix = data[position : position + _PREFIX.size]
    magic, length = _PREFIX.unpack(prefix)
    prefix_check, payload_check = _CHECKS.unpack_from(data, position + _PREFIX.size)
    if magic != MAGIC or zlib.crc32(prefix) != prefix_check:
        if not any(memoryview(data)[position:]):
            # The file grew before its bytes arrived: zeros up to the end.
            return None
        raise JournalCorruptError(file, base + position, f"the bytes {data[position:start].hex()}")
    payload = data[start : start + length]
    if len(payload) == length and zlib.crc32(payload) == payload_check:
        return payload
    if start + length >= len(data):
        # The last frame, cut short or with holes where pages had not arrived.
        return None
    raise JournalCorruptError(file, base + position, f"{length} bytes whose checksum differs")


_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
