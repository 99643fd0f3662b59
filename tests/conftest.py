"""Fixtures that several rooms' tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def role_umask() -> Iterator[None]:
    """The umask that a run's processes take from its folder (0750); an entry point under test may change it."""
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def policy_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a tiny policy with random weights (tied embeddings) and its tokenizer."""
    import random_policy  # heavy: only tests that ask for a policy import torch

    return random_policy.save(tmp_path_factory.mktemp("policy"))
