"""The console script `rods`: answers Ctrl-C in one line from its first moment, while the commands are imported too."""

from __future__ import annotations

import sys

INTERRUPTED = 130  # of a shell: 128 + SIGINT


def main() -> None:
    """Run a command; see `rods.cli`."""
    try:
        from rods import cli  # the commands' imports take most of a second

        cli.main()
    except KeyboardInterrupt:
        print("rods: interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)
