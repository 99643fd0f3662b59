"""Slurm's words for a job's state: each has its row, and what is not known is never taken for an end."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchers.states import TABLE, Phase, lookup

# squeue(1) of Slurm 22.05, JOB STATE CODES.
SQUEUE = {
    "BF": "BOOT_FAIL",
    "CA": "CANCELLED",
    "CD": "COMPLETED",
    "CF": "CONFIGURING",
    "CG": "COMPLETING",
    "DL": "DEADLINE",
    "F": "FAILED",
    "NF": "NODE_FAIL",
    "OOM": "OUT_OF_MEMORY",
    "PD": "PENDING",
    "PR": "PREEMPTED",
    "R": "RUNNING",
    "RD": "RESV_DEL_HOLD",
    "RF": "REQUEUE_FED",
    "RH": "REQUEUE_HOLD",
    "RQ": "REQUEUED",
    "RS": "RESIZING",
    "RV": "REVOKED",
    "SI": "SIGNALING",
    "SE": "SPECIAL_EXIT",
    "SO": "STAGE_OUT",
    "ST": "STOPPED",
    "S": "SUSPENDED",
    "TO": "TIMEOUT",
}


@pytest.mark.parametrize(("code", "word"), SQUEUE.items())
def test_every_state_of_squeue_is_known_by_its_word_and_its_code(code: str, word: str) -> None:
    row = lookup(word)
    assert (row.word, row.code) == (word, code)
    assert row.phase is not Phase.unknown
    assert lookup(code) is row
    assert lookup(word.lower()) is row


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("CANCELLED by 1000", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        (" RUNNING\n", "RUNNING"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("NODE_FAIL+", "NODE_FAIL"),
        ("cancelled by 0", "CANCELLED"),
    ],
)
def test_what_sacct_makes_of_a_word_is_understood(text: str, word: str) -> None:
    assert lookup(text).word == word


@pytest.mark.parametrize(
    "text", ["", "  ", "+", "UNKNOWN", "None", "RE+", "COMPLETEDLY", "5", "COMPL", "\0", "É"]
)
def test_what_is_not_known_is_unknown_and_no_end(text: str) -> None:
    row = lookup(text)
    assert row.phase is Phase.unknown
    assert row.ok
    assert row.sentence
    assert row.advice


@given(st.text(string.printable + "ÄÖ✓"))
def test_any_text_has_a_row(text: str) -> None:
    row = lookup(text)
    assert row in TABLE or row.phase is Phase.unknown


def test_a_run_is_over_for_good_only_in_these_states() -> None:
    final = {row.word for row in TABLE if row.phase is Phase.over and not row.returns}
    assert final == {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "LAUNCH_FAILED",
        "OUT_OF_MEMORY",
        "RECONFIG_FAIL",
        "REVOKED",
        "TIMEOUT",
    }


def test_an_end_is_good_only_when_slurm_says_completed() -> None:
    assert [row.word for row in TABLE if row.phase is Phase.over and row.ok] == ["COMPLETED"]


@pytest.mark.parametrize("word", ["PREEMPTED", "NODE_FAIL"])
def test_what_slurm_requeues_comes_back_by_itself(word: str) -> None:
    assert lookup(word).returns


@pytest.mark.parametrize("word", ["REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"])
def test_a_held_job_waits_for_a_person_who_is_told_so(word: str) -> None:
    row = lookup(word)
    assert row.phase is Phase.waiting
    assert not row.returns
    assert "release" in row.advice


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.word)
def test_whoever_must_act_is_told_what_to_do(row: object) -> None:
    waits_or_is_back = row.returns or row.ok  # type: ignore[attr-defined]
    assert waits_or_is_back or row.advice  # type: ignore[attr-defined]
