"""The exported policy in vLLM: it loads as it lies there and says what the learner says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from learner_examples import TRAINING, learner, samples

pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(600)]

# vLLM ends torch's process groups with its engine, and DeepSpeed keeps those of this process.
SCORE = """
import json, sys
from pathlib import Path
from rods.config import ModelConfig, RolloutConfig
from rods.rollout.engine import build

engine = build(Path(sys.argv[1]), ModelConfig(max_length=64), RolloutConfig(engine="vllm"), 0)
found = engine.score(json.loads(sys.argv[2]))
engine.close()
print(json.dumps(found))
"""


def test_an_exported_policy_scores_in_vllm_as_in_the_learner(policy_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("vllm", reason="vllm is not installed: pip install -e '.[cpu]'")
    trained = learner(policy_dir, TRAINING)
    sequences = [list(sample.token_ids) for sample in samples(4)[0]]
    before = trained.score(sequences)
    trained.update(*samples(8))
    trained.export(tmp_path / "policy")
    done = subprocess.run(
        [sys.executable, "-c", SCORE, str(tmp_path / "policy"), json.dumps(sequences)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    for ours, theirs, old in zip(trained.score(sequences), found, before, strict=True):
        assert theirs == pytest.approx(ours, abs=1e-3)
        assert theirs != pytest.approx(old, abs=1e-3)
