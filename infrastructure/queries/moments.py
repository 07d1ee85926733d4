"""Moments of a store: a name, a time or a position as a cut of the log, and the end of the log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ...domain.errors import InvalidInputError, NotFoundError
from ...domain.ids import Address, microseconds, parse_address
from ...domain.log.ports import LiveLog
from ...domain.moments import MomentNames
from ...domain.positions import BEGINNING, Moment, Position


class LogEnd:
    """The end of a log, asked for again only where it matters: on PostgreSQL that is a question about every slice."""

    def __init__(self, log: LiveLog) -> None:
        self._log = log
        self._seen = BEGINNING

    def now(self) -> Moment:
        self._seen = self._log.now()
        return self._seen

    def cut(self, moment: Moment) -> Moment:
        """Return a moment, or what there is of it where some of it is still to come."""
        if self._seen.includes(moment):
            return moment
        ends = dict(self.now().heads)
        return Moment.of({lane: min(number, ends.get(lane, 0)) for lane, number in moment.heads})


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
