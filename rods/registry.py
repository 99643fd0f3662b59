"""Names to implementations, resolved on first use.

A registry maps a name in a YAML file to "package.module:attribute". Nothing is imported until it is asked
for, so that listing the engines does not import torch. Adding an implementation is one new file and one
line in its room's registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from rods.errors import RodsError


class UnknownNameError(RodsError):
    """A name that the registry does not hold."""


class Registry:
    """Implementations of one kind by name.

    Args:
        kind: what is registered, for messages ("engine", "task source").
        entries: name → "package.module:attribute".
    """

    def __init__(self, kind: str, entries: Mapping[str, str]) -> None:
        self.kind = kind
        self._entries = dict(entries)

    @property
    def names(self) -> tuple[str, ...]:
        """The registered names, sorted."""
        return tuple(sorted(self._entries))

    def get(self, name: str) -> Any:
        """The implementation called `name`.

        Raises:
            UnknownNameError: when there is none; the message lists those that exist.
        """
        if name not in self._entries:
            raise UnknownNameError(f"unknown {self.kind} {name!r}; choose one of: {', '.join(self.names)}")
        module, attribute = self._entries[name].split(":")
        return getattr(import_module(module), attribute)
