"""The trainer's side of the queues: what goes out, what comes in, and what a restart must not lose or double."""

import shutil
from dataclasses import replace

import pytest

from rods.config import BoundaryConfig, BufferConfig, Config, ExchangeConfig
from rods.curriculum import boundary, pool
from rods.curriculum.events import EpochFinished, EpochStarted, GroupObserved, RunStarted, SeedOutcome
from rods.exchange.lineage import digest, history
from rods.exchange.queue import DONE, Ending, Fate
from rods.exchange.rundir import RunDir
from rods.tasks.model import Call, Origin, Task, TaskType, Turn
from rods.tasks.taskset import make
from rods.training.handover import Handover
from rods.training.ledger import Ledger, LedgerError

CONFIG = Config(
    boundary=BoundaryConfig(max_seeds=4, quotas={"base": 4}, exclusion_steps=2),
    buffer=BufferConfig(capacity=8, injection_fraction=1.0, barrier=True),
)


def seed_task(name):
    turn = Turn(f"List {name}.", (Call("ls", {}),))
    state = {"GorillaFileSystem": {"root": {name: {"type": "directory", "contents": {}}}}}
    return Task(name, TaskType.BASE, ("GorillaFileSystem",), state, (turn,))


def variant_of(task, suffix):
    turn = Turn(f"What is in here, {suffix}?", task.turns[0].calls)
    return replace(task, id=f"{task.id}~{suffix}", seed_id=task.id, origin=Origin.VARIANT, turns=(turn,))


TASKS = make("two", [seed_task("a"), seed_task("b")], [])


class Side:
    """A trainer's handover at step 1 of epoch 1, both tasks observed at the boundary and emitted."""

    def __init__(self, run, ledger, config=CONFIG):
        self.run, self.ledger = run, ledger
        self.book = {task.id: task for task in TASKS.train}
        self.handover = Handover(run, ledger, self.book, config)

    def emit_both(self, *rewards):
        pairs = zip(TASKS.train, rewards or ((0.0, 1.0), (0.0, 1.0)), strict=True)
        observed = [GroupObserved(1, 1, task.id, group) for task, group in pairs]
        self.ledger.record([RunStarted(0, 0, TASKS.fingerprint, 0), EpochStarted(0, 1, 2), *observed])
        self.handover.emit(boundary.select(self.ledger.state, observed, 1, 1))
        return self.handover.open_keys()


@pytest.fixture
def run(tmp_path):
    return RunDir.create(tmp_path, "handover", "0" * 64)


@pytest.fixture
def side(run):
    return Side(run, Ledger.begin(run, 1, CONFIG, TASKS))


def answer(run, key, tasks, outcome="published", reason=""):
    message = {
        "key": key,
        "seed_key": key,
        "tasks": [task if isinstance(task, dict) else task.to_json() for task in tasks],
        "outcome": outcome,
        "reason": reason,
        "attempts": 1,
        "errors": {},
    }
    assert run.queue("variants").put(key, message)


def test_emitted_seeds_can_be_claimed_with_their_task_and_priority(side):
    keys = side.emit_both()
    claim = side.run.queue("seeds").claim("worker")
    assert [message.key for message in claim.messages] == keys
    assert [Task.from_json(message.content["task"]).id for message in claim.messages] == ["a", "b"]
    assert all(message.content["phi"] == message.priority == 1.0 for message in claim.messages)


def test_a_seed_says_how_deep_its_variants_shall_be_also_when_it_is_queued_again(run):
    config = replace(CONFIG, boundary=replace(CONFIG.boundary, depth_shift="adaptive"))
    ledger = Ledger.begin(run, 1, config, TASKS)
    Side(run, ledger, config).emit_both((1.0, 1.0), (1.0, 1.0))

    def shifts():
        queue = run.queue("seeds")
        return [queue.read("ready", key)["depth_shift"] for key in sorted(queue.keys("ready"))]

    assert shifts() == [1, 1]
    shutil.rmtree(run.path / "queues" / "seeds")
    Side(run, ledger, config).handover.reopen()
    assert shifts() == [1, 1]


def test_the_seeds_of_a_step_share_files_up_to_the_batch_size(side):
    side.emit_both()
    assert len(list((side.run.path / "queues" / "seeds" / "ready").iterdir())) == 1
    assert side.run.queue("seeds").counts()["ready"] == 2


def test_what_is_above_the_depth_limit_is_dropped_and_the_journal_says_so(run):
    config = replace(CONFIG, exchange=ExchangeConfig(max_ready_seeds=1))
    side = Side(run, Ledger.begin(run, 1, config, TASKS), config)
    (kept,) = side.emit_both()
    (closed,) = [e for e in history(run.journal_dir, "train") if e["name"] == "seed_closed"]
    assert closed["outcome"] == "dropped"
    assert "1 are allowed" in closed["reason"]
    assert run.queue("seeds").keys("ready") == [kept]
    assert run.queue("seeds").keys("dropped") == [closed["key"]]


