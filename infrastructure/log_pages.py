"""A log as a whole, page by page, up to where it goes now: writers may never pause, and be quicker than who reads."""

from __future__ import annotations

from collections.abc import Iterator

from ..domain.log.envelope import RecordedEvent
from ..domain.log.ports import LiveLog
from ..domain.positions import BEGINNING, Moment


def pages_up_to_now(log: LiveLog, *, limit: int, after: Moment = BEGINNING) -> Iterator[list[RecordedEvent]]:
    """
    Yield the events behind a moment that there are now, in the order of the log, up to `limit` at a time.

    Raises:
        DamagedError: an event is missing, or does not match its digest.
    """
    ends = dict(log.now().heads)
    left = sum(max(0, end - after.head(lane)) for lane, end in ends.items())
    while left > 0:
        page = log.read_all(after=after, limit=limit)
        events = [one for one in page.events if one.position.number <= ends.get(one.position.slice, 0)]
        left -= len(events)
        after = page.moment
        yield events
