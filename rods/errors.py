"""The base of every error that RODS raises on purpose.

An error of this family is meant to be read by a person: it says what was expected, what was found, where,
and what to do. Entry points print it as one message without a traceback; everything else is a bug.
"""


class RodsError(Exception):
    """Base class: `str(error)` is a complete message for the user."""
