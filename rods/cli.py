"""The `rods` command: look at runs from any shell.

Every command reads the run directory alone. Heavy imports wait until a command needs them, so that
`rods status` answers at once.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
import yaml

from rods.errors import RodsError

LATEST = "latest"
_POLL_S = 1.0

app = typer.Typer(
    name="rods", help="Look at RODS runs.", no_args_is_help=True, pretty_exceptions_enable=False
)
tasks_app = typer.Typer(name="tasks", help="Look at seed tasks.", no_args_is_help=True)
app.add_typer(tasks_app)
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="A run directory, or 'latest' (newest under ./runs).")
]


class UsageError(RodsError):
    """A command that names something that is not there."""


class DamagedRunError(RodsError):
    """A run whose files are not what its roles write."""


def main() -> None:
    """The console script; what is wrong with a run or its files is a message, not a traceback."""
    try:
        app()
    except (RodsError, OSError, yaml.YAMLError) as error:
        print(f"rods: {error}", file=sys.stderr)
        sys.exit(2)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rods {metadata.version('rods-harness')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print it.")
    ] = False,
) -> None:
    """Look at RODS runs."""


@app.command()
def status(
    run: RunArgument = LATEST,
    as_json: Annotated[bool, typer.Option("--json", help="Print the state as JSON.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep looking until the run ends.")] = False,
) -> None:
    """What a run is doing: epoch, step, reward, zones, pool, queues, roles."""
    from rich.console import Console

    from rods.exchange.rundir import RunDir
    from rods.watch.progress import view
    from rods.watch.render import panel
    from rods.watch.state import read_state

    directory, console = RunDir.open(find_run(run)), Console()
    with _reading(directory.path):
        if as_json:
            typer.echo(json.dumps(read_state(directory).to_json(), indent=1))
        elif not watch:
            console.print(panel(read_state(directory)))
        else:
            with view(directory, console) as shown:
                while read_state(directory).status in ("waiting", "running"):
                    shown.tick()
                    time.sleep(_POLL_S)
            typer.echo(read_state(directory).sentence)


@app.command()
def logs(
    run: RunArgument,
    role: Annotated[str, typer.Argument(help="train, synthesis or supervisor.")],
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Keep printing what is added.")] = False,
) -> None:
    """Print a role's output and error output, of the newest attempt."""
    from rods.exchange.rundir import RunDir

    directory = RunDir.open(find_run(run))
    folder = directory.attempt_dir(directory.last_attempt())
    paths = [path for path in (folder / f"{role}.out", folder / f"{role}.err") if path.exists()]
    if not paths:
        there = ", ".join(sorted({path.stem for path in folder.glob("*.out")})) or "none"
        raise UsageError(f"no log of role {role!r} in {folder}; there are: {there}")
    chunks = _tail(paths) if follow else (path.read_bytes() for path in paths)
    try:
        for chunk in chunks:
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
    except KeyboardInterrupt:
        raise typer.Exit from None


