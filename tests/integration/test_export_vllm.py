"""The exported policy in vLLM: it loads as it lies there and says what the learner says."""

from __future__ import annotations

from pathlib import Path

import pytest
from learner_examples import TRAINING, learner, samples

from rods.config import ModelConfig, RolloutConfig
from rods.rollout.engine import build

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]


def test_an_exported_policy_scores_in_vllm_as_in_the_learner(policy_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("vllm", reason="vllm is not installed: pip install -e '.[cpu]'")
    trained = learner(policy_dir, TRAINING)
    sequences = [list(sample.token_ids) for sample in samples(4)[0]]
    before = trained.score(sequences)
    trained.update(*samples(8))
    trained.export(tmp_path / "policy")
    engine = build(tmp_path / "policy", ModelConfig(max_length=64), RolloutConfig(engine="vllm"), 0)
    try:
        found = engine.score(sequences)
    finally:
        engine.close()
    for ours, theirs, old in zip(trained.score(sequences), found, before, strict=True):
        assert theirs == pytest.approx(ours, abs=1e-3)
        assert theirs != pytest.approx(old, abs=1e-3)
