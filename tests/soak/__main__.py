"""The soak at length: `cd tests && python -m soak --kills 300`. Prints one JSON object; 1 when a run differed."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from soak.harness import Nursery, soak


def main() -> int:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--kills", type=int, default=300, help="deaths in all (default 300)")
    parser.add_argument("--seed", type=int, default=0, help="of the victims, the moments and the runs")
    parser.add_argument("--folder", type=Path, help="where the runs go and stay; default: a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rods-soak-") as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        nursery = Nursery(folder)
        try:
            summary = soak(
                nursery, folder, options.kills, options.seed, lambda line: print(line, file=sys.stderr)
            )
        finally:
            nursery.close()
    print(json.dumps(summary, indent=1))
    return 0 if summary["equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
