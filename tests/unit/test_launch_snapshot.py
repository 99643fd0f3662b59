"""What was frozen is what runs: any difference is found at a role's start and named."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from launch_stubs import ROOT

from launchers import plan, snapshot
from launchers.errors import LaunchError, SnapshotError
from launchers.identity import config_hash
from launchers.resume import open_for_resume
from rods.config import ClusterConfig, Config, ContainerConfig, LaunchConfig, TrainingConfig
from rods.errors import RodsError
from rods.exchange import owner, stop
from rods.exchange.heartbeat import Heartbeat
from rods.exchange.rundir import NotARunDirError, RunDir
from rods.roles import launching, perform

CONFIG = Config(experiment="frozen")


def frozen(tmp_path: Path, config: Config = CONFIG) -> RunDir:
    """A run directory with this repository frozen into it."""
    run = RunDir.create(tmp_path / "runs", config.experiment, config_hash(config))
    snapshot.freeze(run, config, ["+experiment=frozen"])
    return run


def test_what_was_frozen_verifies_and_gives_the_configuration_back(tmp_path: Path) -> None:
    run = frozen(tmp_path)
    assert config_hash(snapshot.verify(run)) == config_hash(CONFIG)
    assert (run.code / "rods" / "roles" / "entry.py").read_bytes() == (
        ROOT / "rods/roles/entry.py"
    ).read_bytes()
    assert (run.code / "launch.py").exists()
    assert not list(run.code.rglob("__pycache__"))
    assert "hydra-core==" in (run.path / "env.txt").read_text()
    manifest = run.read_manifest()
    assert manifest["config_hash"] == config_hash(CONFIG)
    assert manifest["overrides"] == ["+experiment=frozen"]


def edit(run: RunDir) -> None:
    with (run.code / "rods" / "errors.py").open("a") as file:
        file.write("\n")


def remove(run: RunDir) -> None:
    (run.code / "rods" / "errors.py").unlink()


def add(run: RunDir) -> None:
    (run.code / "rods" / "torch.py").touch()


def reconfigure(run: RunDir) -> None:
    run.config_file.write_text(run.config_file.read_text().replace("seed: 0", "seed: 1"))


def drop_configuration(run: RunDir) -> None:
    run.config_file.unlink()


def forget_hashes(run: RunDir) -> None:
    run.update_manifest(files=None)


@pytest.mark.parametrize(
    ("tamper", "named"),
    [
        (edit, "code/rods/errors.py was changed"),
        (remove, "code/rods/errors.py is missing"),
        (add, "code/rods/torch.py was added"),
        (reconfigure, "config.yaml was changed"),
        (drop_configuration, "config.yaml is missing"),
        (forget_hashes, "expected the hashes of the frozen files"),
    ],
)
def test_tampering_is_found_and_named(tmp_path: Path, tamper: Callable[[RunDir], None], named: str) -> None:
    run = frozen(tmp_path)
    tamper(run)
    with pytest.raises(SnapshotError, match=named):
        snapshot.verify(run)


def test_byte_code_written_meanwhile_is_no_tampering(tmp_path: Path) -> None:
    run = frozen(tmp_path)
    cache = run.code / "rods" / "__pycache__"
    cache.mkdir()
    (cache / "errors.cpython-311.pyc").write_bytes(b"\0")
    snapshot.verify(run)


def test_code_from_elsewhere_is_refused(tmp_path: Path) -> None:
    run = frozen(tmp_path)
    with pytest.raises(SnapshotError, match="PYTHONPATH"):
        snapshot.check_origin(run)  # this process runs the repository's code


def test_a_role_runs_the_frozen_code_whatever_the_working_directory(tmp_path: Path) -> None:
    run = frozen(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", "import rods, launchers; print(rods.__file__); print(launchers.__file__)"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(run.code), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(line.startswith(str(run.code)) for line in done.stdout.split())


def test_changed_packages_are_told_by_a_role_and_do_not_stop_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = frozen(tmp_path)
    lock = run.path / snapshot.ENVIRONMENT_FILE
    assert snapshot.environment_changes(run) == []
    lock.write_text(lock.read_text().replace("hydra-core==", "hydra-core==0.0."))
    (change,) = snapshot.environment_changes(run)
    assert change.startswith("hydra-core 0.0.1")
    for check in ("verify", "check_origin"):
        monkeypatch.setattr(snapshot, check, lambda _run: None)
    monkeypatch.setattr(perform, "setproctitle", lambda _title: None)
    monkeypatch.setattr(perform.ROLES, "get", lambda _role: lambda _run_dir, _attempt: 0)
    run.next_attempt()
    assert perform.perform(run, "synthesis", 1).status == 0
    assert f"synthesis: 1 package(s) are not what {lock} says: {change}" in capsys.readouterr().err
    lock.unlink()
    assert snapshot.environment_changes(run) == []


def test_a_containers_packages_are_not_compared_with_those_outside(tmp_path: Path) -> None:
    config = replace(CONFIG, cluster=ClusterConfig(container=ContainerConfig("pyxis", "x.sqsh")))
    run = RunDir.create(tmp_path / "runs", "x", config_hash(config))
    snapshot.freeze(run, config, [])
    (run.path / snapshot.ENVIRONMENT_FILE).write_text("hydra-core==0.0\n")
    assert snapshot.environment_changes(run) == []


def test_a_source_without_a_package_cannot_be_frozen(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "runs", "x", "0" * 64)
    with pytest.raises(SnapshotError, match="the package rods"):
        snapshot.freeze(run, CONFIG, [], source=tmp_path)


def test_resume_refuses_another_experiment_and_says_how_to_resume_it(tmp_path: Path) -> None:
    run = frozen(tmp_path)
    other = replace(CONFIG, training=TrainingConfig(epochs=9))
    with pytest.raises(LaunchError, match=r"training\.epochs: 5 → 9") as refused:
        open_for_resume(str(run.path), other)
    assert str(refused.value).endswith(f"rods resume {run.path}")


def test_the_newest_run_is_found_by_the_command_only() -> None:
    with pytest.raises(LaunchError, match="`rods resume latest`"):
        open_for_resume("latest", CONFIG)


@pytest.mark.parametrize("content", ["", "a: [", "- a\n", "17", "seed: x\n", "\x00"])
def test_resume_with_a_damaged_configuration_names_it(tmp_path: Path, content: str) -> None:
    run = RunDir.create(tmp_path / "runs", "x", "0" * 64)
    run.config_file.write_text(content)
    with pytest.raises(RodsError):
        open_for_resume(str(run.path), CONFIG)


def test_resume_refuses_a_finished_run(tmp_path: Path) -> None:
    run = frozen(tmp_path)
    stop.request(run, 1, stop.FINISHED)
    with pytest.raises(LaunchError, match="has finished"):
        open_for_resume(str(run.path), CONFIG)


def test_resume_refuses_a_run_that_still_runs(tmp_path: Path) -> None:
    run = frozen(tmp_path)
    heartbeat = Heartbeat(run.heartbeats, "train")
    heartbeat.beat("rollout")
    with pytest.raises(LaunchError, match=f"role train still runs \\(process {os.getpid()}"):
        open_for_resume(str(run.path), CONFIG)
    heartbeat.finish()
    assert open_for_resume(str(run.path), CONFIG).path == run.path


_OPENER = """
import sys, time
from pathlib import Path
from launchers.resume import open_for_resume
from rods.config import Config
from rods.errors import RodsError
gate = Path(sys.argv[2])
print("ready", flush=True)
while not gate.exists():
    time.sleep(0.001)
