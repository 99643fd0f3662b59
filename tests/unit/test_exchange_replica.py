"""Several processes of one role: each has files of its own, and whoever reads counts them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from launchers import local
from rods.config import Config
from rods.exchange import replica
from rods.exchange.journal import JournalWriter
from rods.exchange.metrics import MetricsWriter
from rods.exchange.replica import ReplicaError
from rods.exchange.rundir import RunDir


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    return RunDir.create(tmp_path, "many", "0" * 16)


def note(run: RunDir, writer: str, attempt: int, **record: object) -> None:
    with JournalWriter(run.journal_file(writer, attempt), fsync="never") as journal:
        journal.append(dict(record))


def count(run: RunDir, writer: str, **line: object) -> None:
    metrics = MetricsWriter(run.metrics / f"{writer}.jsonl")
    metrics.write(dict(line))
    metrics.close()


@pytest.mark.parametrize(
    ("environment", "name"),
    [({}, "synthesis"), ({"RODS_REPLICA": "0"}, "synthesis"), ({"RODS_REPLICA": "12"}, "synthesis-12")],
)
def test_a_process_writes_under_the_name_that_its_launcher_gave_it(
    environment: dict[str, str], name: str
) -> None:
    assert replica.writer("synthesis", environment) == name
    assert replica.writes_for("synthesis", name)


def test_on_one_machine_what_the_shell_of_the_user_says_does_not_count(tmp_path: Path) -> None:
    shell = {"RODS_REPLICA": "3"}
    environment = {**shell, **local.role_environment(Config(), tmp_path, "synthesis", 1)}
    assert replica.writer("synthesis", environment) == "synthesis"


@pytest.mark.parametrize("number", ["", "-1", "01", "one", "1 ", "../1", "10000", "٣", "1\n"])
def test_a_number_that_is_none_is_refused(number: str) -> None:
    with pytest.raises(ReplicaError, match="RODS_REPLICA: expected a number from 0 to 9999"):
        replica.writer("synthesis", {"RODS_REPLICA": number})


@pytest.mark.parametrize(
    "name",
    ["train", "synthesis-0", "synthesis-01", "synthesis-x", "resynthesis-1", "synthesis-1-2", "synthesis-"],
)
def test_what_is_not_a_process_of_the_role_is_not_counted(name: str) -> None:
    assert not replica.writes_for("synthesis", name)


def test_journals_of_all_processes_and_attempts_are_read(run: RunDir) -> None:
    note(run, "synthesis-1", 1, key="b")
    note(run, "synthesis", 2, key="a2")
    note(run, "synthesis", 1, key="a1")
    note(run, "train", 1, key="no")
    note(run, "synthesis-11", 1, key="c")
    assert [record["key"] for record in replica.read_journals(run, "synthesis")] == ["a1", "a2", "b", "c"]


def test_the_counters_of_all_processes_are_added_up(run: RunDir) -> None:
    count(run, "synthesis", accepted=1)
    count(run, "synthesis", accepted=3, claimed=4)
    count(run, "synthesis-2", accepted=10, claimed=11)
    count(run, "synthesis-10", accepted=100)
    count(run, "synthesis-x", accepted=1000)
    (run.metrics / "synthesis-3.jsonl").touch()
    stems = [path.stem for path in replica.metrics_files(run, "synthesis")]
    assert stems == ["synthesis", "synthesis-2", "synthesis-3", "synthesis-10"]
    wanted = ("accepted", "claimed", "dropped")
    assert replica.totals(run, "synthesis", wanted) == {"accepted": 113, "claimed": 15}
    assert replica.totals(run, "train", wanted) == {}
