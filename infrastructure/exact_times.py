"""Times for programs: UTC, to the microsecond."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def time_of(microseconds: int) -> datetime:
    """Return the time that is so long after 1970, UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


def exact(microseconds: int) -> str:
    """Return a time like 2026-11-21T10:00:03.000017Z, which names its moment exactly."""
    return time_of(microseconds).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
