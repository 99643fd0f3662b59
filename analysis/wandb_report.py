"""A W&B report with panels for the figures of the study; one run set a system, its seeds averaged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analysis import mechanism
from analysis.systems import System
from rods.errors import RodsError

if TYPE_CHECKING:
    from wandb_workspaces.reports import v2

PANELS = (
    ("Training reward", ("train/reward_mean",)),
    ("Held-out reward", ("evaluation/heldout/greedy/mean", "evaluation/heldout/sampled/mean")),
    ("Held-out accuracy", ("evaluation/heldout/greedy/accuracy", "evaluation/heldout/sampled/accuracy")),
    ("Tasks by origin", ("train/pool_seeds", "train/pool_variants", "train/waiting", "train/retired")),
    ("Zones", ("train/zones/hard", "train/zones/boundary", "train/zones/mastered")),
    ("Share of groups without reward variance", ("train/zero_variance",)),
    ("Seeds and variants", ("train/seeds_emitted", "train/variants_accepted", "train/variants_refused")),
    ("Acceptance of synthesis", ("synthesis/acceptance_rate",)),
    ("Failed attempts of synthesis", tuple(f"synthesis/errors/{kind}" for kind in mechanism.KINDS)),
    ("Engine against learner", ("train/logprob_gap", "train/parity_gap")),
    ("Seconds of a step", ("train/seconds_rollout", "train/seconds_update", "train/seconds_sync")),
)
"""Title and the names under which the roles' trackers log what it shows."""
TABLES = ("seeds", "variants")
"""Of the synthesis run, as `rods.tracking_copy` logs them."""


class WandbReportError(RodsError):
    """A report that cannot be made or saved."""


def build(systems: Sequence[System], project: str, entity: str, title: str) -> v2.Report:
    """The report as an object of wandb-workspaces; nothing is sent.

    Args:
        entity: "" for the user's default, which W&B is asked for.

    Raises:
        WandbReportError: wandb-workspaces is not installed.
    """
    try:
        from wandb_workspaces.reports import v2
    except ImportError as error:
        raise WandbReportError(
            "a W&B report needs wandb-workspaces, which is not installed: pip install 'rods-harness[wandb]'"
        ) from error
    runsets = [
        v2.Runset(name=system.name, filters=_filter(system), groupby=["config.experiment", "config.ablation"])
        for system in systems
    ]
    panels: list[Any] = [
        v2.LinePlot(
            title=heading, x="Step", y=list(metrics), groupby_aggfunc="mean", groupby_rangefunc="minmax"
        )
        for heading, metrics in PANELS
    ]
    panels += [v2.WeavePanelSummaryTable(table_name=name) for name in TABLES]
    blocks: list[Any] = [
        v2.H1(text=title),
        v2.P(
            text="Bands reach from the lowest to the highest seed. The run directories are the truth: `rods report`."
        ),
        v2.PanelGrid(runsets=runsets, panels=panels),
    ]
    owner = {"entity": entity} if entity else {}
    return v2.Report(project=project, title=title[:128], blocks=blocks, width="fluid", **owner)


def spec(report: v2.Report) -> str:
    """The report as W&B would store it, as JSON text."""
    # The library has no public name for what its own save() sends.
    stored = json.loads(report._to_model().model_dump_json(by_alias=True))
    return json.dumps(stored, indent=1, ensure_ascii=False)


def _filter(system: System) -> str:
    """The W&B runs of a system, all roles: a run's W&B runs have its name as their group."""
    return f"Group in {json.dumps([run.name for run in system.runs.values()])}"
