"""What systems are called: experiment and ablation, and the settings that tell them from others of these names.

A name that two systems shared would hide what the reader compares. So the settings that tell all of them apart come
first, however many that takes; others in which they differ follow while there is room, the rest is counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

NAMED = ("experiment", "ablation")
_MOST_SETTINGS = 3  # in a name, unless more are needed to tell the systems apart
_MOST_VALUE = 24  # characters
_Settings = Mapping[str, str]


def names(systems: Sequence[_Settings]) -> list[str]:
    """A name for each system, no two alike.

    Args:
        systems: settings as dotted keys and text; no two the same.
    """
    kin: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, settings in enumerate(systems):
        kin[tuple(settings.get(key, "") for key in NAMED)].append(place)
    found = [""] * len(systems)
    for (experiment, ablation), places in kin.items():
        name = f"{experiment} + {ablation}" if ablation else experiment
        for place, own in zip(places, _own([systems[place] for place in places]), strict=True):
            found[place] = f"{name} ({own})" if own else name
    return found


def shorten(text: str, most: int) -> str:
    """At most so many characters, the last of them an ellipsis where something is left out."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _own(kin: Sequence[_Settings]) -> list[str]:
    """Of each system the settings in which it differs from others of the same experiment and ablation, as text."""
    differing = sorted(key for key in set().union(*kin) if len({each.get(key) for each in kin}) > 1)
    # Runs of other versions of the code have settings that these lack, or lack some: those only where it takes them.
    common = [key for key in differing if all(key in each for each in kin)]
    chosen = _telling(kin, common, [])
    chosen = _telling(kin, differing, chosen)
    rest = [key for key in common if key not in chosen]
    shown = chosen + rest[: max(0, _MOST_SETTINGS - len(chosen))]
    values = {key: _values(kin, key) for key in shown}
    left = len(chosen) + len(rest) - len(shown)
    return [", ".join(_texts(each, values, left)) for each in kin]


def _telling(kin: Sequence[_Settings], keys: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """`chosen` and as few of `keys` as tell the systems apart as far as all of `keys` do."""
    found = list(chosen)
    while best := max(keys, key=lambda key: _classes(kin, [*found, key]), default=""):
        if _classes(kin, [*found, best]) == _classes(kin, found):
            break
        found.append(best)
    return found


def _classes(kin: Sequence[_Settings], keys: Sequence[str]) -> int:
    """How many systems there seem to be to a reader who sees these settings only."""
    return len({tuple(each.get(key) for key in keys) for each in kin})


def _values(kin: Sequence[_Settings], key: str) -> dict[str, str]:
    """What is shown of each value of a setting: its beginning, or its end where beginnings are alike, or all of it."""
    whole = sorted({each[key] for each in kin if key in each})
    for cut in (shorten, _end):
        shown = {value: cut(_line(value), _MOST_VALUE) for value in whole}
        if len(set(shown.values())) == len(whole):
            return shown
    return {value: _line(value) for value in whole}


def _line(text: str) -> str:
    """A prompt has several lines, a name stands in one."""
    return text.replace("\n", "↵")


def _end(text: str, most: int) -> str:
    return text if len(text) <= most else f"…{text[1 - most :]}"


def _texts(settings: _Settings, values: Mapping[str, Mapping[str, str]], left: int) -> Iterator[str]:
    own = [f"{key}={shown[settings[key]]}" for key, shown in values.items() if key in settings]
    yield from own
    if own and left:
        yield f"{left} more"
