"""The life of a training rank other than 0: `python -m rods.roles.following RUN ATTEMPT`, by `rods.roles.ranks`."""

from __future__ import annotations

import sys
from pathlib import Path

from setproctitle import setproctitle

from launchers import snapshot
from rods import tasks as task_sources
from rods.errors import RodsError
from rods.exchange import permissions
from rods.exchange.rundir import RunDir
from rods.roles.ranks import live_as_follower
from rods.roles.train import build_stepper, quiet
from rods.training.ranks import follow


def main() -> int:
    """Build the policy as rank 0 does and make its calls until the end; returns the exit status."""
    live_as_follower()
    run, attempt = RunDir.open(Path(sys.argv[1])), int(sys.argv[2])
    # As rank 0's title, without blanks (`rods.roles.perform`).
    setproctitle(f"rods-train-rank:{run.name}")
    permissions.adopt_from(run.path)
    try:
        config = snapshot.load_config(run)
        quiet(config)
        stepper = build_stepper(run.attempt_dir(attempt), config, task_sources.load(config.tasks))
        try:
            follow(stepper)
        finally:
            stepper.close()
    except RodsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
