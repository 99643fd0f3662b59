"""Start an experiment: compose, check, plan, then submit it or run it here.

    python launch.py +experiment=rods_tiny                          run on this machine, follow it to the end
    python launch.py +experiment=rods_qwen4b launch.mode=plan       print what would be done, do nothing
    python launch.py +experiment=rods_tiny launch.resume=runs/NAME  continue a run
    python launch.py +experiment=rods_tiny seed=1,2 -m              several runs, one after another

Exit status: 0 finished (or submitted), 1 ended before its end, 2 a configuration or a launch that was
refused, 130 interrupted.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence

import hydra
import yaml
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from rods.config import LaunchMode, from_mapping, validate
from rods.errors import RodsError

REFUSED, INTERRUPTED = 2, 130
_exit_codes: list[int] = []  # one a point; Hydra drops what the decorated function returns


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def launch(composed: DictConfig) -> None:
    """One point: a single run, or one of a multirun's."""
    try:
        code = launch_point(composed, HydraConfig.get().overrides.task)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except (RodsError, OSError, yaml.YAMLError) as error:
        print(f"launch.py: {error}", file=sys.stderr)
        code = REFUSED
    if code == INTERRUPTED:
        sys.exit(code)  # the person who pressed Ctrl-C does not want the sweep's next point
    _exit_codes.append(code)


def launch_point(composed: DictConfig, overrides: Sequence[str]) -> int:
    """Check one composed configuration and do what its `launch.mode` says; returns the exit status.

    Args:
        overrides: what was typed for this point; kept in the run directory, to start it again.

    Raises:
        RodsError: refused; nothing was started.
    """
    # Imported here, since --help needs neither this nor what it brings along.
    from launchers import plan

    config = from_mapping(composed)
    validate(config)
    planned = plan.build(config)
    if config.launch.mode is LaunchMode.plan:
        _print(plan.render(planned))
        return 0
    from rods.roles import launching  # not needed to plan

    return launching.launch(
        config, planned, [text for text in overrides if not text.startswith("launch.resume=")]
    )


def _print(text: str) -> None:
    """To standard output, whose reader (head, less) may have seen enough."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # What is still buffered would fail once more when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _scratch_directory() -> str:
    """Where Hydra writes a sweep's multirun.yaml: nobody reads it (each run freezes its own)."""
    folder = tempfile.mkdtemp(prefix="rods-hydra-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


if __name__ == "__main__":
    OmegaConf.register_new_resolver("rods_scratch", _scratch_directory, use_cache=True)
    launch()
    sys.exit(max(_exit_codes, default=0))
