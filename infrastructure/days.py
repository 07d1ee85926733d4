"""Days, as users name them and rows have them: UTC, like 2026-11-21."""

from __future__ import annotations

from datetime import date, datetime

from ..domain.errors import InvalidInputError


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
