"""
The one place in the domain that knows the time and makes up ids.

Everything else is handed a `System`, so that a test can say what time it is and which id comes next.
"""

from __future__ import annotations

import os
import time
from math import isfinite
from typing import Protocol

from .errors import InvalidInputError


class System(Protocol):
    """Time and ids, as the domain needs them."""

    def now(self) -> float:
        """Return the present in seconds since 1970, UTC."""

    def new_id(self, prefix: str) -> str:
        """Return `prefix` and 12 random hexadecimal digits."""


class Stopwatch(Protocol):
    """Time as it passes, for those who only measure how long something takes."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start, never going back: for measuring how long something takes."""


class RealSystem:
    """The clock and the random source of this machine."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def new_id(self, prefix: str) -> str:
        return prefix + os.urandom(6).hex()


REAL_SYSTEM = RealSystem()


def require_time(seconds: float, what: str) -> float:
    """
    Return a time if it is one; `what` names it in the error.

    Raises:
        InvalidInputError: it is no number, or infinite: nothing comes before or after such a time.
    """
    if not isfinite(seconds):
        raise InvalidInputError(f"{what} is {seconds}: it is in seconds since 1970")
    return seconds
