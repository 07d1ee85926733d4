"""Times for people: UTC to the second, and how long ago that was. Times for programs: to the microsecond."""

from __future__ import annotations

from ..times import time_of

UNITS = (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
LENGTHS = (("h", 3_600), ("min", 60), ("s", 1))
JUST_NOW_SECONDS = 5
FEW_SECONDS = 10


def absolute(microseconds: int) -> str:
    """Return a time like 2026-11-21T10:00:03Z."""
    return time_of(microseconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def day(microseconds: int) -> str:
    """Return the day of a time, like 2026-11-21."""
    return time_of(microseconds).strftime("%Y-%m-%d")


def clock(microseconds: int) -> str:
    """Return a time within its day, like 10:00:03Z."""
    return time_of(microseconds).strftime("%H:%M:%SZ")


def relative(microseconds: int, now: float) -> str:
    """Return how long ago a time was, in the largest unit that fits; `now` is in seconds since 1970."""
    seconds = now - microseconds / 1_000_000
    if abs(seconds) < JUST_NOW_SECONDS:
        return "just now"
    unit, length = next((name, size) for name, size in UNITS if abs(seconds) >= size)
    count = int(abs(seconds) // length)
    plural = "" if count == 1 else "s"
    return f"{count} {unit}{plural} ago" if seconds > 0 else f"in {count} {unit}{plural}"


def duration(seconds: float) -> str:
    """Return how long something takes, in the largest unit that it has two of; a few seconds with their tenths."""
    if seconds < FEW_SECONDS:
        return f"{seconds:.1f} s"
    return next(f"{seconds / length:.0f} {name}" for name, length in LENGTHS if seconds >= 2 * length)


def told(microseconds: int, now: float) -> str:
    """Return a time in both ways."""
    return f"{absolute(microseconds)} ({relative(microseconds, now)})"
