"""A run's state as a panel for a terminal, or as one line for a log."""

from __future__ import annotations

from datetime import datetime

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from launchers.cost import Cost
from launchers.states import Phase
from rods.watch.jobs import JobState, Part, deciding
from rods.watch.state import RunState, newest_evaluations
from rods.watch.steps import total_text

WIDTH = 90
_NARROWEST = 60
STYLES = {
    "running": "cyan",
    "finished": "green",
    "failed": "red",
    "interrupted": "yellow",
    "stopped": "yellow",
    "damaged": "red",
}
RESUMABLE = ("stopped", "failed", "interrupted")
_PHASE_STYLES = {Phase.running: "cyan", Phase.ending: "cyan", Phase.waiting: "yellow", Phase.over: "dim"}
_MODES = {"sampled": "at T=1", "greedy": "greedy"}
_SPLITS = {"heldout": "held out"}
_JOBS_SHOWN = 6


def line(state: RunState) -> str:
    """The state in one line: what a log without a terminal gets every few seconds."""
    if state.step is None:
        return f"[rods] {state.status} | {_roles(state)}"
    parts = [
        f"epoch {state.epoch}/{state.epochs_total or '?'}",
        f"step {state.step}/{_total(state) or '?'}",
        f"reward {_number(state.reward)}",
        f"zones {_zones(state)}",
        f"pool {_pool(state)}",
        f"queues {_queues(state)}",
        f"variants {_variants(state)}",
        f"eta {duration(state.eta_s)}" if state.goes_on else state.status,
    ]
    return "[rods] " + " | ".join(parts)


def panel(state: RunState, cost: Cost | None = None, width: int = WIDTH) -> RenderableType:
    """The state as a panel with a progress bar.

    Args:
        cost: what the run cost so far; None leaves the line out.
        width: of the terminal; the panel takes what it needs of it.
    """
    width = max(_NARROWEST, min(width, 110))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    total = state.steps_total or 1
    table.add_row("", ProgressBar(total=total, completed=min(state.step or 0, total), width=width - 30))
    for name, text in _rows(state):
        table.add_row(name, Text(text))
    if state.jobs:
        table.add_row("jobs", _jobs(state.jobs))
    if cost is not None:
        table.add_row("cost", Text(spent(cost)))
    parts: list[RenderableType] = [table]
    if state.sentence:
        parts.append(Text(state.sentence))
    if state.status in RESUMABLE and "rods resume" not in state.sentence:
        parts.append(Text(f"to go on: rods resume {state.path}", style="dim", overflow="fold"))
    parts += [Text(f"cannot be read: {trouble}", style="red") for trouble in state.troubles]
    title = Text.assemble(state.name, " · ", (state.status, STYLES.get(state.status, "white")))
    return Panel(Group(*parts), title=title, subtitle=f"attempt {state.attempt}", width=width)


def spent(cost: Cost) -> str:
    """GPU-hours so far in one line."""
    roles = ", ".join(f"{role} {hours(part.used)}" for role, part in cost.roles.items())
    text = f"{hours(cost.used)} GPU-hours ({roles})" if cost.gpus or cost.used else "no GPUs"
    text += f", {hours(cost.wasted)} lost to restarts" if cost.wasted >= 0.005 else ""
    return f"{text}; by the times of files, accounting gave no answer" if cost.trouble else text


def hours(value: float) -> str:
    """Hours with two digits behind the point below ten, else none."""
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def _rows(state: RunState) -> list[tuple[str, str]]:
    steps = f"{_or_dash(state.step)} of {_total(state) or '–'}"
    rows = [
        ("epoch", f"{_or_dash(state.epoch)} of {_or_dash(state.epochs_total)}"),
        ("step", f"{steps}   {_pace(state)}" if state.goes_on else steps),
        ("reward", _number(state.reward)),
        ("zones", _zones(state)),
        ("pool", _pool(state)),
    ]
    rows = rows if state.step is not None else [("step", "none yet")]
    rows += [("queues", _queues(state)), ("variants", _variants(state)), ("roles", _roles(state))]
    newest = newest_evaluations(state)
    return rows + [
        (_SPLITS.get(split, split), _evaluation(mode, line)) for (split, mode), line in newest.items()
    ]