@app.command()
def doctor(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Probe this directory; default: ./runs and the installation.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Probe a directory's file system (and the installation); exit 1 when a run would not be safe there."""
    from rods.doctor.command import doctor as examine

    raise typer.Exit(examine(directory, as_json))


@app.command()
def report(run: RunArgument = LATEST) -> None:
    """Build the report of a run again and print where it is."""
    from analysis.report import build
    from rods.exchange import permissions
    from rods.exchange.rundir import RunDir

    directory = RunDir.open(find_run(run)).path
    permissions.adopt_from(directory)
    with _reading(directory):
        paths = build(directory)
    typer.echo(str(paths.html))
    for plot in paths.plots:
        typer.echo(str(plot))


@app.command()
def fsck(
    run: RunArgument = LATEST,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what is safe; nothing is deleted.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check a run directory against its journal; exit 1 when something is not right."""
    from rods.exchange.rundir import RunDir
    from rods.fsck.check import fsck as check
    from rods.fsck.show import lines

    report = check(RunDir.open(find_run(run)), repair=repair)
    typer.echo(json.dumps(report.to_json(), indent=1) if as_json else "\n".join(lines(report)))
    raise typer.Exit(0 if report.sound else 1)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
def warmstart(context: typer.Context) -> None:
    """Make the shipped tiny policy again; `rods warmstart --help` lists the options."""
    from rods.warmstart.command import warmstart as command

    standalone = typer.Typer(name="rods warmstart", add_completion=False, pretty_exceptions_enable=False)
    standalone.command()(command)
    standalone(args=context.args, prog_name="rods warmstart")


@app.command()
def synthesize(
    count: Annotated[int, typer.Option(min=1, help="Variants wanted.")],
    out: Annotated[Path, typer.Option(help="The dataset's folder; one begun before is gone on with.")],
    tasks: Annotated[str, typer.Option(help="bfcl, scripted, a dataset's folder or a JSONL file.")] = "bfcl",
    types: Annotated[str, typer.Option(help="Of the seeds: base,miss_func,miss_param,long_context.")] = "",
    max_requests: Annotated[
        int | None, typer.Option(min=1, help="Give up after so many. Default: 20 a variant.")
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="As for launch.py: synthesis=paper …")
    ] = None,
) -> None:
    """Make a static dataset with the synthesis pipeline; killed at any time, the same command goes on."""
    from rods.roles import offline
    from rods.tasks.model import TaskType
    from rods.watch.counting import Counting

    names = [name for name in types.split(",") if name]
    unknown = sorted(set(names) - {kind.value for kind in TaskType})
    if unknown:
        raise UsageError(f"--types: no such type {', '.join(unknown)}; there are {', '.join(TaskType)}")
    wanted = tuple(TaskType(name) for name in names)
    order = offline.Order(tasks, count, out, wanted, max_requests or 20 * count, tuple(overrides or ()))
    try:
        manifest = offline.make(order, Counting(sys.stderr).tell)
    except KeyboardInterrupt:
        typer.echo(f"stopped; what is finished is kept in {out}, the same command goes on", err=True)
        raise typer.Exit(130) from None
    typer.echo(json.dumps(manifest["figures"], indent=1))
    if not manifest["complete"]:
        accepted, requests = manifest["figures"]["accepted"], manifest["figures"]["requests"]
        typer.echo(
            f"{accepted} of {count} variants after {requests} requests; see {out}/rejected.jsonl, or raise "
            "--max-requests",
            err=True,
        )
        raise typer.Exit(1)


@app.command()
def variants(
    run: RunArgument = LATEST,
    rejected: Annotated[bool, typer.Option("--rejected", help="Only what was rejected.")] = False,
    task_type: Annotated[str, typer.Option("--type", help="Only this task type.")] = "",
    seed: Annotated[str, typer.Option(help="Only of this task, or of this root.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    html: Annotated[
        bool, typer.Option("--html", help="Write report/variants.html, print where it is.")
    ] = False,
) -> None:
    """List what synthesis made: accepted variants and rejected requests, with reasons."""
    from rods.exchange.rundir import RunDir
    from rods.variants import page, table
    from rods.variants.collect import Filter, collect

    directory, wanted = RunDir.open(find_run(run)), Filter(rejected, task_type, seed)
    with _reading(directory.path):
        items = [item for item in collect(directory) if wanted.takes(item)]
        if html:
            typer.echo(str(page.build(directory, items)))
        elif as_json:
            for item in items:
                typer.echo(json.dumps(item.to_json(), ensure_ascii=False))
        else:
            table.show(items)


@tasks_app.command()
def audit(
    source: Annotated[str, typer.Option(help="Where the tasks come from: bfcl or scripted.")] = "bfcl",
    count: Annotated[int | None, typer.Option(help="Training tasks of a scripted source.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """List ground truth that no policy could produce: arguments that nothing it can see leads to."""
    from dataclasses import asdict

    from rods.config import TasksConfig
    from rods.simulation.exposure import expose
    from rods.tasks import load
    from rods.tasks.audit import audit as judge

    loaded = load(
        TasksConfig(source=source, train_count=count, heldout_count=None if source == "bfcl" else 0)
    )
    tasks, findings = (*loaded.train, *loaded.heldout), []
    for task in tasks:
        shown = expose(task)
        findings += judge(task, shown.results, shown.states, shown.tools)
    for item in findings:
        line = f"{item.task} turn {item.turn + 1} {item.function}: {item.reason}"
        typer.echo(json.dumps(asdict(item), ensure_ascii=False) if as_json else line)
    affected = len({item.task for item in findings})
    typer.echo(f"{len(findings)} arguments without a source in {affected} of {len(tasks)} tasks", err=True)


def find_run(run: str) -> Path:
    """The path that RUN means.

    Raises:
        UsageError: "latest" where there is no run.
    """
    if run != LATEST:
        return Path(run)
    candidates = [path.parent for path in Path("runs").glob("*/manifest.json")]
    if not candidates:
        raise UsageError(
            "RUN = latest: expected a run under ./runs, found none; give the path that launch.py printed"
        )
    return max(candidates, key=lambda path: path.stat().st_ctime)


@contextmanager
def _reading(directory: Path) -> Iterator[None]:
    """Files that are JSON or YAML, but not what the roles write, end in a message that names the run."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedRunError(
            f"{directory}: expected a run as its roles write it, found something else "
            f"({type(error).__name__}: {error}). A file there was damaged from outside; restore or remove it."
        ) from error


def _tail(paths: list[Path]) -> Iterator[bytes]:
    """What is in the files and what is added to them, for ever."""
    with_files = [path.open("rb") for path in paths]
    while True:
        chunks = [chunk for chunk in (file.read() for file in with_files) if chunk]
        yield from chunks
        if not chunks:
            time.sleep(_POLL_S)
