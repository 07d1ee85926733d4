"""
Where a log ends, as far as one has to know it: a log only grows, so what lay before its end once lies there for ever.
"""

from __future__ import annotations

from ...domain.log.ports import LiveLog
from ...domain.positions import BEGINNING, Moment


class LogEnd:
    """The end of a log, asked for again only where it matters: on PostgreSQL that is a question about every slice."""

    def __init__(self, log: LiveLog) -> None:
        self._log = log
        self._seen = BEGINNING

    def now(self) -> Moment:
        """Return the moment of the last event."""
        self._seen = self._log.now()
        return self._seen

    def cut(self, moment: Moment) -> Moment:
        """Return a moment, or what there is of it where some of it is still to come."""
        if self._seen.includes(moment):
            return moment
        ends = dict(self.now().heads)
        return Moment.of({lane: min(number, ends.get(lane, 0)) for lane, number in moment.heads})
