"""Several nodes: how they meet, how a loss is seen and named, and what a further node's process does at its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

from rods.config import Config, from_mapping
from rods.exchange.rundir import RunDir
from rods.roles import nodes
from rods.roles.nodes import Remote, RendezvousError
from rods.roles.ranks import Local, NodeLostError, RankLostError, World, watched

WORLD = World(3, 2, "first", 1)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = RunDir.create(tmp_path, "nodes", "0")
    run.attempt_dir(1).mkdir(parents=True)
    return run


def config(**cluster: object) -> Config:
    return from_mapping({"cluster": {"kind": "slurm", **cluster}, "training": {"ranks_per_node": 2}})


def test_a_node_that_gives_no_sign_is_lost_and_named() -> None:
    clock, store = Clock(), dist.HashStore()
    remote = Remote(store, WORLD, silence_s=300, clock=clock)
    store.set("rods/node/2/host", "n17")
    for _ in range(10):
        clock.now += 100
        store.add("rods/node/1/beats", 1)
        store.add("rods/node/2/beats", 1)
        assert remote.failed(hurry=False) is None
    clock.now += 299
    store.add("rods/node/1/beats", 1)
    assert remote.failed(hurry=False) is None
    clock.now += 2
    loss = remote.failed(hurry=False)
    assert loss is not None
    assert "node 2 (n17, with ranks 4 to 5 of 6) has given no sign of life for 301 s" in loss.sentence
    assert isinstance(loss.error(), NodeLostError)


def test_when_something_is_known_to_be_lost_seconds_of_silence_tell_which_node() -> None:
    clock, store = Clock(), dist.HashStore()
    remote = Remote(store, WORLD, silence_s=300, clock=clock)
    clock.now += 10
    store.add("rods/node/1/beats", 1)
    assert remote.failed(hurry=False) is None
    loss = remote.failed(hurry=True)
    assert loss is not None
    assert "node 2 (which never came" in loss.sentence


def test_a_rank_that_failed_on_another_node_is_named_by_its_node() -> None:
    store = dist.HashStore()
    store.set("rods/node/1/lost", "rank 3 of 6 ended by SIGKILL")
    loss = Remote(store, WORLD, silence_s=300).failed(hurry=False)
    assert loss is not None
    assert loss.sentence == "rank 3 of 6 ended by SIGKILL"
    assert type(loss.error()) is RankLostError


def test_a_broken_collective_is_told_as_the_loss_that_broke_it(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    process.wait()
    local = Local({4: process}, WORLD, tmp_path)
    with pytest.raises(RankLostError, match=r"rank 4 of 6 ended with status 3"), watched([local]):
        raise RuntimeError("Connection closed by peer")


def test_an_error_of_rank_0_itself_stays_what_it_is() -> None:
    with pytest.raises(ValueError, match="own"), watched([]):
        raise ValueError("own")


def test_a_node_finds_rank_0_by_the_attempts_folder(run: RunDir) -> None:
    (run.attempt_dir(1) / "rendezvous.json").write_text('{"address": "n1", "port": 41}')
    assert nodes.find(run, 1, config(train={"nodes": 3})) == World(3, 2, "n1", 41)


def test_a_node_that_hears_nothing_of_rank_0_says_where_it_looked(run: RunDir) -> None:
    with pytest.raises(RendezvousError, match=r"0001/rendezvous\.json.* within 0 s .*0001/train\.err"):
        nodes.find(run, 1, config(train={"nodes": 2}), wait_s=0)


def test_a_store_that_nobody_has_is_named() -> None:
    with pytest.raises(RendezvousError, match=r"store at 127\.0\.0\.1:1,"):
        nodes.client("127.0.0.1", 1, wait_s=1)


def test_rank_0_waits_for_the_nodes_to_end_but_not_for_ever() -> None:
    clock, store = Clock(), dist.HashStore()
    remote = Remote(store, WORLD, silence_s=300, clock=clock)
    store.set("rods/node/1/ended", "")
    remote.close(patience_s=0)
    store.set("rods/node/2/ended", "")
    remote.close(patience_s=1e9)
    Remote(store, World(1, 2, "first", 1), silence_s=300, clock=clock).close(patience_s=1e9)
