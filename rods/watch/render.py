"""A run's state as a panel for a terminal, or as one line for a log."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rods.watch.state import RunState

_STYLES = {
    "running": "cyan",
    "finished": "green",
    "failed": "red",
    "interrupted": "yellow",
    "stopped": "yellow",
}


def line(state: RunState) -> str:
    """The state in one line: what a log without a terminal gets every few seconds."""
    if state.step is None:
        return f"[rods] {state.name} | {state.status} | {_roles(state) or 'no role has started'}"
    parts = [
        f"epoch {state.epoch}/{state.epochs_total or '?'}",
        f"step {state.step}/{state.steps_total or '?'}",
        f"reward {_number(state.reward)}",
        f"zones {_zones(state)}",
        f"pool {_pool(state)}",
        f"queues {_queues(state)}",
        f"variants {_variants(state)}",
        f"eta {duration(state.eta_s)}",
    ]
    return "[rods] " + " | ".join(parts)


def panel(state: RunState) -> RenderableType:
    """The state as a panel with a progress bar."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    total = state.steps_total or 1
    table.add_row("", ProgressBar(total=total, completed=min(state.step or 0, total), width=60))
    table.add_row("epoch", f"{_or_dash(state.epoch)} of {_or_dash(state.epochs_total)}")
    table.add_row(
        "step", f"{_or_dash(state.step)} of {_or_dash(state.steps_total)}   eta {duration(state.eta_s)}"
    )
    table.add_row("reward", _number(state.reward))
    table.add_row("zones", _zones(state))
    table.add_row("pool", _pool(state))
    table.add_row("queues", _queues(state))
    table.add_row("variants", _variants(state))
    table.add_row("roles", _roles(state))
    for evaluation in state.evaluations[-2:]:
        table.add_row("held out", _evaluation(evaluation))
    parts: list[RenderableType] = [table]
    if state.sentence:
        parts.append(Text(state.sentence))
    title = Text.assemble(state.name, " · ", (state.status, _STYLES.get(state.status, "white")))
    return Panel(Group(*parts), title=title, subtitle=f"attempt {state.attempt}", width=90)


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
    return " ".join(
        f"{name} {counts.get('ready', 0)}+{counts.get('claimed', 0)}"
        + (f" ({counts['quarantine']} quarantined)" if counts.get("quarantine") else "")
        for name, counts in state.queues.items()
    )


def _variants(state: RunState) -> str:
    return f"{state.synthesis.get('accepted', 0)} accepted, {state.synthesis.get('dropped', 0)} rejected"


def _roles(state: RunState) -> str:
    shown = {role: beat for role, beat in state.roles.items() if role != "supervisor"}
    return ", ".join(
        f"{role}: {beat['phase']} ({duration(beat['age_s'])} ago)" for role, beat in shown.items()
    )


def _evaluation(evaluation: dict[str, object]) -> str:
    mean = evaluation.get("mean")
    figure = f"{mean:.3f}" if isinstance(mean, float) else str(mean)
    where = f"epoch {evaluation.get('epoch')}, {evaluation.get('mode')}"
    return f"{where}: {figure} of {evaluation.get('count')} tasks"
