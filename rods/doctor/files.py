"""What a run on a cluster reads besides its directory: weights, the environment, W&B's key. Looked at from here."""

from __future__ import annotations

import netrc
import os
import sys
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

from rods import model_path
from rods.config import Config
from rods.doctor.finding import Finding, Level
from rods.doctor.volume import MOUNTS, mount_of
from rods.errors import RodsError

_SHARED = ("lustre", "nfs", "nfs4", "beegfs", "gpfs", "ceph", "fuse.ceph", "9p", "virtiofs")
_WANDB_HOST = "api.wandb.ai"


def examine(config: Config) -> list[Finding]:
    """One finding a model, one for the interpreter, one for W&B."""
    found = [weights(f"weights of {name}", path) for name, path in models(config).items()]
    return [*found, interpreter(config), wandb(config)]


def models(config: Config) -> dict[str, str]:
    """The models whose files the roles load themselves, by a name for a person."""
    found = {"the policy": config.model.path}
    if config.synthesis.enabled and config.synthesis.backend == "openai":
        backbones = config.synthesis.chosen_backbones()
        found |= {name: one.model for name, one in backbones.items() if not one.base_url}
    return found


def location(path: str) -> str | None:
    """Where the weights of `path` (as model.path takes it) lie on this machine; None when they are not here.

    Raises:
        ModelNotFoundError: a folder without a model.
    """
    found = model_path.resolve(path)
    if Path(found).is_dir():
        return found
    try:
        cached = try_to_load_from_cache(found, "config.json")
    except ValueError:
        return None  # no name that the hub could have
    return str(Path(cached).parent) if isinstance(cached, str) else None


def weights(what: str, path: str) -> Finding:
    """Whether a model's files are here; compute nodes seldom reach the network."""
    try:
        where = location(path)
        if where is not None:
            model_path.check_weights(path)
    except RodsError as error:
        return Finding(
            what, Level.unfit, str(error), "Set the path to a folder with config.json and weights."
        )
    if where is None:
        meaning = f"Compute nodes often reach no network; download them here first: hf download {path}"
        return Finding(what, Level.warning, f"{path}: not in the Hugging Face cache", meaning)
    return Finding(what, Level.ok, where, "")


def interpreter(config: Config) -> Finding:
    """Whether the environment lies where other nodes may see it."""
    if config.cluster.container.kind != "none":
        image = config.cluster.container.image
        here = not image.startswith("/") or Path(image).exists()
        return Finding(
            "container", Level.ok if here else Level.unfit, image, "" if here else "No such image here."
        )
    found = mount_of(Path(sys.prefix).resolve(), MOUNTS.read_text())
    kind = found.kind if found else "unknown"
    said = f"{sys.executable} on {kind}"
    if kind in _SHARED:
        return Finding("environment", Level.ok, said, "")
    return Finding(
        "environment", Level.note, said, "Not a shared file system by its kind; --probe tells for sure."
    )


def wandb(config: Config) -> Finding:
    """Whether a W&B key is there; it is not read."""
    mode = config.tracking.wandb
    if mode in ("offline", "disabled"):
        return Finding("W&B", Level.ok, f"tracking.wandb={mode}", "")
    there = "WANDB_API_KEY" in os.environ or _in_netrc()
    if there:
        return Finding(
            "W&B", Level.ok, f"a key is set; tracking.wandb={mode}", "Nodes without network: offline."
        )
    level = Level.unfit if mode == "online" else Level.note
    return Finding("W&B", level, f"no key; tracking.wandb={mode}", "Runs are tracked offline: wandb login.")


def _in_netrc() -> bool:
    try:
        return netrc.netrc().authenticators(_WANDB_HOST) is not None
    except (OSError, netrc.NetrcParseError):
        return False
