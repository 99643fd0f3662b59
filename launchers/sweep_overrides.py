"""What a multirun asks for, expanded: every combination of the swept values as the overrides of one run.

Hydra's own sweeper drops three things without a word: a sweep that one of several experiments names in its file,
the first of two sweeps of one key, and a glob that matches nothing. Here the first is expanded and the others are
refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override

from launchers.errors import LaunchError
from rods.config.compose import in_order

Texts = tuple[str, ...]  # overrides as they are typed


class SweepError(LaunchError):
    """A multirun that is not what it looks like; nothing was started."""


def expand(
    overrides: Sequence[str], parser: Parser, inner: Callable[[Texts], Mapping[str, object]]
) -> list[Texts]:
    """The overrides of every point, in the order in which they are told and started.

    Args:
        inner: the sweep that the files of a point name (`hydra.sweeper.params`); what was typed wins.

    Raises:
        SweepError: nothing to run, a key that is swept and given again, or values without end.
        HydraException: an override that cannot be read.
    """
    _refuse_twice(parser.parse(overrides))
    points = list(_expand(overrides, parser, inner))
    if not points:
        raise SweepError(f"this sweep has no runs: {' '.join(overrides)}")
    return points


class Parser:
    """Hydra's parser of overrides, which reads each text once: the points of a sweep share most of theirs."""

    def __init__(self, loader: ConfigLoader) -> None:
        self._parser = OverridesParser.create(config_loader=loader)
        self._read: dict[str, Override] = {}

    def parse(self, texts: Sequence[str]) -> list[Override]:
        """Raises HydraException for a text that is no override."""
        for text in texts:
            if text not in self._read:
                (self._read[text],) = self._parser.parse_overrides([text])
        return [self._read[text] for text in texts]


def _expand(
    texts: Sequence[str], parser: Parser, inner: Callable[[Texts], Mapping[str, object]]
) -> Iterator[Texts]:
    overrides = parser.parse(in_order(texts))
    for point in itertools.product(*(_choices(override) for override in overrides)):
        given = {_key(override) for override in overrides}
        named = [f"{key}={value}" for key, value in inner(point).items()]
        missing = [override for override in parser.parse(named) if _key(override) not in given]
        if missing:
            yield from _expand([*point, *(str(override.input_line) for override in missing)], parser, inner)
        else:
            yield point


def _choices(override: Override) -> list[str]:
    if not override.is_sweep_override():
        return [str(override.input_line)]
    if not override.is_discrete_sweep():
        raise SweepError(
            f"{override.input_line}: expected values to run one by one, found an interval; write them out, or use "
            "range(start,stop,step)"
        )
    values = [f"{override.get_key_element()}={value}" for value in override.sweep_string_iterator()]
    if not values:
        raise SweepError(
            f"{override.input_line}: matches nothing, so this sweep has no runs; the choices lie in "
            f"conf/{override.key_or_group}/"
        )
    return values


def _refuse_twice(overrides: Sequence[Override]) -> None:
    for key, group in itertools.groupby(sorted(overrides, key=_key), key=_key):
        same = list(group)
        if len(same) > 1 and any(override.is_sweep_override() for override in same):
            texts = " and ".join(str(override.input_line) for override in same)
            raise SweepError(
                f"{key} is given more than once ({texts}): only the last would count. Give it once, all "
                "values in one list"
            )


def _key(override: Override) -> str:
    return f"{override.key_or_group}@{override.package or ''}".rstrip("@")
