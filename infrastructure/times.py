"""Times for programs, in UTC and to the microsecond; also days."""

from __future__ import annotations

from datetime import date, datetime

from ..domain.clock import time_of
from ..domain.errors import InvalidInputError


def exact(microseconds: int) -> str:
    """Return a time like 2026-11-21T10:00:03.000017Z, to the microsecond."""
    return time_of(microseconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def day_named(day: date | str) -> str:
    """
    Return a day in the form that rows use.

    Raises:
        InvalidInputError: it is not a day, or it has a time of day.
    """
    try:
        found = date.fromisoformat(day) if isinstance(day, str) else day
    except ValueError:
        found = None
    if not isinstance(found, date) or isinstance(found, datetime):
        raise InvalidInputError(f"{day!r} is no day: give a date, or a text like 2026-11-21; days are those of UTC")
    return found.isoformat()
