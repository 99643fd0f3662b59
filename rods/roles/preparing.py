"""A run directory from a plain YAML file, without Hydra: for the ready batch files in `sbatch/`.

python launch.py +experiment=rods_tiny cluster=slurm_a100 --cfg job >my.yaml    # or written by hand
python -m rods.roles.preparing my.yaml                                          # prints the run directory
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from launchers import plan
from rods.config import ConfigError, from_mapping, validate
from rods.errors import RodsError
from rods.exchange import owner
from rods.exchange.rundir import RunDir
from rods.roles import launching

REFUSED = 2


def prepare(file: Path) -> RunDir:
    """A new run directory with the configuration in `file` and this code frozen; nothing is started.

    Raises:
        ConfigError: the file holds no configuration, or one that contradicts itself.
        OSError: it cannot be read, or the run directory cannot be made.
    """
    try:
        data = yaml.safe_load(file.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: expected YAML ({' '.join(str(error).split())})") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{file}: expected a mapping of sections, found {type(data).__name__}")
    config = from_mapping(data)
    validate(config)
    run = launching.create(config, plan.build(config), [])
    owner.release(run)
    return run


def main() -> int:
    """The command: prints the run directory's path."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return REFUSED
    try:
        print(prepare(Path(sys.argv[1])).path)
    except (RodsError, OSError) as error:
        print(f"preparing: {error}", file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
