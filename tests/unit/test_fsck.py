"""`rods fsck` on a real small run: clean when nothing happened; what a crash or a bad disk did is found, told
apart and, where that is safe, mended, without a byte being lost.
"""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from fsck_examples import bytes_of, codes, copied, flip, make_quickly, newest
from typer.testing import CliRunner

from rods.cli import app
from rods.curriculum.events import EpochFinished
from rods.exchange import journal, owner
from rods.exchange.rundir import RunDir
from rods.fsck.check import fsck
from rods.fsck.report import LOST, FsckError, Severity
from rods.training import checkpoint


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return make_quickly(tmp_path_factory.mktemp("made"))


@pytest.fixture
def run(made: RunDir, tmp_path: Path) -> Iterator[RunDir]:
    with copied(made, tmp_path) as found:
        yield found


def test_a_run_that_nothing_happened_to_is_clean_and_left_as_it_is(run: RunDir) -> None:
    before = bytes_of(run)
    report = fsck(run)
    assert codes(report) == []
    assert report.sound
    assert fsck(run, repair=True).repairs == ()
    assert bytes_of(run) == before


def test_the_made_run_has_something_to_check(run: RunDir) -> None:
    assert len(list(run.checkpoints.iterdir())) == 2
    assert run.expanded_file(1).read_text().count("\n") > 0
    assert run.queue("seeds").counts()["ready"] > 0


def test_a_torn_tail_is_cut_and_kept(run: RunDir) -> None:
    path = run.journal_file("train", 2)
    whole, half = path.read_bytes(), journal.frame({"name": "epoch_finished"})[:-5]
    path.write_bytes(whole + half)
    assert codes(fsck(run)) == ["journal-torn"]
    report = fsck(run, repair=True)
    assert codes(report) == []
    assert path.read_bytes() == whole
    assert path.with_name(path.name + ".torn").read_bytes() == half
    assert f"cut {len(half)} bytes" in report.repairs[0]
    assert "tail-kept" in [finding.code for finding in report.findings]


def test_damage_behind_the_newest_checkpoint_is_cut(run: RunDir) -> None:
    """What comes behind it is done again by the next attempt, so that nothing is lost."""
    path = run.journal_file("train", 2)
    event = journal.frame(EpochFinished(9, 2).to_json())
    path.write_bytes(path.read_bytes() + event[:-3] + b"###" + event)
    report = fsck(run)
    assert "journal-damaged" in codes(report, least=Severity.ERROR)
    found = next(f for f in report.findings if f.code == "journal-damaged")
    assert found.mend is not None
    mended = fsck(run, repair=True)
    assert codes(mended) == []


