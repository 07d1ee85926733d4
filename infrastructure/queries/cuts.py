"""Cuts of a log: everything up to a moment, a position or a time, or a name of one of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from ...domain.clock import REAL_SYSTEM, System, time_of
from ...domain.errors import DamagedError, InvalidInputError, NotFoundError
from ...domain.ids import Address, microseconds, parse_address
from ...domain.log.ports import LiveLog
from ...domain.positions import BEGINNING, Moment, Position, require_kind

# A cut of the log, or microseconds since 1970.
Cut = Moment | int


class Names(Protocol):
    """The named moments of a store; `MomentNames` has them."""

    def moments(self) -> Mapping[str, Moment]: ...

    def moment(self, name: str) -> Moment | None: ...

    def before_copy(self, number: int) -> Moment | None: ...


class LogEnd:
    """
    The end of a log, and the clock by which a time is still to come. The end is read again only if needed, because
    PostgreSQL must then read the end of every slice.
    """

    # The thing that ends there, and the remedy, for texts of errors.
    whole, remedy = "the log", ""

    def __init__(self, log: LiveLog, system: System = REAL_SYSTEM) -> None:
        self._log, self._system = log, system
        self._seen = BEGINNING

    @property
    def has_slices(self) -> bool:
        """Whether positions count within slices."""
        return self._log.has_slices

    def now(self) -> Moment:
        self._seen = self._log.now()
        return self._seen

    def cut_at(self, time: int) -> Cut:
        """
        Return the cut of a time in microseconds. Where it is still to come, that is the present end: events that are
        still to be recorded do not belong to it.
        """
        if time < self._system.now() * 1_000_000:
            return time
        end = self.now()
        # Another clock may be ahead of this one, and no event is recorded at an earlier time than the one before it.
        return time if self.has_later(end, time) else end

    def has_later(self, end: Moment, time: int) -> bool:
        """Return whether the last event of a slice at the end was recorded after a time."""
        if not end.heads:
            return False
        before = Moment.of({lane: number - 1 for lane, number in end.heads})
        try:
            last = self._log.read_all(after=before, until=end, limit=len(end.heads), undecodable=True)
        except DamagedError:
            # A reader of the damaged context gets this error. For all other contexts the present end is good enough.
            return False
        return any(one.recorded_at > time for one in last.events)

    def require(self, moment: Moment) -> Moment:
        """
        Return a moment, if the log goes so far.

        Raises:
            NotFoundError: it does not.
        """
        if self._seen.includes(moment):
            return moment
        end = self.now()
        for lane, number in moment.heads:
            if number > end.head(lane):
                there = f"{self.whole} ends at {Position(lane, end.head(lane))}{self.remedy}"
                raise NotFoundError(f"there is no position {Position(lane, number)}, {there}")
        return moment


def cut_at(address: int | str | datetime | Moment | Position, names: Names, end: LogEnd) -> Cut:
    """
    Return the moment of an address: a position of the log, an aware time or a name. A time to come is the end.

    Raises:
        InvalidInputError: the address is malformed, a version, which a store does not have, or a position of another
            kind of store.
        NotFoundError: no moment has this name, or the log does not go as far as the position.
    """
    if isinstance(address, Position):
        return end.require(_moment_here(Moment.parse(str(address)), names, end))
    parsed: Address = parse_address(address)
    if isinstance(parsed, int):
        is_position = parsed >= 0 and not end.has_slices
        advice = f"write pos:{parsed}" if is_position else "give a time, pos:P or a name"
        raise InvalidInputError(f"{address!r} is a version, which one context has: for a store {advice}")
    if isinstance(parsed, Moment):
        return end.require(_moment_here(parsed, names, end))
    if isinstance(parsed, datetime):
        return end.cut_at(microseconds(parsed))
    if not isinstance(parsed, str):
        raise InvalidInputError(f"{address!r} is of one context: for a store give a time, pos:P or a name")
    named = names.moment(parsed)
    if named is None:
        known = ", ".join(sorted(names.moments())) or "none yet"
        raise NotFoundError(f"no moment of this store is named {parsed!r} (names: {known})")
    return named


def _moment_here(moment: Moment, names: Names, end: LogEnd) -> Moment:
    """Return a moment of this store; one of the store with one sequence that it was copied from is converted."""
    is_older = end.has_slices and len(moment.heads) == 1 and moment.heads[0][0] < 0
    found = names.before_copy(moment.heads[0][1]) if is_older else None
    return require_kind(found or moment, has_slices=end.has_slices)


def cut_of(cut: Cut) -> datetime | Moment:
    """Return a cut in the form that `at()` of a context takes."""
    return cut if isinstance(cut, Moment) else time_of(cut)
