"""Where a policy's files are: in the package (`shipped/NAME`), in a folder, or in the local Hugging Face cache."""

from __future__ import annotations

from pathlib import Path

from rods.errors import RodsError

_ASSETS = Path(__file__).parent / "assets"


class ModelNotFoundError(RodsError):
    """No model files where the configuration points."""


def resolve(path: str) -> str:
    """The folder (or hub name, left as it is) that transformers and vLLM load `model.path` from.

    Raises:
        ModelNotFoundError: a shipped model that does not exist, or a folder without a config.json.
    """
    if path.startswith("shipped/"):
        folder = _ASSETS / path.removeprefix("shipped/")
        if not (folder / "config.json").is_file():
            shipped = sorted(f"shipped/{p.parent.name}" for p in _ASSETS.glob("*/config.json"))
            raise ModelNotFoundError(
                f"model.path = {path!r}: no such shipped model; there are: {', '.join(shipped)}"
            )
        return str(folder)
    folder = Path(path)
    if not folder.is_dir():
        return path
    if not (folder / "config.json").is_file():
        raise ModelNotFoundError(
            f"model.path = {path!r}: expected a Hugging Face model folder, found no config.json in it"
        )
    return str(folder)
