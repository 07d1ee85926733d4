"""When things happen, as a datetime."""

from __future__ import annotations

from datetime import UTC, datetime

from ..system import REAL_SYSTEM

__all__ = ["utc_now"]


def utc_now() -> datetime:
    """
    Return the present, in UTC.
    """
    return datetime.fromtimestamp(REAL_SYSTEM.now(), UTC)
