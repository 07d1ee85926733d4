"""
The only module of the domain that reads the time and generates ids; it also writes times and days, in UTC, as text.

All other code gets a `System`, so that a test can decide the time and the next id.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, date, datetime, timedelta
from math import isfinite
from typing import Protocol

from .errors import InvalidInputError

DAY_SECONDS = 86_400
DAY_MICROSECONDS = DAY_SECONDS * 1_000_000
# In seconds: the years that can be shown, 1 to 9999.
YEARS_BEGIN, YEARS_END = -62_135_596_800, 253_402_300_800


class System(Protocol):
    """The time and new ids."""

    def now(self) -> float:
        """Return the current time in seconds since 1970, UTC."""

    def new_id(self, prefix: str) -> str:
        """Return `prefix` and 12 random hexadecimal digits."""


class Stopwatch(Protocol):
    """A clock that only measures durations."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start, which never decrease."""


class RealSystem:
    """The clock and the random source of this machine."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def new_id(self, prefix: str) -> str:
        return prefix + os.urandom(6).hex()


REAL_SYSTEM = RealSystem()


def time_of(microseconds: int) -> datetime:
    """Return the time that is `microseconds` after the start of 1970, UTC; beyond all years, the nearest one."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    except OverflowError:
        return (datetime.min if microseconds < 0 else datetime.max).replace(tzinfo=UTC)


def exact(microseconds: int) -> str:
    """Return a time like 2026-11-21T10:00:03.000017Z, to the microsecond."""
    # Not `strftime`, which may write the year 999 with three digits.
    return time_of(microseconds).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


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


def within_years(seconds: float) -> float:
    """Return a time in seconds since 1970, UTC; for one beyond all years, the end of the nearest year."""
    return min(max(seconds, YEARS_BEGIN), YEARS_END)


def require_time(seconds: float, what: str) -> float:
    """
    Return a time, if it is a finite number; `what` names it in the error.

    Raises:
        InvalidInputError: it is NaN or infinite, so times could not be ordered.
    """
    if not isfinite(seconds):
        raise InvalidInputError(f"{what} is {seconds}: it is in seconds since 1970")
    return seconds
