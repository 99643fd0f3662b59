"""`python -m benchmarks.study run | try | status | tables`."""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.study import page, summary, trials, world
from benchmarks.study.arms import ARMS, chosen
from benchmarks.study.driver import Driver
from benchmarks.study.job import ROOT, Job, Site, planned
from rods.errors import RodsError

_TRY = (
    f"make runs by other settings, on seeds {world.TUNING[0]} to {world.TUNING[-1]}, or on "
    f"{world.CHECKING[0]} to {world.CHECKING[-1]} to check what was found on those"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what is asked; 0, 1 where a run failed, 2 where nothing could be done, or 130 where it was interrupted."""
    asked = _parser().parse_args(arguments)
    try:
        return int(asked.do(asked))
    except (RodsError, OSError) as error:
        print(f"study: {error}", file=sys.stderr)
        return 2


def _run(asked: argparse.Namespace) -> int:
    return _make(asked, planned(chosen(asked.arms), asked.seeds), asked.dir, asked.results)


def _try(asked: argparse.Namespace) -> int:
    settings = sorted(asked.settings)
    jobs = list(planned([trials.under(arm, settings) for arm in chosen(asked.arms)], asked.seeds))
    told = " ".join(settings) or "the settings of the study"
    results = asked.results / asked.name
    trials.begin(results, told, asked.seeds)
    # By other settings the runs of an equal name are others, which a second --results must not throw away.
    digest = hashlib.sha256(told.encode()).hexdigest()[:8]
    return _make(asked, jobs, asked.dir / f"{asked.name}-{digest}", results)


def _make(asked: argparse.Namespace, jobs: Iterable[Job], folder: Path, results: Path) -> int:
    missing = [job for job in jobs if not job.done(results)]
    _say(f"{len(missing)} runs to make")
    sites = [Site(folder, results, job) for job in missing]
    driver = Driver(folder, asked.jobs, asked.hours, _say)
    failed = driver.run(sites)
    return 130 if driver.asked else min(1, failed)


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
    found = {}
    for name, do, told, seeds, results in (
        ("run", _run, "make the runs that are missing", world.REPORTED, summary.RESULTS),
        ("try", _try, _TRY, world.TUNING, trials.TRIALS),
        ("status", _status, "which runs there are", world.REPORTED, summary.RESULTS),
        ("tables", _tables, "write the page out of the summaries", world.REPORTED, summary.RESULTS),
    ):
        found[name] = command = commands.add_parser(name, help=told, description=told)
        command.set_defaults(do=do)
        told = f"as 0-4 or 0,1,2 (default: {seeds[0]}-{seeds[-1]})"
        command.add_argument("--seeds", type=_seeds, default=seeds, help=told)
        command.add_argument("--results", type=Path, default=results, help="folder of the summaries")
    found["try"].add_argument("name", type=_name, help="of the trial, and of its folder")
    told = "after NAME: overrides of launch.py, over the arm's and the study's"
    found["try"].add_argument("--settings", nargs="*", default=(), help=told)
    _making(found["run"], "study")
    _making(found["try"], "study_trials")
    names = ", ".join(arm.name for arm in ARMS)
    for name in ("run", "status"):
        found[name].add_argument("--arms", type=_names, default=(), help=f"of {names} (default: all)")
    found["try"].add_argument("--arms", type=_names, required=True, help=f"of {names}")
    found["tables"].add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the page")
    headline = ROOT / "analysis" / "headline.json"
    found["tables"].add_argument("--headline", type=Path, default=headline, help="for the report of a run")
    return parser


def _making(command: argparse.ArgumentParser, folder: str) -> None:
    command.add_argument("--dir", type=Path, default=ROOT / "runs" / folder, help="folder of the runs")
    command.add_argument("--hours", type=_hours, default=4.0, help="interrupt what runs after so long")
    command.add_argument("--jobs", type=_jobs, default=2, help="runs at once, a core each")


def _name(text: str) -> str:
    """One folder's name."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", text):
        raise argparse.ArgumentTypeError(f"{text}: expected letters, digits, _, - and .")
    return text


def _seeds(text: str) -> tuple[int, ...]:
    """0-4 or 0,1,2."""
    if not re.fullmatch(r"\d+-\d+|\d+(,\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text}: expected seeds as 0-4 or 0,1,2")
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
