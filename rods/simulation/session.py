"""What a rollout talks to: one dialogue over one world, advanced by one assistant message at a time."""

from __future__ import annotations

from rods.simulation.world import CallResult, World, open_world

__all__ = ["CallResult", "World", "open_world"]
