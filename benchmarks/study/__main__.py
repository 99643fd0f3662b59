"""`python -m benchmarks.study run | status | tables`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.study import page, summary, world
from benchmarks.study.arms import ARMS, chosen
from benchmarks.study.driver import Driver
from benchmarks.study.job import ROOT, Site, planned
from rods.errors import RodsError

_SEEDS = world.REPORTED[:5]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked; 0, or 1 where a run failed, or 2 where nothing could be done."""
    asked = _parser().parse_args(arguments)
    try:
        return int(asked.do(asked))
    except (RodsError, OSError) as error:
        print(f"study: {error}", file=sys.stderr)
        return 2


def _run(asked: argparse.Namespace) -> int:
    jobs = [job for job in planned(chosen(asked.arms), asked.seeds) if not job.done(asked.results)]
    _say(f"{len(jobs)} runs to make")
    sites = [Site(asked.dir, asked.results, job) for job in jobs]
    return min(1, Driver(asked.dir, asked.jobs, asked.hours, _say).run(sites))


def _status(asked: argparse.Namespace) -> int:
    jobs = list(planned(chosen(asked.arms), asked.seeds))
    done = {(job.arm.name, job.seed) for job in jobs if job.done(asked.results)}
    there = {(each.arm, each.seed) for each in summary.read_all(asked.results)}
    for arm in chosen(asked.arms):
        marks = (_mark((arm.name, seed) in done, (arm.name, seed) in there) for seed in asked.seeds)
        print(f"{arm.name:28}", *(f"{seed}:{mark}" for seed, mark in zip(asked.seeds, marks, strict=True)))
    return 0


def _mark(done: bool, there: bool) -> str:
    if done:
        return "done"
    return "stale" if there else "missing"


def _tables(asked: argparse.Namespace) -> int:
    today = {(job.arm.name, job.seed): job.identity for job in planned(chosen(()), asked.seeds)}
    for path in page.build(asked.results, today, asked.docs, asked.headline):
        print(path)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.study", description="The study: docs/study.md."
    )
    commands = parser.add_subparsers(required=True)
    for name, do, told in (
        ("run", _run, "make the runs that are missing"),
        ("status", _status, "which runs there are"),
        ("tables", _tables, "write the page out of the summaries"),
    ):
        command = commands.add_parser(name, help=told, description=told)
        command.set_defaults(do=do)
        command.add_argument("--seeds", type=_seeds, default=_SEEDS, help="as 0-4 or 0,1,2 (default: 0-4)")
        command.add_argument("--results", type=Path, default=summary.RESULTS, help="folder of the summaries")
        if name != "tables":
            names = ", ".join(arm.name for arm in ARMS)
            command.add_argument("--arms", type=_names, default=(), help=f"of {names} (default: all)")
        if name == "run":
            command.add_argument(
                "--dir", type=Path, default=ROOT / "runs" / "study", help="folder of the runs"
            )
            command.add_argument(
                "--hours", type=_hours, default=4.0, help="interrupt what runs after so long"
            )
            command.add_argument("--jobs", type=_jobs, default=2, help="runs at once, a core each")
        if name == "tables":
            command.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the page")
            headline = ROOT / "analysis" / "headline.json"
            command.add_argument("--headline", type=Path, default=headline, help="for the report of a run")
    return parser


def _seeds(text: str) -> tuple[int, ...]:
    """0-4 or 0,1,2."""
    first, dash, last = text.partition("-")
    found = (
        tuple(range(int(first), int(last) + 1)) if dash else tuple(dict.fromkeys(map(int, text.split(","))))
    )
    if not found:
        raise argparse.ArgumentTypeError(f"{text}: expected the lower seed first, as in 0-4")
    return found


def _jobs(text: str) -> int:
    """One or more."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected 1 or more")
    return int(text)


def _hours(text: str) -> float:
    """More than none."""
    if not float(text) > 0:  # nor NaN
        raise argparse.ArgumentTypeError(f"{text}: expected more than 0")
    return float(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _say(text: str) -> None:
    print(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
