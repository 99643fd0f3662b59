"""`rods events`: the training job's journal as text, and what is added to it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rods.commands.common import LATEST, POLL_S, RunArgument, UsageError, find_run, flag

if TYPE_CHECKING:
    from rods.exchange.tail import JournalTail, Torn

_HEAD = ("name", "step", "epoch")
_LONGEST = 400  # characters of a collection; --json shows all


def events(
    run: RunArgument = LATEST,
    follow: Annotated[bool, flag("-f", "--follow", help="Keep printing what is added.")] = False,
    name: Annotated[list[str] | None, typer.Option(help="Only events of this name; repeatable.")] = None,
    lines: Annotated[
        int | None, typer.Option("-n", "--lines", min=0, help="Only the last N, then with -f what is added.")
    ] = None,
    as_json: Annotated[bool, flag("--json", help="One JSON object a line.")] = False,
) -> None:
    """Print what happened in a run, decision by decision: groups observed, seeds, variants, retirements, evaluations.

    These are the events of the trainer's journal, without those that a later attempt took back.

    Examples:

    - `rods events -n 20 -f`
    - `rods events NAME --name task_retired --name variant_injected`
    """
    from rods.curriculum.events import EVENTS
    from rods.exchange.rundir import RunDir
    from rods.exchange.tail import JournalTail
    from rods.fsck.check import WRITER

    unknown = sorted(set(name or ()) - EVENTS.keys())
    if unknown:
        raise UsageError(f"--name {unknown[0]}: expected one of {', '.join(EVENTS)}")
    tail = JournalTail(RunDir.open(find_run(run)).journal_dir, WRITER, appear_within_s=POLL_S)
    printer = _Printer(tail, frozenset(name or EVENTS), as_json, lines)
    try:
        printer.look()
        while follow:
            time.sleep(POLL_S)
            printer.look()
    except KeyboardInterrupt:
        raise typer.Exit from None


class _Printer:
    """Prints what changed since its last look."""

    def __init__(self, tail: JournalTail, names: frozenset[str], as_json: bool, lines: int | None) -> None:
        self._tail, self._names, self._as_json, self._lines = tail, names, as_json, lines
        self._shown = 0
        self._torn: Sequence[Torn] = ()

    def look(self) -> None:
        """One look at the journal."""
        news = self._tail.look()
        void = self._shown - news.kept
        if void:
            self._say(f"an attempt goes on from record {news.kept}: the last {void} events no longer count")
        wanted = [event for event in news.records if event["name"] in self._names]
        if self._lines is not None:
            wanted = wanted[max(0, len(wanted) - self._lines) :]
        self._lines = None  # what is added later is all shown
        for event in wanted:
            print(json.dumps(event, ensure_ascii=False) if self._as_json else _text(event))
        self._shown = news.kept + len(news.records)
        self._tell_torn()
        sys.stdout.flush()

    def _tell_torn(self) -> None:
        torn = self._tail.torn()
        for each in torn:
            if each not in self._torn:
                self._say(f"{each.path}: {each.size} bytes of a record {_fate(each)}")
        self._torn = torn

    def _say(self, sentence: str) -> None:
        sys.stdout.flush()
        print(f"rods: {sentence}", file=sys.stderr)


def _fate(torn: Torn) -> str:
    if torn.cut:
        return f"that its writer did not live to finish were cut; they are kept in {torn.path.name}.torn"
    return "that is not whole: it is being written, or its writer died"


def _text(event: dict[str, Any]) -> str:
    rest = " ".join(f"{key}={_value(value)}" for key, value in event.items() if key not in _HEAD)
    return f"step {event['step']:<6} epoch {event['epoch']:<3} {event['name']:<17} {rest}".rstrip()


def _value(value: Any) -> str:
    """As JSON; of a long collection, such as the scores of hundreds of tasks, only how long it is."""
    text = json.dumps(_rounded(value), ensure_ascii=False)
    return f"<{len(value)} values>" if isinstance(value, dict | list) and len(text) > _LONGEST else text


def _rounded(value: Any) -> Any:
    """With as many digits of each fraction as an eye compares; --json has them all."""
    match value:
        case float():
            return float(f"{value:.4g}") if abs(value) < 1 else round(value, 3)
        case dict():
            return {key: _rounded(inner) for key, inner in value.items()}
        case list():
            return [_rounded(inner) for inner in value]
    return value
