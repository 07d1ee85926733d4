"""When things happen, as a datetime."""

from __future__ import annotations

from datetime import UTC, datetime

from ..system import REAL_SYSTEM


def utc_now() -> datetime:
    """Return the present, in UTC."""
    return datetime.fromtimestamp(REAL_SYSTEM.now(), UTC)