def test_the_lowest_phi_is_dropped_be_it_old_or_new(run):
    config = replace(CONFIG, exchange=ExchangeConfig(max_ready_seeds=1))
    side = Side(run, Ledger.begin(run, 1, config, TASKS), config)
    better, worse = side.emit_both((0.0, 1.0), (0.25, 1.0, 1.0))[0], "000001-b"
    assert (better, worse) == ("000001-a", side.run.queue("seeds").keys("dropped")[0])


def test_what_a_dead_attempt_had_claimed_is_taken_uncounted(side):
    keys = side.emit_both()
    answer(side.run, keys[0], [variant_of(TASKS.train[0], "v")])
    for _ in range(5):  # more deaths than a poison message is allowed
        assert side.run.queue("variants").claim("train").deliveries == 1
        side.handover.reopen()
    side.handover.receive()
    assert side.ledger.state.requests[keys[0]].outcome is SeedOutcome.PUBLISHED


def test_answers_become_waiting_variants_and_close_their_seeds(side):
    keys = side.emit_both()
    answer(side.run, keys[1], [variant_of(TASKS.train[1], "v")])
    answer(side.run, keys[0], [], "dropped", "nothing executed")
    side.handover.receive()
    assert side.handover.open_keys() == []
    outcomes = {key: request.outcome for key, request in side.ledger.state.requests.items()}
    assert outcomes == {keys[0]: SeedOutcome.DROPPED, keys[1]: SeedOutcome.PUBLISHED}
    assert side.ledger.state.tasks["b~v"].status.value == "waiting"
    assert side.book["b~v"].origin is Origin.VARIANT


def test_the_order_of_arrival_leaves_no_trace_at_the_barrier(tmp_path):
    digests = []
    for order in ((0, 1), (1, 0)):
        run = RunDir.create(tmp_path, "order", "0" * 64)
        side = Side(run, Ledger.begin(run, 1, CONFIG, TASKS))
        keys = side.emit_both()
        for index in order:
            answer(run, keys[index], [variant_of(TASKS.train[index], "v")])
        side.handover.wait(5.0, lambda: False, lambda missing: None)
        digests.append(digest(history(run.journal_dir, "train")))
    assert digests[0] == digests[1]


def test_a_malformed_answer_is_set_aside_and_its_seed_dropped_with_the_reason(side):
    keys = side.emit_both()
    answer(side.run, keys[0], [{"id": "not a task"}])
    side.handover.receive()
    assert side.run.queue("variants").keys("quarantine") == [keys[0]]
    assert side.ledger.state.requests[keys[0]].outcome is SeedOutcome.DROPPED
    closed = [e for e in history(side.run.journal_dir, "train") if e["name"] == "seed_closed"]
    assert "missing keys" in closed[0]["reason"]
    assert side.handover.open_keys() == [keys[1]]


def test_seeds_unanswered_at_the_barrier_expire_and_may_be_answered_later(side):
    keys = side.emit_both()
    waits = []
    side.handover.wait(0.2, lambda: False, waits.append)
    assert waits
    assert side.ledger.state.requests[keys[0]].outcome is SeedOutcome.EXPIRED
    answer(side.run, keys[0], [variant_of(TASKS.train[0], "late")])
    side.handover.receive()
    assert side.ledger.state.requests[keys[0]].outcome is SeedOutcome.PUBLISHED
    assert "a~late" in side.ledger.state.tasks


def test_an_interrupted_barrier_closes_nothing(side):
    keys = side.emit_both()
    side.handover.wait(60.0, lambda: True, lambda missing: None)
    assert side.handover.open_keys() == keys


def test_expanded_holds_the_variants_of_the_epoch(side):
    keys = side.emit_both()
    answer(side.run, keys[0], [variant_of(TASKS.train[0], "v")])
    side.handover.receive()
    side.handover.write_expanded(1)
    lines = side.run.expanded_file(1).read_text().splitlines()
    assert len(lines) == 1
    assert '"id": "a~v"' in lines[0]


def test_resume_replays_to_the_snapshot_and_takes_consumed_answers_back(side, run):
    snapshot_before = side.ledger.snapshot().summary()
    keys = side.emit_both()
    answer(run, keys[0], [variant_of(TASKS.train[0], "v")])
    side.handover.receive()
    snapshot = side.ledger.snapshot().summary()

    # A later attempt continues from the later checkpoint: nothing is asked or admitted twice.
    resumed = Side(run, Ledger.resume(run, 2, CONFIG, TASKS, snapshot))
    resumed.handover.reopen()
    resumed.handover.receive()
    assert resumed.ledger.state.digest() == snapshot["digest"]
    assert "a~v" in resumed.book
    assert run.queue("seeds").counts()["ready"] == 2

    # Another continues from the earlier checkpoint: the same step is done again, and the answers that the
    # first attempt consumed serve the second.
    again = Side(run, Ledger.resume(run, 3, CONFIG, TASKS, snapshot_before))
    assert again.emit_both() == keys
    again.handover.receive()
    assert again.ledger.state.digest() == snapshot["digest"]
    assert run.queue("seeds").counts()["ready"] == 2


