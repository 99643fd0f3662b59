"""What can go wrong between a valid configuration and two running roles."""

from __future__ import annotations

from rods.errors import RodsError


class LaunchError(RodsError):
    """A run that cannot be started, continued or submitted; the message says why and what to do."""


class SnapshotError(RodsError):
    """Frozen code or configuration that is no longer what was frozen; names the file."""
