"""
The one place in the domain that reads the time and generates ids.

All other code gets a `System`, so that a test can decide the time and the next id.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Protocol

from .errors import InvalidInputError

DAY_SECONDS = 86_400
DAY_MICROSECONDS = DAY_SECONDS * 1_000_000


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


def require_time(seconds: float, what: str) -> float:
    """
    Return a time, if it is a finite number; `what` names it in the error.

    Raises:
        InvalidInputError: it is NaN or infinite, so times could not be ordered.
    """
    if not isfinite(seconds):
        raise InvalidInputError(f"{what} is {seconds}: it is in seconds since 1970")
    return seconds
