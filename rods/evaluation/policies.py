"""Which policy is evaluated: a run's, a checkpoint's, a Hugging Face folder's or a cached model's.

A checkpoint holds DeepSpeed's files. Its weights are gathered into a Hugging Face folder beside the evaluation, once,
with the configuration and the tokenizer of the model that the run began from.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from launchers import snapshot
from rods.config import Config, ModelConfig
from rods.errors import RodsError
from rods.exchange import marker
from rods.exchange.ended import failure
from rods.exchange.rundir import RunDir
from rods.model_path import check_weights, local

_POLICY = "policy"


class PolicyError(RodsError):
    """Something that holds no policy."""


@dataclass(frozen=True)
class Chosen:
    """A policy that was found.

    Attributes:
        given: what the user named.
        folder: a Hugging Face folder, or the checkpoint that one is made of.
        run: the run that it comes from, if any.
        step: training steps behind it, where it is a checkpoint.
        sha256: its fingerprint, where it was taken before; the checkpoint may be gone since.
    """

    given: str
    folder: Path
    run: Path | None = None
    step: int | None = None
    sha256: str = ""


def find(given: str) -> Chosen:
    """What `given` names: a run directory, a checkpoint folder of one, a Hugging Face folder or a model's name.

    A finished run's exported policy comes before its checkpoints, of which the newest is taken.

    Raises:
        PolicyError: a run without either, or a checkpoint that is not complete.
        ModelNotFoundError: see `rods.model_path.local`.
    """
    path = Path(given)
    if (path / "manifest.json").is_file():
        return _of_run(given, RunDir.open(path))
    if marker.Name.parse(path.resolve().name) is not None and path.is_dir():
        return _of_checkpoint(given, path.resolve())
    check_weights(given)
    return Chosen(given, Path(local(given)))


def config_of(chosen: Chosen) -> Config | None:
    """The frozen configuration of the run that it comes from; None without a run.

    Raises:
        SnapshotError: there is none.
    """
    return None if chosen.run is None else snapshot.load_config(RunDir.open(chosen.run))


def as_model(chosen: Chosen, start: ModelConfig, target: Path) -> Path:
    """A Hugging Face folder with the policy; a checkpoint's is made at `target`, unless it is there.

    Args:
        start: the model that the run began from: configuration, tokenizer, and dtype of what is written.

    Raises:
        GatheringError: the checkpoint's weights do not fit that model.
    """
    if chosen.step is None:
        return chosen.folder
    if not (target / "config.json").is_file():
        partial = target.with_name(f".{target.name}.tmp")
        shutil.rmtree(partial, ignore_errors=True)
        # Imported here: who only looks for a policy has no use for torch.
        from rods.evaluation.gathering import convert

        convert(chosen.folder, Path(local(start.path)), start.dtype, partial)
        partial.replace(target)
    return target


def fingerprint(chosen: Chosen) -> str:
    """SHA-256 (hex) that tells policies apart: over a folder's weights, configuration and tokenizer, or over a
    checkpoint's marker, which holds the hash of each of its files.
    """
    if chosen.sha256:
        return chosen.sha256
    if chosen.step is not None:
        return hashlib.sha256((chosen.folder / marker.MARKER).read_bytes()).hexdigest()
    digest = hashlib.sha256()
    for path in sorted(chosen.folder.iterdir()):
        if path.suffix in (".safetensors", ".bin", ".json"):
            digest.update(path.name.encode())
            with path.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _of_run(given: str, run: RunDir) -> Chosen:
    if (run.path / _POLICY / "config.json").is_file():
        return Chosen(given, run.path / _POLICY, run.path)
    complete = marker.scan(run.checkpoints, run.journal_dir, "train").complete
    if not complete:
        why = failure(run)
        raise PolicyError(
            f"{run.path}: expected an exported policy or a complete checkpoint, found neither; "
            + (f"the run failed: {why}" if why else "wait for the run's first checkpoint")
        )
    return Chosen(given, complete[-1].folder, run.path, complete[-1].marker.step)


def _of_checkpoint(given: str, folder: Path) -> Chosen:
    reason = marker.flaw(folder)
    if reason:
        raise PolicyError(f"checkpoint {folder}: {reason}; name another one")
    run = folder.parent.parent
    if not (run / "manifest.json").is_file():
        raise PolicyError(
            f"checkpoint {folder}: expected it inside its run directory, whose config.yaml says which model it is of"
        )
    return Chosen(given, folder, run, marker.read(folder).step)
