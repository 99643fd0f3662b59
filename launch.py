"""Start an experiment: compose, check, plan, then submit it or run it here.

    python launch.py +experiment=rods_tiny                          run on this machine, follow it to the end
    python launch.py +experiment=rods_qwen4b launch.mode=plan       print what would be done, do nothing
    rods resume latest                                              continue a run
    python launch.py -m +experiment=rods_tiny seed=1,2              a sweep: every combination is a run of its own

Exit status: 0 finished (or submitted, or planned), 1 ended before its end or not submitted, 2 a configuration or a
launch that was refused, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial

try:  # the imports take a second, in which Ctrl-C would end in a traceback
    import hydra
    from hydra.conf import HydraConf
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import DictConfig

    from launchers.sweep_overrides import in_order
    from launchers.terminal import exit_status, show
    from rods.config import ConfigError, LaunchMode, from_mapping, validate
    from rods.config.typed import check_named
except ModuleNotFoundError as error:
    told = "this Python lacks the packages of RODS: run `make install`, then .venv/bin/python launch.py …"
    print(f"launch.py: {told} ({error})", file=sys.stderr)
    sys.exit(2)
except KeyboardInterrupt:
    print("launch.py: interrupted", file=sys.stderr)
    sys.exit(130)

_MULTIRUN = ("-m", "--multirun")


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def launch(composed: DictConfig) -> None:
    """One run; a multirun goes to `hydra_plugins.rods_sweep`. Ends the process: Hydra would drop the status."""
    sys.exit(exit_status(partial(launch_one, composed, HydraConfig.get())))


def launch_one(composed: DictConfig, asked: HydraConf) -> int:
    """Check one composed configuration and do what its `launch.mode` says; returns the exit status.

    Args:
        asked: Hydra's own settings: how it was called, and with what.

    Raises:
        RodsError: refused; nothing was started.
    """
    # Imported here, since --help needs neither this nor what it brings along.
    from launchers import paths, plan
    from rods.roles import place

    overrides = list(asked.overrides.task)
    _check_single(asked, overrides)
    config = from_mapping(composed)
    check_named(config)
    validate(config)
    config = paths.absolute(config)
    planned = plan.build(config)
    if config.launch.mode is LaunchMode.plan:
        place.check_files(config, overrides)
        place.warn([config])
        show(plan.render(planned))
        return 0
    from rods.roles import launching  # not needed to plan

    return launching.launch(
        config, planned, [text for text in overrides if not text.startswith("launch.resume=")]
    )


def _check_single(asked: HydraConf, overrides: Sequence[str]) -> None:
    """Refuse what is a sweep and would become one run, and a sweep that another sweeper has taken apart."""
    if asked.mode is RunMode.MULTIRUN:
        raise ConfigError(
            f"hydra.sweeper = {asked.sweeper._target_}: a sweep is expanded and launched by RODS itself; leave "
            "`hydra/sweeper=…` out"
        )
    given = {text.split("=")[0].lstrip("+~") for text in overrides}
    params = asked.sweeper.params or {}
    swept = [f"{key}={value}" for key, value in params.items() if key.lstrip("+~") not in given]
    if swept:
        raise ConfigError(
            f"hydra.sweeper.params: this experiment is a sweep ({', '.join(swept)}); add -m to launch all of its "
            "runs, or give a value for each key to launch one"
        )


def _run() -> int:
    launch()
    return 0  # what Hydra only shows: --help, --cfg


def _arguments(typed: Sequence[str]) -> list[str]:
    """What was typed, in the order that works: -m may stand anywhere, an experiment comes before its ablation."""
    flags = [text for text in typed if text in _MULTIRUN]
    others = [text for text in typed if text not in _MULTIRUN]
    overrides = iter(in_order([text for text in others if _is_override(text)]))
    return [*flags, *(next(overrides) if _is_override(text) else text for text in others)]


def _is_override(text: str) -> bool:
    return "=" in text and not text.startswith("-")


if __name__ == "__main__":
    sys.argv[1:] = _arguments(sys.argv[1:])
    # Hydra would print its own text and end with 1; so it raises what is told here, with the status of a refusal.
    os.environ["HYDRA_FULL_ERROR"] = "1"
    sys.exit(exit_status(_run))
