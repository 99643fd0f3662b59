"""Fixtures that several rooms' tests share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def policy_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny policy with random weights (tied embeddings) and its tokenizer."""
    import random_policy  # heavy: only tests that ask for a policy import torch

    return random_policy.save(tmp_path_factory.mktemp("policy"))
