"""What a person typed, where it does not make a configuration: said with the nearest thing that does."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from hydra.errors import HydraException, MissingConfigException, OverrideParseException

from rods.config import Config, ConfigError
from rods.config.folder import FOLDER, choices

_NO_KEY = re.compile(r"Could not override '([^']+)'")
_NO_VALUE = re.compile(r"Error parsing override '([^'=]+)'\s+missing EQUAL")
_SEVERAL = re.compile(r"Ambiguous value for argument '([^']+)'")
_PLAIN = re.compile(r"([\w.+@/-]+)=([^'\"\\$`!\[\]{}(),]+)")  # what quotes alone make readable
_ADDED = ("experiment", "ablation")  # groups without a default, written with a plus
_MODELS = {  # by what stands in the name of an experiment
    "tiny": "on a laptop",
    "qwen4b": "Qwen3-4B",
    "qwen25_7b": "Qwen2.5-7B",
    "llama31_8b": "Llama-3.1-8B",
}
_UNNAMED = Config().experiment


def explained(error: HydraException) -> str:
    """What is wrong and the nearest right thing, in a sentence; Hydra's own words where nothing better is known."""
    text = str(error)
    if isinstance(error, MissingConfigException) and error.missing_cfg_file and error.options:
        group, _, name = error.missing_cfg_file.rpartition("/")
        key = f"+{group}" if group in _ADDED else group
        return f"{key}={name}: no such file in {FOLDER / group};{_meant(name, error.options, f'{key}=')}"
    if match := _SEVERAL.match(text):
        return (
            f"{match[1]}: several values are a sweep: add -m, and each becomes a run of its own (a list is written "
            "with brackets and quotes, 'key=[a,b]')"
        )
    if match := _NO_VALUE.match(text):
        return f"{match[1]}: expected KEY=VALUE;{_meant(match[1], choices('experiment'), '+experiment=')}"
    if match := _NO_KEY.match(text):
        return _no_key(match[1])
    if isinstance(error, OverrideParseException) and (match := _PLAIN.fullmatch(error.override)):
        return (
            f"{error.override}: a value with ~, =, # or letters that are not English stands in quotes of its own, "
            f"within the shell's: \"{match[1]}='{match[2]}'\""
        )
    return " ".join(text.split()) or " ".join(str(error.__cause__).split())


def check_named(config: Config) -> None:
    """Refuse to start what no experiment's file describes.

    Raises:
        ConfigError: no experiment was chosen; names those that exist.
    """
    if config.experiment == _UNNAMED:
        raise ConfigError(
            f"no experiment was chosen: give +experiment=NAME, of docs/experiments.md or of your own in "
            f"{FOLDER / 'experiment'}:\n{_by_model(choices('experiment'))}"
        )


def _by_model(names: Sequence[str]) -> str:
    """Experiments, a line for each model that they train."""
    lines: dict[str, list[str]] = {}
    for name in names:
        model = next((model for mark, model in _MODELS.items() if f"_{mark}" in name), "other")
        lines.setdefault(model, []).append(name)
    told = [model for model in (*_MODELS.values(), "other") if model in lines]
    return "\n".join(f"  {model}: {', '.join(lines[model])}" for model in told)


def _no_key(key: str) -> str:
    if key in _ADDED:
        return f"{key}=…: write it with a plus, +{key}=NAME; there are {', '.join(choices(key))}"
    keys = list(_keys(Config().to_dict()))
    same_end = [known for known in keys if known.rpartition(".")[2] == key]
    return f"{key}: no such setting;{_meant(key, same_end or keys, '')}"


def _meant(text: str, known: Iterable[str], before: str) -> str:
    """The nearest of `known`, or all of them where none is near and a line holds them."""
    names = list(known)
    near = difflib.get_close_matches(text, names, 1) or (names if len(names) == 1 else [])
    if near:
        return f" did you mean {before}{near[0]}?"
    if before:
        return f" there are {', '.join(names)}"
    return " launch.py --cfg job shows all"


def _keys(settings: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in settings.items():
        yield f"{before}{name}"
        if isinstance(value, Mapping):
            yield from _keys(value, f"{before}{name}.")
