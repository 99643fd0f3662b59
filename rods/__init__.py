"""RODS: reward-driven online data synthesis for multi-turn tool-use agents (arXiv 2606.19047)."""
