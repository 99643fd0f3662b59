"""Where a policy's files are: in the package (`shipped/NAME`), in a folder, or in the local Hugging Face cache."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from rods.errors import RodsError

_WEIGHTS = (
    "model.safetensors",
    "pytorch_model.bin",
)  # as transformers looks for them, each whole or in parts
_POINTER = b"version https://git-lfs"  # what a clone without git-lfs has in a file's place
_ASSETS = Path(__file__).parent / "assets"
_SHIPPED = "shipped/"
_ONLY_PATHS = ("/", "./", "../", "~")  # no name on the hub begins so

_ON_HUB = re.compile(r"[\w.-]+/[\w.-]+")  # ORG/NAME


class ModelNotFoundError(RodsError):
    """No model files where the configuration points."""


def anchored(path: str) -> str:
    """`path` as it reads from any working directory: made absolute where it can only be, or is, a path here.

    Names (`shipped/NAME`, one on the hub) and absolute paths stay as they are.
    """
    if not path or path.startswith(("/", _SHIPPED)):
        return path
    if path in (".", "..") or path.startswith(_ONLY_PATHS) or os.path.exists(path):
        return str(Path(os.path.expanduser(path)).absolute())  # ~STRANGER stays: no such folder
    return path


def resolve(path: str) -> str:
    """The folder (or hub name, left as it is) that transformers and vLLM load `model.path` from.

    Raises:
        ModelNotFoundError: a shipped model or a folder that does not exist, or one without a config.json.
    """
    if path.startswith(_SHIPPED):
        folder = _ASSETS / path.removeprefix(_SHIPPED)
        if not (folder / "config.json").is_file():
            shipped = sorted(f"shipped/{p.parent.name}" for p in _ASSETS.glob("*/config.json"))
            raise ModelNotFoundError(
                f"model.path = {path!r}: no such shipped model; there are: {', '.join(shipped)}"
            )
        return str(folder)
    folder = Path(path)
    if not folder.is_dir():
        if path.startswith(_ONLY_PATHS):
            raise ModelNotFoundError(
                f"model.path = {path!r}: expected a Hugging Face model folder, found no folder there; give one, or the "
                "name of a model on the hub"
            )
        return path
    if not (folder / "config.json").is_file():
        raise ModelNotFoundError(
            f"model.path = {path!r}: expected a Hugging Face model folder, found no config.json in it"
        )
    return str(folder)


def local(path: str) -> str:
    """The folder on this machine that holds the files of `model.path`; nothing is downloaded.

    Raises:
        ModelNotFoundError: see `resolve`; or a name that is not in the local Hugging Face cache.
    """
    found = resolve(path)
    if Path(found).is_dir():
        return found
    from huggingface_hub import (
        constants,
        try_to_load_from_cache,
    )  # a third of a second that commands do not need

    try:
        cached = try_to_load_from_cache(found, "config.json")
    except ValueError:  # no name that the hub could have
        cached = None
    if not isinstance(cached, str):
        advice = (
            f"Compute nodes are offline, so nothing is downloaded here: run `hf download {path}` where there is a "
            "network, with the same HF_HOME, or set model.path to a folder"
            if _ON_HUB.fullmatch(path)
            else "Set model.path to a folder, or to a model on the hub, ORG/NAME"
        )
        raise ModelNotFoundError(
            f"model.path = {path!r}: expected a folder, or a model in the Hugging Face cache "
            f"({constants.HF_HUB_CACHE}), found neither. {advice}"
        )
    return str(Path(cached).parent)


def check_weights(path: str) -> None:
    """Refuse what `local` finds when its weights, or parts of them, are missing; no weight is read.

    Raises:
        ModelNotFoundError: see `local`; or weights that are missing, or git-lfs's pointers to them; it names one.
    """
    folder = Path(local(path))
    if whole := [folder / name for name in _WEIGHTS if (folder / name).is_file()]:
        _check_fetched(path, whole[:1])
        return
    indices = [index for name in _WEIGHTS for index in [folder / f"{name}.index.json"] if index.is_file()]
    if not indices:
        raise ModelNotFoundError(
            f"model.path = {path!r}: expected weights in {folder} ({' or '.join(_WEIGHTS)}, or the index of their "
            "parts), found none; download the model again, or name another folder"
        )
    parts = [folder / part for part in _parts(indices[0])]
    if lacking := [part.name for part in parts if not part.is_file()]:
        raise ModelNotFoundError(
            f"model.path = {path!r}: expected in {folder} all parts that {indices[0].name} names, found no "
            f"{lacking[0]} ({len(lacking)} missing); download the model again, or name another folder"
        )
    _check_fetched(path, parts)


def _check_fetched(path: str, files: Iterable[Path]) -> None:
    for file in files:
        with file.open("rb") as opened:
            if opened.read(len(_POINTER)) == _POINTER:
                raise ModelNotFoundError(
                    f"model.path = {path!r}: expected weights in {file}, found git-lfs's pointer to them; run `git lfs "
                    "pull` in that clone, or download the model with `hf download`"
                )


def _parts(index: Path) -> list[str]:
    """Names of the files that the weights are in."""
    try:
        found = sorted(set(map(str, json.loads(index.read_bytes())["weight_map"].values())))
        if not found:
            raise ValueError("it names no part")
        return found
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelNotFoundError(
            f"{index}: expected the index of a model's weights, found something else ({type(error).__name__}: "
            f"{error}); download the model again"
        ) from error
