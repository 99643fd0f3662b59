"""Whatever happens to the files of a run, `rods fsck --repair` ends, loses nothing, and leaves what can go on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from fsck_examples import CONFIG, TASKS, Trainer, bytes_of, copied, flip, make_quickly
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from launchers import snapshot
from rods.config import Config
from rods.exchange.rundir import RunDir
from rods.fsck.check import fsck
from rods.training import checkpoint
from rods.training.ledger import Ledger


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return make_quickly(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module", autouse=True)
def parsed_once() -> Iterator[None]:
    """Parsing the configuration is most of a check's time: the same bytes are parsed once."""
    parsed: dict[bytes, Config] = {}

    def load(run: RunDir) -> Config:
        content = run.config_file.read_bytes() if run.config_file.is_file() else b""
        if content not in parsed:
            parsed[content] = parse(run)
        return parsed[content]

    parse = snapshot.load_config
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "load_config", load)
        yield


DAMAGE = st.sampled_from(["flip", "cut", "delete", "swap", "zeros", "link"])


@given(st.lists(st.tuples(DAMAGE, st.randoms(use_true_random=False)), min_size=1, max_size=3))
@settings(
    max_examples=15,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # no damage is simpler than another
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_whatever_happened_a_repair_ends_loses_nothing_and_has_nothing_to_do_the_second_time(
    made: RunDir, tmp_path: Path, damages: list[tuple[str, Random]]
) -> None:
    with copied(made, tmp_path) as run:
        for kind, random in damages:
            damage(run, kind, random)
        before = bytes_of(run)
        first = fsck(run, repair=True)
        again = fsck(run, repair=True)
        assert again.repairs == ()
        assert again.findings == first.findings
        after = bytes_of(run)
        assert [path for path, data in before.items() if not is_kept(data, after)] == []
        if first.sound:
            resumes(run)


def is_kept(data: bytes, files: dict[str, bytes]) -> bool:
    """Whether the bytes lie in a file, or in one that was cut and in what was cut from it."""
    return data in files.values() or any(
        data.startswith(head) and data[len(head) :] in files.get(f"{path}.torn", b"")
        for path, head in files.items()
    )


def damage(run: RunDir, kind: str, random: Random) -> None:
    """Something that happens to files; not to the manifest, without which it is no run."""
    skipped = ("manifest.json", "heartbeats", "attempts", "owners", "metrics")
    files = sorted(
        p for p in run.path.rglob("*") if p.is_file() and p.relative_to(run.path).parts[0] not in skipped
    )
    path, other = random.choice(files), random.choice(files)
    size = path.stat().st_size
    if kind == "flip" and size:
        flip(path, random.randrange(size))
    elif kind == "cut":
        os.truncate(path, random.randrange(size + 1))
    elif kind == "delete":
        path.unlink()
    elif kind == "swap":
        name = path.with_name("swapped")
        path.rename(name)
        other.rename(path) if other.exists() else None
        name.rename(other)
    elif kind == "zeros":
        with path.open("ab") as stream:
            stream.write(bytes(100))
    elif kind == "link":
        path.unlink()
        path.symlink_to(other)


def resumes(run: RunDir) -> None:
    """A run that is called sound can be continued, from a checkpoint or from the start."""
    found = checkpoint.latest(run)
    attempt = run.next_attempt()
    if found is None:
        Ledger.begin(run, attempt, CONFIG, TASKS).close()
    else:
        extra = checkpoint.read_extra(found)
        trainer = Trainer(run, Ledger.resume(run, attempt, CONFIG, TASKS, extra["ledger"]))
        trainer.handover.reopen()
        trainer.handover.receive()
        trainer.ledger.close()
