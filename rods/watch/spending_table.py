"""Accounts of runs as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from launchers.cost import PAPER, Cost

_WORDS = (("planned", "planned"), ("used", "used"), ("wasted", "lost"))


def show(accounts: Sequence[Cost], console: Console) -> None:
    """Print each account, and what the paper's run took beside it."""
    for account in accounts:
        console.print(_table(account) if account.total("planned") else f"{account.run}: no GPUs")
        for line in _notes(account):
            console.print(line, markup=False, highlight=False)
        console.print()
    if len(accounts) > 1:
        sums = ", ".join(
            f"{sum(account.total(name) for account in accounts):.2f} {word}" for name, word in _WORDS
        )
        console.print(f"{len(accounts)} runs together: {sums} GPU-hours", markup=False, highlight=False)
    paper = " + ".join(f"{hours:g} {role}" for role, hours in PAPER.items())
    console.print(f"the paper's run: {paper} GPU-hours", markup=False, highlight=False)


def _table(account: Cost) -> Table:
    table = Table(title=account.run, title_justify="left", box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("GPU-hours", no_wrap=True)
    for name in ("planned", "used", "lost", "job hours"):
        table.add_column(name, justify="right")
    for role, cost in account.roles.items():
        figures = (cost.planned, cost.used, cost.wasted, cost.hours)
        table.add_row(role, *(f"{figure:.2f}" for figure in figures))
    table.add_row("together", *(f"{account.total(name):.2f}" for name, _ in _WORDS), "")
    return table


def _notes(account: Cost) -> list[str]:
    energy = "not measured here" if account.energy_kwh is None else f"{account.energy_kwh:.1f} kWh"
    attempts = f"{account.attempts} attempt{'s' if account.attempts != 1 else ''}"
    notes = [f"{attempts}; energy: {energy}; from {account.source}"]
    return notes + ([f"not from accounting: {account.trouble}"] if account.trouble else [])
