"""Which tasks are at the capability boundary, and how the pool of live tasks is kept."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class BoundaryConfig:
    """Which tasks lie at the capability boundary, and how many become seeds."""

    # boundary | random (ablation: any task of the step) | uniform (any of the pool) | posterior (earlier groups too)
    selection: str = "boundary"
    alpha_low: float = 0.20  # below: hard
    alpha_high: float = 0.85  # above: mastered
    max_seeds: int = 16  # M, per training step
    quotas: dict[str, int] = field(default_factory=dict)  # Mτ by task type; a type not named has none
    exclusion_steps: int = 13  # a seed task emitted at step s is not emitted again before s + exclusion_steps
    # none | adaptive (ours): where the zone is dry, seeds also come from beside it: of mastered tasks deeper variants,
    # or of hard ones shallower variants, whichever zone holds more
    depth_shift: str = "none"
    dry_below: float = 0.3  # depth_shift=adaptive: share of the observed tasks below which the zone is dry
    posterior_rollouts: int = 16  # selection=posterior: trials that the latest group counts for
    posterior_forgetting: float = 0.7  # selection=posterior: weight of a group relative to the one after it


@dataclass(frozen=True)
class BufferConfig:
    """The pool of live tasks."""

    capacity: int = 400  # P_max, live generated tasks
    injection_fraction: float = 0.20  # β, of the active pool, per epoch
    injection: str = "epoch"  # epoch: at the next epoch's start | stream (ours): at the next step, β an epoch
    sampling: str = "once"  # once: an epoch visits each active task once | prioritised: by φ, the same number
    review_epochs: int = 0  # ours: a mastered variant comes back after so many epochs unseen; 0: never
    burn_in: int = 1  # first observations of a variant that may drop it for being below alpha_low
    drift_high: float = 0.95  # mean reward above: retired as mastered
    drift_low: float = 0.20  # mean reward below: retired as too hard
    stale_epochs: int = 3  # a variant unsampled for so many epochs is removed
    retire: bool = True  # false: ablation, variants stay until capacity
    barrier: bool = False  # wait at an epoch's end for the open seeds: reproducible runs
    barrier_timeout_s: float = 600.0