def test_damage_that_a_checkpoint_needs_is_not_repaired(run: RunDir) -> None:
    path = run.journal_file("train", 1)
    flip(path, path.stat().st_size // 2)
    before = path.read_bytes()
    report = fsck(run, repair=True)
    assert "journal-damaged" in codes(report, least=Severity.ERROR)
    assert "history-broken" in codes(report, least=Severity.ERROR)
    assert path.read_bytes() == before
    assert len(list(run.checkpoints.iterdir())) == 2


def test_a_missing_journal_is_told(run: RunDir) -> None:
    run.journal_file("train", 1).unlink()
    assert "history-broken" in codes(fsck(run, repair=True), least=Severity.ERROR)


@pytest.mark.parametrize("text", ["", "{}", '{"records": 3, "digest": "0", "state": {}}'])
def test_a_wrong_tracker_is_written_anew_from_the_journal(run: RunDir, text: str) -> None:
    run.tracker.write_text(text)
    assert codes(fsck(run)) == ["tracker-mismatch"]
    report = fsck(run, repair=True)
    assert codes(report) == []
    written, last = json.loads(run.tracker.read_text()), run.journal_file("train", 2)
    assert written["records"] > 3
    assert written["positions"] == {last.name: last.stat().st_size}
    assert (run.path / LOST / "tracker.json").read_text() == text


def test_what_a_repair_writes_is_as_closed_as_the_run(run: RunDir) -> None:
    run.path.chmod(0o700)
    run.tracker.unlink()
    assert fsck(run, repair=True).repairs
    assert stat.S_IMODE(run.tracker.stat().st_mode) == 0o600


def test_a_report_is_as_closed_as_the_run(run: RunDir) -> None:
    run.path.chmod(0o700)
    assert CliRunner().invoke(app, ["report", str(run.path)]).exit_code == 0
    assert {stat.S_IMODE(path.stat().st_mode) for path in run.report.iterdir()} == {0o600}


def test_a_tracker_of_another_state_is_noticed_though_its_own_digest_holds(run: RunDir) -> None:
    body = json.loads(run.tracker.read_text())
    body["records"] -= 1
    run.tracker.write_text(json.dumps(body))
    assert codes(fsck(run)) == ["tracker-mismatch"]


def test_changed_weights_are_found_and_moved_away(run: RunDir) -> None:
    weights = newest(run, "checkpoints/step_000006*/weights.pt")
    flip(weights, 100)
    assert codes(fsck(run)) == ["checkpoint-damaged"]
    report = fsck(run, repair=True)
    assert codes(report) == []
    assert (run.path / LOST / weights.relative_to(run.path)).exists()
    assert checkpoint.latest(run) == newest(run, "checkpoints/step_000003*")


def test_the_only_good_checkpoint_is_never_moved_away(run: RunDir) -> None:
    for weights in run.checkpoints.glob("*/weights.pt"):
        flip(weights, 100)
    report = fsck(run, repair=True)
    assert [f.code for f in report.findings if f.severity is Severity.ERROR] == ["checkpoint-damaged"] * 2
    assert len(list(run.checkpoints.glob("*/COMPLETE"))) == 2


def test_torn_and_left_behind_checkpoints_are_moved_away(run: RunDir) -> None:
    torn = run.checkpoints / "step_000007-0002"
    torn.mkdir()
    (torn / "weights.pt").write_text("half")
    void = run.checkpoints / "step_000009-0001"
    shutil.copytree(newest(run, "checkpoints/step_000003*"), void)
    marker = json.loads((void / "COMPLETE").read_text())
    (void / "COMPLETE").write_text(json.dumps(marker | {"records": marker["records"] + 50}))
    assert codes(fsck(run)) == ["checkpoint-torn", "checkpoint-void"]
    report = fsck(run, repair=True)
    assert codes(report) == []
    assert not torn.exists()
    assert not void.exists()
    assert (run.path / LOST / "checkpoints" / torn.name / "weights.pt").read_text() == "half"


def test_a_changed_configuration_is_told_and_ends_the_replay(run: RunDir) -> None:
    run.config_file.write_text(run.config_file.read_text() + "unknown: 1\n")
    assert codes(fsck(run, repair=True)) == ["frozen-changed"]


def test_an_open_seed_that_is_not_queued_is_queued_again(run: RunDir) -> None:
    (key, *_) = run.queue("seeds").keys("ready")
    for path in (run.path / "queues" / "seeds").rglob("*"):
        if path.is_file():
            path.unlink()
    assert codes(fsck(run)) == ["seed-missing"]
    report = fsck(run, repair=True)
    assert codes(report) == []
    assert key in run.queue("seeds").keys("ready")


def test_an_open_seed_whose_file_is_gone_is_queued_again_though_its_key_is_taken(run: RunDir) -> None:
    waiting = run.queue("seeds").keys("ready")
    for path in (run.path / "queues" / "seeds" / "ready").iterdir():
        path.unlink()
    assert set(codes(fsck(run))) == {"seed-missing"}
    report = fsck(run, repair=True)
    assert codes(report) == []
    assert sorted(run.queue("seeds").keys("ready")) == sorted(waiting)
    assert fsck(run, repair=True).repairs == ()


def test_an_answer_that_is_gone_is_told(run: RunDir) -> None:
    for folder in ("done", "claimed", "keys"):
        for path in (run.path / "queues" / "variants" / folder).iterdir():
            path.unlink()
    report = fsck(run)
    assert "answer-missing" in codes(report, least=Severity.ERROR)


def test_expanded_files_are_written_anew_from_the_answers(run: RunDir) -> None:
    path = run.expanded_file(1)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"query": "', b'"query": "Please: ', 1))
    assert codes(fsck(run)) == ["expanded-mismatch"]
    assert codes(fsck(run, repair=True)) == []
    assert path.read_bytes() == whole
    path.unlink()
    assert codes(fsck(run, repair=True)) == []
    assert path.read_bytes() == whole


def test_links_and_foreign_files_between_messages_are_moved_away(run: RunDir) -> None:
    ready = run.path / "queues" / "seeds" / "ready"
    (ready / "0+evil.json").symlink_to("/etc/passwd")
    (ready / "notes.txt").write_text("mine")
    report = fsck(run)
    assert codes(report) == ["queue-stray"]
    assert len([f for f in report.findings if f.code == "queue-stray"]) == 2
    assert codes(fsck(run, repair=True)) == []
    assert (run.path / LOST / "queues" / "seeds" / "ready" / "0+evil.json").is_symlink()
    assert (run.path / LOST / "queues" / "seeds" / "ready" / "notes.txt").read_text() == "mine"


def test_a_link_elsewhere_is_moved_away_before_anything_is_read_through_it(run: RunDir) -> None:
    run.tracker.rename(run.path / "tracker.kept")
    run.tracker.symlink_to(run.tracker)
    assert codes(fsck(run)) == ["link"]
    assert codes(fsck(run, repair=True)) == []
    assert not run.tracker.is_symlink()


def test_claims_of_dead_workers_are_handed_back(run: RunDir) -> None:
    queue = run.queue("seeds")
    waiting = queue.counts()["ready"]
    assert queue.claim("somebody-who-died") is not None
    assert codes(fsck(run)) == ["claims-stale"]
    assert codes(fsck(run, repair=True)) == []
    assert queue.counts()["ready"] == waiting
    assert queue.counts()["claimed"] == 0


def test_half_written_files_are_moved_away(run: RunDir) -> None:
    (run.path / ".0123456789abcdef.tmp").write_text("{")
    assert codes(fsck(run)) == ["leftover"]
    assert codes(fsck(run, repair=True)) == []
    assert (run.path / LOST / ".0123456789abcdef.tmp").read_text() == "{"


def test_a_run_that_is_followed_is_looked_at_but_not_repaired(run: RunDir) -> None:
    owner.take(run, 60.0)
    report = fsck(run)
    assert report.alive
    assert report.sound
    with pytest.raises(FsckError, match="Stop it first"):
        fsck(run, repair=True)


def test_the_command_prints_findings_and_says_by_its_exit_code_whether_the_run_is_sound(run: RunDir) -> None:
    fine = CliRunner().invoke(app, ["fsck", str(run.path)])
    assert fine.exit_code == 0
    assert "sound" in fine.stdout
    run.tracker.write_text("{")
    bad = CliRunner().invoke(app, ["fsck", str(run.path), "--json"])
    assert bad.exit_code == 1
    (finding,) = [f for f in json.loads(bad.stdout)["findings"] if f["severity"] == "error"]
    assert (finding["code"], finding["path"], finding["repairable"]) == (
        "tracker-mismatch",
        "tracker.json",
        True,
    )
    mended = CliRunner().invoke(app, ["fsck", str(run.path), "--repair"])
    assert mended.exit_code == 0
    assert "repaired: moved tracker.json" in mended.stdout
