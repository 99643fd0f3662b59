"""The engine of served placement on stand-in servers: what it asks for, how weights get there, what faults become."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import random_policy
import torch
from engine_server import END, Server

from rods.config import EngineServerConfig, ModelConfig, RolloutConfig
from rods.rollout.engine import Completion, Request, Sampling, WeightsError, build
from rods.rollout.fleet import plan
from rods.rollout.weight_push import DiskPush, _shards
from rods.rollout.wire import EngineServerError
from rods.serving.server import ServerError

MODEL = ModelConfig(max_length=50)
STAND_IN = (sys.executable, str(Path(__file__).parents[1] / "engine_server.py"))


@contextmanager
def engine_on(policy_dir: Path, *servers: Server, timeout_s: float = 10.0, **more: Any) -> Iterator[Any]:
    urls = tuple(server.url for server in servers)
    engine = build(
        policy_dir,
        MODEL,
        RolloutConfig(placement="served", servers=urls, answer_timeout_s=timeout_s, **more),
        0,
    )
    try:
        yield engine
    finally:
        engine.close()
        engine.close()


def request(name: str, prompt: tuple[int, ...] = (5, 6, 7), tokens: int = 10) -> Request:
    return Request(name, prompt, Sampling(1.0, 1.0, tokens, 3))


def finish(engine: Any, count: int) -> list[Completion]:
    done: list[Completion] = []
    while len(done) < count:
        done += engine.step()
    return done


def weights(head: float) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in random_policy.weights(random_policy.model(seed=0)):
        yield name, torch.full_like(tensor, head) if name == "lm_head.weight" else tensor


def test_messages_come_back_as_tokens_with_the_servers_logprobs(policy_dir: Path) -> None:
    with Server() as server, engine_on(policy_dir, server) as engine:
        assert engine.step() == []
        for name in "abc":
            engine.submit(request(name))
        done = sorted(finish(engine, 3), key=lambda message: message.id)
        assert done == [Completion(name, (9, 9, END), (-1.0,) * 3, True) for name in "abc"]
        engine.submit(request("a", tokens=2))
        assert finish(engine, 1) == [Completion("a", (9, 9), (-1.0, -1.0), False)]
        assert engine.step() == []
        assert engine.score([[5, 6, 7], [5, 6]]) == [[-1.0, -1.0], [-1.0]]


def test_new_weights_reach_every_server_and_their_prefixes_are_forgotten(policy_dir: Path) -> None:
    with Server() as one, Server() as two, engine_on(policy_dir, one, two) as engine:
        engine.update_weights(weights(2.5), version=4)
        assert (engine.version, one.head, two.head) == (4, 2.5, 2.5)
        assert engine.score([[5, 6], [5, 6]]) == [[-2.5], [-2.5]]
        commands = ["/pause?mode=wait", "/collective_rpc", "/reset_prefix_cache", "/resume"]
        for server in (one, two):
            assert [call for call in server.calls if not call.startswith("/v1")] == commands


def test_an_episode_stays_with_its_server_and_new_ones_are_spread(policy_dir: Path) -> None:
    with Server() as one, Server() as two, engine_on(policy_dir, one, two) as engine:
        for _ in range(3):
            for name in "abcd":
                engine.submit(request(name))
            finish(engine, 4)
        assert (len(one.calls), len(two.calls)) == (6, 6)
        homes = engine._client._home
        assert [homes[name].url for name in "abcd"] == [one.url, two.url, one.url, two.url]


def test_a_server_that_ignores_the_weights_is_found(policy_dir: Path) -> None:
    with Server() as one, Server() as two, engine_on(policy_dir, one, two) as engine:
        two.deaf = True
        with pytest.raises(WeightsError, match=rf"{two.url} differs from {one.url} by 1\.50e\+00"):
            engine.update_weights(weights(2.5), version=4)
        assert engine.version == 0


def test_weights_that_do_not_fit_are_refused_before_a_server_reads_them(policy_dir: Path) -> None:
    with Server() as server, engine_on(policy_dir, server) as engine:
        partial = (pair for pair in weights(2.5) if pair[0] != "lm_head.weight")
        with pytest.raises(WeightsError, match=r"lm_head\.weight"):
            engine.update_weights(partial, version=4)
        assert "/collective_rpc" not in server.calls
        assert engine.version == 0


def test_a_server_that_others_use_cannot_take_weights(policy_dir: Path) -> None:
    with Server() as server, engine_on(policy_dir, server) as engine:
        server.forgets = False
        with pytest.raises(EngineServerError, match="could not forget its prefix cache"):
            engine.update_weights(weights(2.5), version=4)


@pytest.mark.parametrize("fault", ["500", "drop"])
def test_a_passing_fault_costs_a_repetition(policy_dir: Path, fault: str) -> None:
    with Server() as server, engine_on(policy_dir, server) as engine:
        server.faults = [fault]
        engine.submit(request("a"))
        assert finish(engine, 1)[0].token_ids == (9, 9, END)
        assert len(server.calls) == 2


@pytest.mark.parametrize(
    ("faults", "complaint"),
    [
        (["500"] * 3, r"status 500: .*EngineCore died.* \(tries: 3\)"),
        (["drop"] * 3, r"Error.*\(tries: 3\)"),
        (["400"], "status 400"),
        (["hang"], r"no answer within rollout\.answer_timeout_s = 1 s"),
        (["garbage"], r"choices"),
        (["other prompt"], "an answer to another prompt than was sent"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_fault_that_stays_is_told_with_the_server_it_came_from(
    policy_dir: Path, faults: list[str], complaint: str
) -> None:
    timeout_s = 1.0 if faults == ["hang"] else 10.0
    with Server() as server, engine_on(policy_dir, server, timeout_s=timeout_s) as engine:
        server.faults = faults
        engine.submit(request("a"))
        with pytest.raises(EngineServerError, match=complaint) as caught:
            finish(engine, 1)
        assert str(caught.value).startswith(
            f"model server {server.url}/v1/completions: expected an answer, found "
        )


def test_a_server_that_is_not_there_is_told(policy_dir: Path) -> None:
    with Server() as gone:
        url = gone.url
    rollout = RolloutConfig(
        placement="served",
        servers=(url,),
        server=EngineServerConfig(ready_timeout_s=0.1),
        answer_timeout_s=5.0,
    )
    with pytest.raises(EngineServerError, match=f"{url}/v1/models"):
        build(policy_dir, MODEL, rollout, 0)


def test_a_server_of_several_models_is_refused(policy_dir: Path) -> None:
    with Server() as server:
        server.models = ["one", "two"]
        with (
            pytest.raises(EngineServerError, match=r"2 models \(one, two\), not one"),
            engine_on(policy_dir, server),
        ):
            pass


def started(*args: str, **more: Any) -> RolloutConfig:
    server = EngineServerConfig(command=STAND_IN, args=args, ready_timeout_s=30.0)
    return RolloutConfig(placement="served", server=server, answer_timeout_s=10.0, **more)


def test_servers_are_started_and_end_with_the_engine(policy_dir: Path, tmp_path: Path) -> None:
    engine: Any = build(policy_dir, MODEL, started(), 0, tmp_path)
    (process,) = [server._process for server in engine._client._fleet._servers]
    assert (tmp_path / "engine-0.log").read_text().startswith("started with --model")
    engine.submit(request("a"))
    assert finish(engine, 1)[0].token_ids == (9, 9, END)
    folder = engine._push._folder
    assert folder.is_dir()
    engine.close()
    assert process.returncode is not None
    assert not list(tmp_path.glob("*.key"))
    assert not folder.exists()


def test_a_server_that_dies_is_told_with_its_last_words(policy_dir: Path, tmp_path: Path) -> None:
    engine = build(policy_dir, MODEL, started("--die-after", "1"), 0, tmp_path)
    engine.submit(request("a"))
    finish(engine, 1)
    engine.submit(request("a"))
    with pytest.raises(EngineServerError, match=r"A server ended with status 3\.[\s\S]*the stand-in dies"):
        finish(engine, 1)
    engine.close()


def test_a_server_that_does_not_start_is_told(policy_dir: Path, tmp_path: Path) -> None:
    server = EngineServerConfig(
        command=(sys.executable, "-c", "print('no memory'); exit(4)"), ready_timeout_s=30.0
    )
    began = time.monotonic()
    with pytest.raises(ServerError, match=r"ended with status 4 before it was ready[\s\S]*no memory"):
        build(policy_dir, MODEL, RolloutConfig(placement="served", server=server), 0, tmp_path)
    assert time.monotonic() - began < 30


def test_what_a_server_of_ours_is_told_to_be() -> None:
    rollout = RolloutConfig(
        placement="served",
        max_concurrent=100,
        server=EngineServerConfig(devices=("4,5", "6,7"), args=("--tensor-parallel-size", "2")),
    )
    made = plan(Path("m"), ModelConfig(dtype="bfloat16", max_length=32768), rollout, 1)
    assert made.env["CUDA_VISIBLE_DEVICES"] == "6,7"
    assert made.env["VLLM_SERVER_DEV_MODE"] == "1"
    options = " ".join(made.args)
    for part in ("--dtype bfloat16", "--max-model-len 32768", "--max-num-seqs 50", '{"backend": "nccl"}'):
        assert part in options
    assert options.endswith("--tensor-parallel-size 2")
    assert "--enforce-eager" not in options


def test_weights_are_written_in_shards(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("rods.rollout.weight_push._SHARD_BYTES", 100)
    tensors = [
        ("a", torch.zeros(20)),
        ("b", torch.ones(10)),
        ("c", torch.ones(60)),
        ("d", torch.ones(2, 3).T),
    ]
    assert [list(shard) for shard in _shards(tensors)] == [["a"], ["b"], ["c"], ["d"]]
    assert [list(shard) for shard in _shards(tensors[1:2] + tensors[3:])] == [["b", "d"]]
    push = DiskPush(None, [], str(tmp_path))  # type: ignore[arg-type]
    (folder,) = tmp_path.iterdir()
    push.close()
    assert not folder.exists()
