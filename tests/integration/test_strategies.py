"""Our extensions together, through the real loop and daemon: a killed run still equals the straight one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from soak.harness import Killer, Nursery, Tally, differences, finish, results, soak_config, supervisor_log

from rods.exchange import stop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CONFIG = soak_config(
    seed=5,
    boundary={"selection": "posterior", "posterior_rollouts": 4},
    buffer={"injection": "stream", "sampling": "prioritised", "review_epochs": 1, "burn_in": 0},
)
KILLS = 8


@pytest.fixture
def nursery(tmp_path: Path) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path)
    yield nursery
    nursery.close()


def test_a_run_with_all_extensions_survives_kills_unchanged(nursery: Nursery, tmp_path: Path) -> None:
    straight, crashed = (nursery.create(tmp_path / "runs", CONFIG) for _ in range(2))
    assert nursery.finish(straight) == 0, supervisor_log(straight)
    deeds = results(straight)["deeds"]
    arrived = {deed["task_id"]: deed["step"] for deed in deeds if deed["name"] == "variant_arrived"}
    entered = {deed["task_id"]: deed["step"] for deed in deeds if deed["name"] == "variant_injected"}
    assert any(entered[task] == arrived[task] for task in entered), "nothing was streamed"
    assert any(deed["name"] == "task_readmitted" for deed in deeds), "nothing was reviewed"
    tally = Tally()
    killer = Killer(nursery, crashed, random.Random(1), tally)
    while tally.kills < KILLS and not stop.is_finished(crashed):
        killer.attempt()
    finish(nursery, crashed)
    assert tally.kills >= KILLS
    assert differences(straight, crashed) == []
