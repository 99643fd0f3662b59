"""What can go wrong in the curriculum: a malformed event or state, and an event that cannot have happened."""

from __future__ import annotations

from rods.errors import RodsError


class CurriculumError(RodsError):
    """Base of the room's errors."""


class EventFormatError(CurriculumError):
    """A serialised event that does not have the expected form."""


class StateFormatError(CurriculumError):
    """A serialised state that does not have the expected form."""


class ImpossibleEventError(CurriculumError):
    """A well-formed event that cannot follow the state: a torn or mixed-up journal, or a bug."""
