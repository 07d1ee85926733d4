"""Times for programs: UTC, to the microsecond; and days."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from ..domain.errors import InvalidInputError


def time_of(microseconds: int) -> datetime:
    """Return the time that is so long after 1970, UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


def exact(microseconds: int) -> str:
    """Return a time like 2026-11-21T10:00:03.000017Z, which names its moment exactly."""
    return time_of(microseconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def day_named(day: date | str) -> str:
    """
    Return a day as rows have it.

    Raises:
        InvalidInputError: it is no day, or a time within one.
    """
    try:
        found = date.fromisoformat(day) if isinstance(day, str) else day
    except ValueError:
        found = None
    if not isinstance(found, date) or isinstance(found, datetime):
        raise InvalidInputError(f"{day!r} is no day: give a date, or a text like 2026-11-21; days are those of UTC")
    return found.isoformat()
