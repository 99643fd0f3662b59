"""How many ranks train, and which GPU each of them sees."""

from __future__ import annotations

import pytest
import torch

from rods.config import from_mapping
from rods.roles import ranks
from rods.roles.ranks import GpuMissingError, World

EIGHT = {"cluster": {"train": {"gpus_per_node": 8}}}


def seeing(monkeypatch: pytest.MonkeyPatch, gpus: int, visible: str | None = None) -> None:
    """A machine with so many GPUs, of which the launcher has named some."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)


def test_a_gpu_has_a_rank_and_a_machine_without_one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    seeing(monkeypatch, 8)
    assert ranks.count(from_mapping(EIGHT)) == 8
    assert ranks.count(from_mapping({})) == 1
    seeing(monkeypatch, 0)
    assert ranks.count(from_mapping(EIGHT)) == 1


def test_the_setting_comes_before_the_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    seeing(monkeypatch, 8)
    assert ranks.count(from_mapping({**EIGHT, "training": {"ranks_per_node": 2}})) == 2
    assert ranks.count(from_mapping({**EIGHT, "rollout": {"placement": "served"}})) == 1


@pytest.mark.parametrize(
    ("visible", "wanted"), [(None, ["0", "1"]), ("4,6,7", ["4", "6"]), ("GPU-a,GPU-b", None)]
)
def test_each_rank_sees_the_next_gpu_of_those_allocated(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, wanted: list[str] | None
) -> None:
    seeing(monkeypatch, 3 if wanted else 2, visible)
    found = ranks.gpus(2)
    assert found == (wanted or ["GPU-a", "GPU-b"])
    told = [ranks.environment(rank, World(1, 2, "here", 1234), found) for rank in (0, 1)]
    assert [each["CUDA_VISIBLE_DEVICES"] for each in told] == found
    assert [(each["RANK"], each["WORLD_SIZE"], each["LOCAL_RANK"]) for each in told] == [
        ("0", "2", "0"),
        ("1", "2", "0"),
    ]


def test_without_gpus_ranks_are_told_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    seeing(monkeypatch, 0)
    assert ranks.gpus(2) == []
    assert "CUDA_VISIBLE_DEVICES" not in ranks.environment(1, World(1, 2, "here", 1234), [])


def test_a_further_node_has_the_next_ranks_and_its_own_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    world = World(2, 4, "first", 1234)
    told = ranks.environment(6, world, ["4", "5", "6", "7"])
    assert (told["RANK"], told["WORLD_SIZE"], told["CUDA_VISIBLE_DEVICES"]) == ("6", "8", "6")
    assert (told["MASTER_ADDR"], told["MASTER_PORT"]) == ("first", "1234")
    assert "GLOO_SOCKET_IFNAME" not in told  # the loopback reaches nobody there
    assert ranks.environment(1, World(1, 2, "first", 1), [])["GLOO_SOCKET_IFNAME"] == "lo"
    assert ranks.environment(6, world, [])["LOCAL_RANK"] == "2"


def test_more_ranks_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    seeing(monkeypatch, 4, "0,1,2,3")
    with pytest.raises(GpuMissingError, match="8 ranks need a GPU each, this process sees 4"):
        ranks.gpus(8)