def test_a_seed_recorded_but_not_queued_is_queued_on_reopen(side, run):
    observed = [GroupObserved(1, 1, task.id, (0.0, 1.0)) for task in TASKS.train]
    side.ledger.record([RunStarted(0, 0, TASKS.fingerprint, 0), EpochStarted(0, 1, 2), *observed])
    side.ledger.record(boundary.select(side.ledger.state, observed, 1, 1))
    assert run.queue("seeds").counts()["ready"] == 0
    side.handover.reopen()
    assert run.queue("seeds").counts()["ready"] == 2


def test_an_open_seed_that_is_a_variant_is_queued_again_after_a_restart(side, run):
    keys = side.emit_both()
    answer(run, keys[0], [variant_of(TASKS.train[0], "v")])
    side.handover.receive()
    observed = [GroupObserved(9, 2, "a~v", (0.0, 1.0))]
    ledger = side.ledger
    ledger.record([EpochFinished(8, 1), *pool.inject(ledger.state, 8, 2), EpochStarted(8, 2, 3), *observed])
    side.handover.emit(boundary.select(ledger.state, observed, 9, 2))
    resumed = Side(run, Ledger.resume(run, 2, CONFIG, TASKS, ledger.snapshot().summary()))
    resumed.handover.reopen()
    assert resumed.handover.open_keys() == [keys[1], "000009-a~v"]
    assert Task.from_json(run.queue("seeds").read("ready", "000009-a~v")["task"]).id == "a~v"


@pytest.mark.parametrize("flaw", [{"turns": ()}, {"classes": ("Evil",)}])
def test_a_variant_that_cannot_be_played_is_refused_and_its_seed_closed(side, flaw):
    keys = side.emit_both()
    answer(side.run, keys[0], [replace(variant_of(TASKS.train[0], "v"), **flaw)])
    side.handover.receive()
    assert dict(side.ledger.state.refused) == {"unplayable": 1}
    assert "a~v" not in side.ledger.state.tasks
    assert side.handover.open_keys() == [keys[1]]


def test_a_seed_that_was_set_aside_does_not_hold_the_barrier(side):
    keys = side.emit_both()
    queue = side.run.queue("seeds")
    poison, other = keys
    queue.claim("worker").settle({poison: Ending(Fate.QUARANTINED, "it kills every worker"), other: DONE})
    answer(side.run, other, [])
    side.handover.wait(60.0, lambda: False, lambda missing: None)
    assert side.handover.open_keys() == []
    assert side.ledger.state.requests[poison].outcome is SeedOutcome.DROPPED
    closed = {
        e["key"]: e["reason"] for e in history(side.run.journal_dir, "train") if e["name"] == "seed_closed"
    }
    assert "it kills every worker" in closed[poison]


def test_an_unreadable_answer_closes_its_seed(side):
    keys = side.emit_both()
    answer(side.run, keys[0], [variant_of(TASKS.train[0], "v")])
    (file,) = (side.run.path / "queues" / "variants" / "ready").iterdir()
    file.write_bytes(b"\x00garbage")
    side.handover.receive()
    assert side.run.queue("variants").keys("quarantine") == [keys[0]]
    assert side.ledger.state.requests[keys[0]].outcome is SeedOutcome.DROPPED


def test_an_answer_ahead_of_its_seed_waits_without_a_trace(run):
    first = Side(run, Ledger.begin(run, 1, CONFIG, TASKS))
    keys = first.emit_both()
    answer(run, keys[0], [variant_of(TASKS.train[0], "v")])
    # The first attempt leaves no checkpoint: the second begins again and meets the answer before the seed.
    again = Side(run, Ledger.begin(run, 2, CONFIG, TASKS))
    again.handover.receive()
    assert history(run.journal_dir, "train") == []
    again.emit_both()
    again.handover.receive()
    assert again.ledger.state.requests[keys[0]].outcome is SeedOutcome.PUBLISHED
    assert not again.ledger.state.refused


def test_a_snapshot_that_the_journal_does_not_lead_to_is_refused(side, run):
    side.emit_both()
    snapshot = side.ledger.snapshot().summary()
    with pytest.raises(LedgerError, match="replaying"):
        Ledger.resume(run, 2, CONFIG, TASKS, {**snapshot, "digest": "0" * 64})
    with pytest.raises(LedgerError, match="records"):
        Ledger.resume(run, 2, CONFIG, TASKS, {**snapshot, "records": snapshot["records"] + 1})


def test_answers_taken_before_a_crash_and_others_are_taken_in_one_order(side):
    """The dead attempt had committed the second answer and only claimed the first."""
    keys = side.emit_both()
    for key, task in zip(keys, TASKS.train, strict=True):
        answer(side.run, key, [variant_of(task, "v")])
    claims = {claim.key: claim for claim in side.run.queue("variants").claim_many("train", 2)}
    claims[keys[1]].commit()
    side.handover.reopen()
    side.handover.receive()
    closed = [e["key"] for e in history(side.run.journal_dir, "train") if e["name"] == "seed_closed"]
    assert closed == keys
