"""Which tasks to train on: statistics, boundary detection, the bounded pool and retirement.

Pure: no I/O, no torch, no clock, no random numbers. Decisions are functions from a state to events; the
training loop journals the events and folds them into the next state (`state`). Start reading at `events`.
"""
