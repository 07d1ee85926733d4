"""Times that come from outside, in seconds since 1970, UTC."""

from __future__ import annotations

from math import isfinite

from .errors import InvalidInputError


def require_time(seconds: float, what: str) -> float:
    """
    Return a time if it is one; `what` names it in the error.

    Raises:
        InvalidInputError: it is no number, or infinite: nothing comes before or after such a time.
    """
    if not isfinite(seconds):
        raise InvalidInputError(f"{what} is {seconds}: it is in seconds since 1970")
    return seconds