def _total(state: RunState) -> str:
    return total_text(state.step, state.steps_total, state.steps_estimated)


def _pace(state: RunState) -> str:
    pace = (f"{value:.0f} {name.replace('_per_hour', '/h')}" for name, value in state.throughput.items())
    return f"eta {duration(state.eta_s)}   {' '.join(pace)}"


def _jobs(jobs: tuple[JobState, ...]) -> RenderableType:
    """The jobs that are not over, or the one that says how the run ended; a line a component."""
    open_jobs = [job for job in jobs if job.phase != Phase.over or job.returns] or [
        job for job in [deciding(jobs)] if job
    ]
    shown = open_jobs[:_JOBS_SHOWN]
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for job in shown:
        for part in job.parts:
            state = Text(part.state.split()[0].lower(), style=_PHASE_STYLES.get(Phase(part.phase), "white"))
            table.add_row(part.job_id, part.role, state, Text(_place(part)))
        if not job.parts:
            table.add_row(job.job_id, "+".join(job.roles), Text("unknown", style="yellow"), "")
    rest = len(jobs) - len(shown)
    troubles = dict.fromkeys(job.trouble for job in shown if job.trouble)
    notes = [f"and {rest} more (rods status --json lists all)"] if rest else []
    return Group(table, *(Text(note, style="dim") for note in [*notes, *troubles]))


def _place(part: Part) -> str:
    """Where a component runs and for how long, or why it does not."""
    if part.nodes:
        limit = f" of {duration(part.limit_s)}" if part.limit_s else ""
        return f"{part.nodes}  {duration(part.elapsed_s)}{limit}"
    expected = f", expected {clock(part.start)}" if part.start else ""
    return f"{part.why}{expected}"


def clock(time_s: float) -> str:
    """A moment by this machine's clock: 30 Nov 14:05."""
    return datetime.fromtimestamp(time_s).strftime("%d %b %H:%M")


def duration(seconds: float | None) -> str:
    """Seconds as 1h02m, 3m20s or 7s; "–" when unknown."""
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def _or_dash(value: int | None) -> str:
    return "–" if value is None else str(value)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _zones(state: RunState) -> str:
    return " ".join(f"{zone} {count}" for zone, count in state.zones.items()) or "–"


def _pool(state: RunState) -> str:
    if not state.pool:
        return "–"
    pool = state.pool
    text = f"{pool.get('active', 0)} ({pool.get('seeds', 0)} seeds, {pool.get('variants', 0)} variants)"
    return f"{text}, {pool['waiting']} waiting" if pool.get("waiting") else text


def _queues(state: RunState) -> str:
    return ", ".join(
        f"{name} {counts.get('ready', 0)} ready {counts.get('claimed', 0)} claimed"
        + (f" {counts['quarantine']} quarantined" if counts.get("quarantine") else "")
        for name, counts in state.queues.items()
    )


def _variants(state: RunState) -> str:
    return f"{state.synthesis.get('accepted', 0)} accepted, {state.synthesis.get('dropped', 0)} rejected"


def _roles(state: RunState) -> str:
    shown = {role: beat for role, beat in state.roles.items() if role != "supervisor"}
    told = ", ".join(
        f"{role}: {beat['phase']} ({duration(beat['age_s'])} ago)" for role, beat in shown.items()
    )
    return told or ("starting, none has reported yet" if state.status == "running" else "no role has started")


def _evaluation(mode: str, evaluation: dict[str, object]) -> str:
    mean = evaluation.get("mean")
    figure = f"{mean:.3f}" if isinstance(mean, float) else str(mean)
    return f"{figure} {_MODES.get(mode, mode)} (epoch {evaluation.get('epoch')}, {evaluation.get('count')} tasks)"
