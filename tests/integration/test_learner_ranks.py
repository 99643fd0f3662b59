"""Two launched ranks train like one, at every ZeRO stage, under GRPO and PPO."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from learner_examples import PPO, RANKED, learner, ppo_step, samples

from rods.training.learner import Learner
from rods.training.resharding import ReshardingError

STAGES = (0, 1, 2, 3)
HELPERS = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def launched(policy_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two ranks wrote, all learners in one launch."""
    out = tmp_path_factory.mktemp("ranks")
    for stage in STAGES:
        single = learner(policy_dir, replace(RANKED, zero_stage=stage))
        single.update(*samples(12))
        single.save(out / f"resharded{stage}" / "one")
    critical = learner(policy_dir, replace(PPO, zero_stage=3))
    ppo_step(critical, samples(12)[0])
    critical.save(out / "ppo3" / "one")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, str(HELPERS / "learner_rank.py"), str(policy_dir), str(out)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{HELPERS}:{HELPERS.parent}"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.fixture(scope="module")
def alone(policy_dir: Path) -> tuple[Learner, dict[str, float]]:
    """GRPO in one process, and what it told."""
    trained = learner(policy_dir, RANKED)
    return trained, trained.update(*samples(12))


def compare(folder: Path, one: Learner, wanted: dict[str, float], within: float) -> None:
    for rank in (0, 1):
        metrics = json.loads((folder / f"metrics{rank}.json").read_text())
        assert metrics == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    weights = torch.load(folder / "weights.pt", weights_only=True)
    for name, tensor in one.weights():
        torch.testing.assert_close(weights[name], tensor, rtol=0, atol=within)


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_two_ranks_equal_one(launched: Path, alone: tuple[Learner, dict[str, float]], stage: int) -> None:
    compare(launched / f"grpo{stage}", *alone, within=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_a_batch_that_ranks_cannot_share_is_refused_on_each(launched: Path, stage: int) -> None:
    for rank in (0, 1):
        told = (launched / f"grpo{stage}" / f"refused{rank}.txt").read_text()
        assert "7 rollouts, which 2 ranks cannot share" in told


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_state_goes_from_one_rank_to_two_and_back(launched: Path, policy_dir: Path, stage: int) -> None:
    straight = learner(policy_dir, replace(RANKED, zero_stage=stage))
    straight.update(*samples(12))
    folder = launched / f"resharded{stage}"
    loaded = torch.load(folder / "loaded.pt", weights_only=True)
    assert all(torch.equal(loaded[name], tensor) for name, tensor in straight.weights())
    for seed in (1, 2):
        wanted = straight.update(*samples(12, seed))
    compare(folder, straight, wanted, within=1e-5)

    back = learner(policy_dir, replace(RANKED, zero_stage=stage))
    back.load(folder / "two")
    assert back.steps == 2
    assert back.update(*samples(12, 2)) == pytest.approx(wanted, rel=1e-4, abs=1e-6)
    for (name, one), (_, other) in zip(back.weights(), straight.weights(), strict=True):
        torch.testing.assert_close(
            one, other, rtol=0, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["one", "two"]


@pytest.mark.slow
def test_state_that_cannot_be_cut_anew_is_refused_with_both_numbers(launched: Path, policy_dir: Path) -> None:
    folder = launched / "resharded1" / "two"
    for shard in folder.glob("model/*optim_states.pt"):
        shard.unlink()
    with pytest.raises(ReshardingError, match=r"written by 2 rank\(s\), this run has 1.*Resume with 2 rank"):
        learner(policy_dir, replace(RANKED, zero_stage=1)).load(folder)
    assert not [*folder.parent.glob(".*")]


@pytest.mark.slow
@pytest.mark.parametrize("stage", [0, 3])
def test_two_ranks_equal_one_under_ppo(launched: Path, policy_dir: Path, stage: int) -> None:
    trained = learner(policy_dir, PPO)
    ppo_step(trained, samples(12)[0])
    wanted = ppo_step(trained, samples(12)[0])
    compare(launched / f"ppo{stage}", trained, wanted, within=5e-5)
