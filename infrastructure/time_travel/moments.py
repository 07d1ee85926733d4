"""
What a moment of a whole store is: a position of its log, a time, or a name that was given to one.

A position cuts the log between two events, a time cuts every stream at the last event that was recorded by then. Both
are the same moment for all contexts.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ...domain.errors import InvalidInputError, NotFoundError
from ...domain.ids import Address, microseconds, parse_address
from ...domain.moments import MomentNames
from ...domain.positions import Moment, Position
from .log_end import LogEnd

# A cut of the log, or microseconds since 1970.
Cut = Moment | int


def cut_at(address: int | str | datetime | Moment | Position, names: MomentNames, end: LogEnd) -> Cut:
    """
    Return the moment that an address means, a position of the log, an aware time or a name: its end at the latest.

    Raises:
        InvalidInputError: the address is malformed, or a version, which a store does not have.
        NotFoundError: no moment has this name.
    """
    if isinstance(address, Position):
        return end.cut(Moment.parse(str(address)))
    parsed: Address = parse_address(address)
    if isinstance(parsed, int):
        raise InvalidInputError(f"{address!r} is a version, which one context has: for a store write pos:{parsed}")
    if isinstance(parsed, Moment):
        return end.cut(parsed)
    if isinstance(parsed, datetime):
        # What is still to be recorded does not belong to any moment that one can look at.
        return end.now() if parsed >= datetime.now(UTC) else microseconds(parsed)
    named = names.moments().get(parsed)
    if named is None:
        known = ", ".join(sorted(names.moments())) or "none yet"
        raise NotFoundError(f"no moment of this store is named {parsed!r} (names: {known})")
    return named


def cut_of(cut: Cut) -> datetime | Moment:
    """Return a cut as contexts take it."""
    return cut if isinstance(cut, Moment) else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=cut)
