"""Orders that are functions of (seed, time, ids), equal on every machine: an epoch's shuffle, a step's draw.

Each id gets 64 bits: its code points as a polynomial modulo 2^64, mixed with the seed and the epoch by the
finalizer of SplitMix64 (Steele, Lea and Flood 2014), which is a bijection. A million ids take array operations
instead of a million hashes. Only the ids' own content counts, not how many there are or in which order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 16  # ids converted at once: they take four bytes per character of the longest one
_BASE = np.uint64(0x9E3779B97F4A7C15)
_Words = NDArray[np.uint64]


def shuffled(ids: Sequence[str], seed: int, epoch: int) -> tuple[str, ...]:
    """The order in which an epoch visits the ids."""
    return _by_bits(ids, f"{seed}:{epoch}")


def drawn(ids: Sequence[str], seed: int | None, step: int) -> tuple[str, ...]:
    """The ids in the order in which a step draws them, independent of the epochs' shuffles."""
    return _by_bits(ids, f"{seed}:{step}:draw")


def fractions(ids: Sequence[str], seed: int, epoch: int) -> NDArray[np.float64]:
    """A number in [0, 1) for each id, independent of the shuffle's order."""
    return (_bits(ids, f"{seed}:{epoch}:fraction") >> np.uint64(11)).astype(np.float64) / 2.0**53


def _by_bits(ids: Sequence[str], salt: str) -> tuple[str, ...]:
    """The ids in the order of their bits; ids with equal bits in the order of their text."""
    if not ids:
        return ()
    bits = _bits(ids, salt)
    order = np.argsort(bits)
    placed = bits[order]
    if bool((placed[1:] == placed[:-1]).any()):
        return tuple(name for _, name in sorted(zip(bits.tolist(), ids, strict=True)))
    return tuple(ids[place] for place in order.tolist())


def _bits(ids: Sequence[str], salt: str) -> _Words:
    key = np.uint64(int.from_bytes(hashlib.sha256(salt.encode()).digest()[:8], "big"))
    blocks = [_polynomial(ids[start : start + _BLOCK]) for start in range(0, len(ids), _BLOCK)]
    return _mixed(np.concatenate(blocks) ^ key)


def _polynomial(ids: Sequence[str]) -> _Words:
    """Σ code point · base^(place+1) modulo 2^64; padding adds nothing, so widths do not matter."""
    texts = np.array(ids, dtype=np.str_)
    width = max(texts.dtype.itemsize // 4, 1)
    points = texts.view(np.uint32).reshape(len(ids), width)
    total = np.zeros(len(ids), dtype=np.uint64)
    power = _BASE
    with np.errstate(over="ignore"):
        for place in range(width):
            total += points[:, place].astype(np.uint64) * power
            power = power * _BASE
    return total


def _mixed(words: _Words) -> _Words:
    with np.errstate(over="ignore"):
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))
