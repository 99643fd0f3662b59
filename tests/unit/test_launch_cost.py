"""GPU-hours by hand-made accounting: every start counts, by its role's GPUs; lost is what nobody went on from."""

from __future__ import annotations

import pytest
from slurm_answers import SACCT

from launchers.cost import Progress, Span, Step, cost, energy_j, lost_gpu_hours, spans_of_jobs
from launchers.jobs import SubmittedJob
from launchers.reasons import phrase
from launchers.scheduler import Record, parse_sacct
from launchers.states import lookup

HOUR = 3600.0


def job(job_id: str, *roles: str, coschedule: str = "het", attempt: int = 1) -> SubmittedJob:
    """A submission with 8 GPUs a role."""
    return SubmittedJob(job_id, roles, coschedule, attempt, 0.0, dict.fromkeys(roles, 8))


def record(job_id: str, begin: float, hours: float, state: str = "COMPLETED", gpus: int | None = 8) -> Record:
    """A start that began at `begin` hours."""
    return Record(
        job_id,
        lookup(state),
        state,
        start=begin * HOUR,
        end=(begin + hours) * HOUR,
        elapsed_s=hours * HOUR,
        gpus=gpus,
    )


def test_each_component_of_a_heterogeneous_job_is_its_role() -> None:
    rows = [record("7+0", 0, 2), record("7+1", 0, 1.5)]
    spans = spans_of_jobs([job("7", "train", "synthesis")], {"7": rows})
    assert [(span.role, span.gpus, span.hours(0)) for span in spans] == [
        ("train", 8, 2),
        ("synthesis", 8, 1.5),
    ]


def test_one_job_of_both_roles_is_divided_by_their_gpus() -> None:
    spans = spans_of_jobs(
        [job("7", "train", "synthesis", coschedule="single")], {"7": [record("7", 0, 2, gpus=16)]}
    )
    assert {span.role: span.gpus for span in spans} == {"train": 8, "synthesis": 8}


def test_every_start_is_an_attempt_of_its_own_and_a_waiting_one_is_none() -> None:
    waiting = Record("7", lookup("PENDING"), "PENDING", elapsed_s=0.0)
    never_began = record("7", 1.5, 0, "CANCELLED")
    rows = [record("7", 0, 1, "REQUEUED"), never_began, record("7", 2, 3), waiting]
    spans = spans_of_jobs([job("7", "train", attempt=4)], {"7": rows})
    assert [span.attempt for span in spans] == [4, 5]


def test_an_old_job_of_the_same_number_is_not_ours() -> None:
    ours = SubmittedJob("7", ("train",), "het", 1, 100 * HOUR, {"train": 8})
    spans = spans_of_jobs([ours], {"7": [record("7", 2, 50), record("7", 100, 1)]})
    assert [(span.attempt, span.hours(0)) for span in spans] == [(1, 1.0)]


def test_what_slurm_printed_is_counted() -> None:
    rows = [row for row in parse_sacct(SACCT) if row.job_id == "5"]
    spans = spans_of_jobs([job("5", "train")], {"5": rows})
    assert [(span.attempt, span.hours(1796028344 + HOUR)) for span in spans] == [(1, 3 / HOUR), (2, 1.0)]
    assert spans[1].end is None, "it goes on"


TRAINER = [Span("train", 1, 8, 0, 10 * HOUR), Span("train", 2, 8, 11 * HOUR, 20 * HOUR)]
STEPS = tuple(Step(step, step * HOUR) for step in range(1, 10))


@pytest.mark.parametrize(
    ("after", "saved", "finished", "lost_hours"),
    [
        # Attempt 2 goes on from step 6, saved at 6 h; attempt 1 went on to 10 h.
        ((Step(7, 12 * HOUR),), 7, True, 4),
        # It goes on from the last step: only what was begun after it is lost.
        ((Step(10, 12 * HOUR),), 10, True, 1),
        # From nothing: all of attempt 1 is lost.
        ((Step(1, 12 * HOUR),), 1, True, 10),
        # The second attempt ended too, 5 h after its last saved step.
        ((Step(10, 12 * HOUR), Step(11, 15 * HOUR), Step(12, 18 * HOUR)), 11, False, 1 + 5),
        # The second attempt did not get to a step.
        ((), 9, False, 1 + 9),
    ],
)
def test_lost_is_the_time_after_the_step_that_the_next_attempt_went_on_from(
    after: tuple[Step, ...], saved: int, finished: bool, lost_hours: float
) -> None:
    progress = Progress(STEPS + after, saved, finished)
    assert lost_gpu_hours(TRAINER, progress) == pytest.approx(8 * lost_hours)


def test_a_run_that_goes_on_has_lost_nothing_yet() -> None:
    assert lost_gpu_hours([Span("train", 1, 8, 0, None)], Progress(STEPS)) == 0


def test_the_account_has_every_planned_role_and_sums() -> None:
    spans = [*TRAINER, Span("synthesis", 1, 8, 0, None)]
    found = cost(
        "r",
        "accounting",
        spans,
        {"train": 8, "synthesis": 8},
        Progress(STEPS, 9),
        2 * HOUR,
        limit_hours=56,
        energy_j=7.2e6,
    )
    assert found.attempts == 2
    assert found.roles["train"].used == 8 * 19
    assert found.roles["synthesis"].used == 16
    assert found.roles["synthesis"].wasted == 0
    assert found.energy_kwh == 2.0
    plain = found.to_json()
    assert plain["total"] == {"planned": 896, "used": 168, "wasted": pytest.approx(8 * (1 + 9))}
    assert plain["paper"] == {"train": 448, "synthesis": 448}


def test_a_role_without_gpus_costs_hours_only() -> None:
    found = cost("r", "files", [Span("train", 1, 0, 0, HOUR)], {"train": 0}, Progress(), 0)
    assert (found.roles["train"].used, found.roles["train"].hours, found.energy_kwh) == (0, 1, None)


def test_without_a_time_limit_nothing_is_planned() -> None:
    found = cost("r", "files", [Span("train", 1, 4, 0, HOUR)], {"train": 4, "synthesis": 2}, Progress(), 0)
    assert (found.gpus, found.planned, found.used) == (6, None, 4)
    assert found.to_json()["total"]["planned"] is None


def test_energy_is_summed_where_it_is_measured() -> None:
    text = "5|COMPLETED|1|1|2|1|n1|cpu=1,energy=3600|0|0:0\n6|COMPLETED|1|1|2|1|n1|cpu=1|0|0:0\n"
    rows = parse_sacct(text)
    assert energy_j({"5": rows[:1], "6": rows[1:]}) == 3600
    assert energy_j({"6": rows[1:]}) is None


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("Resources", "waits for free nodes"),
        ("QOSMaxGRESPerUser", "a limit of the QOS is reached (QOSMaxGRESPerUser)"),
        ("SomethingNew", "SomethingNew"),
        ("", ""),
    ],
)
def test_a_reason_to_wait_is_a_phrase(reason: str, text: str) -> None:
    assert phrase(reason) == text
