"""One of several partitions of a log on PostgreSQL: some of its slices, for one of several processes to read."""

from __future__ import annotations

from ...domain.log.ports import Page
from ...domain.positions import Moment
from .paging import Pager
from .reading import Reader


class PostgresPartition:
    """A partition of a log: what its pager finds."""

    def __init__(self, pager: Pager, reader: Reader) -> None:
        self._pager, self._reader = pager, reader

    def read_all(self, *, after: Moment, limit: int, undecodable: bool = True) -> Page:
        """Return up to `limit` events behind `after`, in the order of the log, and the moment they end at."""
        rows, moment = self._pager.page(after, limit)
        return Page(self._reader.open_page(rows, undecodable=undecodable), moment)

    def now(self) -> Moment:
        """Return the moment of the last event."""
        return Moment.of(dict(self._pager.ends()))
