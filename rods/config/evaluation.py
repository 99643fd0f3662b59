"""A run that trains nothing: it scores a policy that there is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class EvaluationConfig:
    """What `+experiment=evaluate_only` scores. The policy's settings are its own run's; see docs/evaluation.md."""

    enabled: bool = False  # score a policy and train nothing
    policy: str = ""  # a run, a checkpoint, a Hugging Face folder or name
    suite: str = "bfcl_v3"  # bfcl_v3 | scripted
    split: str = "heldout"  # heldout | validation | train
