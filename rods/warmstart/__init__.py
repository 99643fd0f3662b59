"""How the shipped tiny policy is made: supervised training on scripted demonstrations, on one CPU core.

Start at `command`; the recipe is in `recipe`, its figures in `docs/tiny_policy.md`.
"""
