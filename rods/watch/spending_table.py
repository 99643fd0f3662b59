"""Accounts of runs as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from launchers.cost import PAPER, Cost


def show(accounts: Sequence[Cost], console: Console) -> None:
    """Print each account, and what the paper's run took beside it."""
    for account in accounts:
        console.print(_table(account) if account.gpus or account.used else f"{account.run}: no GPUs")
        for line in _notes(account):
            console.print(line, markup=False, highlight=False)
        console.print()
    if len(accounts) > 1:
        console.print(_sums(accounts), markup=False, highlight=False)
    paper = " + ".join(f"{hours:g} {role}" for role, hours in PAPER.items())
    console.print(f"the paper's run: {paper} GPU-hours", markup=False, highlight=False)


def _table(account: Cost) -> Table:
    table = Table(title=account.run, title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("GPU-hours", no_wrap=True)
    for name in ("planned", "used", "lost", "job hours"):
        table.add_column(name, justify="right")
    for role, cost in account.roles.items():
        table.add_row(role, *map(_figure, (cost.planned, cost.used, cost.wasted, cost.hours)))
    table.add_row("together", *map(_figure, (account.planned, account.used, account.wasted)), "")
    return table


def _sums(accounts: Sequence[Cost]) -> str:
    limits = [account.planned for account in accounts if account.planned is not None]
    some = "" if len(limits) == len(accounts) else f" by the {len(limits)} that have a limit"
    planned = [f"{sum(limits):.2f} planned{some}"] if limits else []
    used, lost = (sum(getattr(account, name) for account in accounts) for name in ("used", "wasted"))
    figures = ", ".join([*planned, f"{used:.2f} used", f"{lost:.2f} lost"])
    return f"{len(accounts)} runs together: {figures} GPU-hours"


def _figure(value: float | None) -> str:
    return "no limit" if value is None else f"{value:.2f}"


def _notes(account: Cost) -> list[str]:
    energy = "not measured here" if account.energy_kwh is None else f"{account.energy_kwh:.1f} kWh"
    attempts = f"{account.attempts} attempt{'s' if account.attempts != 1 else ''}"
    notes = [f"{attempts}; energy: {energy}; from {account.source}"]
    return notes + ([f"not from accounting: {account.trouble}"] if account.trouble else [])