try:
    open_for_resume(sys.argv[1], Config(experiment="frozen"))
    print("owned", flush=True)
    sys.stdin.read()
except RodsError as error:
    print(error, flush=True)
"""


def test_of_several_resumes_at_once_one_owns_the_run(tmp_path: Path) -> None:
    run, gate = frozen(tmp_path), tmp_path / "gate"
    command = [sys.executable, "-c", _OPENER, str(run.path), str(gate)]
    openers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    gate.touch()
    told = [opener.stdout.readline().strip() for opener in openers if opener.stdout]
    winner = openers[told.index("owned")]
    assert told.count("owned") == 1
    for line in set(told) - {"owned"}:
        assert f"process {winner.pid} on {socket.gethostname()} follows this run already" in line
    with pytest.raises(owner.OwnedError):
        open_for_resume(str(run.path), CONFIG)
    winner.kill()
    for opener in openers:
        opener.communicate()
    assert open_for_resume(str(run.path), CONFIG).path == run.path, "a killed owner blocks the run"


def test_whoever_is_overtaken_between_looking_and_taking_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDir.create(tmp_path, "x", "0" * 64)
    make_dirs = owner.make_dirs

    def overtaken(folder: Path) -> None:
        monkeypatch.undo()
        owner.take(run, 300)
        make_dirs(folder)

    monkeypatch.setattr(owner, "make_dirs", overtaken)
    with pytest.raises(owner.OwnedError):
        owner.take(run, 300)


def test_an_owner_on_another_host_is_judged_by_its_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = frozen(tmp_path)
    monkeypatch.setattr("socket.gethostname", lambda: "node-17")
    owner.take(run, 300)
    monkeypatch.undo()
    with pytest.raises(owner.OwnedError, match="node-17"):
        open_for_resume(str(run.path), CONFIG)
    found = owner.newest(run)
    assert found is not None
    old = found.path.stat().st_mtime - 1000
    os.utime(found.path, (old, old))
    assert open_for_resume(str(run.path), CONFIG).path == run.path


def test_a_resume_that_is_refused_for_its_files_leaves_the_run_free(tmp_path: Path) -> None:
    run = frozen(tmp_path)
    (run.code / "rods" / "reward.py").write_text("changed")
    config = replace(CONFIG, launch=LaunchConfig(resume=str(run.path)), cluster=ClusterConfig(kind="local"))
    with pytest.raises(SnapshotError, match="was changed"):
        launching.launch(config, plan.build(config), [])
    found = owner.newest(run)
    assert found is not None
    assert found.released


def test_a_refused_resume_and_a_released_one_leave_the_run_free(tmp_path: Path) -> None:
    run = frozen(tmp_path)
    stop.request(run, 1, stop.FINISHED)
    with pytest.raises(LaunchError, match="has finished"):
        open_for_resume(str(run.path), CONFIG)
    run.stop_file.unlink()
    open_for_resume(str(run.path), CONFIG)
    with pytest.raises(owner.OwnedError):
        open_for_resume(str(run.path), CONFIG)
    owner.release(run)
    open_for_resume(str(run.path), CONFIG)


def test_a_role_on_another_host_is_judged_by_its_heartbeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = frozen(tmp_path)
    monkeypatch.setattr("socket.gethostname", lambda: "node-17")
    Heartbeat(run.heartbeats, "train").beat("rollout")
    monkeypatch.undo()
    with pytest.raises(LaunchError, match="node-17"):
        open_for_resume(str(run.path), CONFIG)
    old = (run.heartbeats / "train.json").stat().st_mtime - 1000
    os.utime(run.heartbeats / "train.json", (old, old))
    assert open_for_resume(str(run.path), CONFIG).path == run.path


def test_a_dead_role_of_this_host_does_not_block_a_resume(tmp_path: Path) -> None:
    run = frozen(tmp_path)
    code = (
        "import sys; from pathlib import Path; from rods.exchange.heartbeat import Heartbeat; "
        "Heartbeat(Path(sys.argv[1]), 'train').beat('rollout')"
    )
    subprocess.run([sys.executable, "-c", code, str(run.heartbeats)], check=True)
    assert open_for_resume(str(run.path), CONFIG).path == run.path


def test_resume_may_change_how_the_run_is_launched(tmp_path: Path) -> None:
    run = frozen(tmp_path)
    config = replace(CONFIG, launch=LaunchConfig(heartbeat_timeout_s=7))
    snapshot.freeze_config(open_for_resume(str(run.path), config), config)
    assert snapshot.verify(run).launch.heartbeat_timeout_s == 7


def test_resume_of_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(NotARunDirError, match="not a RODS run directory"):
        open_for_resume(str(tmp_path), CONFIG)


class TestStopRequest:
    """The stop file, by attempt and reason."""

    def test_the_first_reason_stays(self, tmp_path: Path) -> None:
        run = RunDir.create(tmp_path, "x", "0" * 64)
        stop.request(run, 1, "train received SIGUSR2")
        stop.request(run, 1, stop.FINISHED)
        assert not stop.is_finished(run)

    def test_an_end_that_was_reached_outdoes_an_earlier_request(self, tmp_path: Path) -> None:
        run = RunDir.create(tmp_path, "x", "0" * 64)
        stop.request(run, 1, "interrupted")
        stop.finish(run, 1)
        assert stop.is_finished(run)
        assert stop.is_requested(run, 1)

    def test_the_next_attempt_does_not_obey_the_last_ones_request(self, tmp_path: Path) -> None:
        run = RunDir.create(tmp_path, "x", "0" * 64)
        stop.request(run, 1, "interrupted")
        assert stop.is_requested(run, 1)
        assert not stop.is_requested(run, 2)
        stop.clear_stale(run, 2)
        assert not run.stop_file.exists()

    def test_a_request_to_this_attempt_is_not_cleared(self, tmp_path: Path) -> None:
        run = RunDir.create(tmp_path, "x", "0" * 64)
        stop.request(run, 2, "interrupted")
        stop.clear_stale(run, 2)
        assert stop.is_requested(run, 2)

    @pytest.mark.parametrize("content", ["", "stop please", "[]", '{"attempt": "soon"}'])
    def test_a_file_made_by_hand_stops_but_never_finishes(self, tmp_path: Path, content: str) -> None:
        run = RunDir.create(tmp_path, "x", "0" * 64)
        run.stop_file.write_text(content)
        assert stop.is_requested(run, 3)
        stop.request(run, 3, stop.FINISHED)
        assert not stop.is_finished(run)
