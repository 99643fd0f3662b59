"""The crash soak: a real run, killed over and over, must end as if nothing had happened.

Real: launch and resume, ownership, attempts, supervisor, entry, loop, ledger, journal, queues, checkpoints,
curriculum, daemon, pipeline and simulation. Stood in for: the policy (`policy`, one chain of hashes) and the
language model (the scripted backend of the product). `python -m soak --kills 300` in `tests/` runs it at length.
"""
