"""The pages of a log, as projections fold them: up to a moment that does not move, of all slices or of some groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...domain.errors import LogWentBackError
from ...domain.log.envelope import Undecodable
from ...domain.log.ports import Page, PagedLog
from ...domain.positions import Moment


class Groups(NamedTuple):
    """Some of the groups of slices, by their numbers; None are all of them."""

    numbers: frozenset[int] | None
    of_all: int

    def of(self, moment: Moment) -> Moment:
        """Return the part of a moment that belongs to these groups."""
        if self.numbers is None:
            return moment
        return Moment(tuple(head for head in moment.heads if head[0] % self.of_all in self.numbers))


class Read(NamedTuple):
    """A page, whether it is the last one, and the reasons why events of it cannot be decoded, by reference."""

    page: Page
    is_last: bool
    undecodable: Mapping[str, str]


class Pages:
    """
    The pages of a log up to a moment, or up to the log's end now.

    The end is fixed, because writers that never pause may be faster than the runner.
    """

    def __init__(self, log: PagedLog, until: Moment | None, groups: Groups) -> None:
        self._log, self._is_end = log, until is None
        self.until = groups.of(log.now() if until is None else until)

    def read(self, after: Moment, limit: int) -> Read:
        """Return the next page."""
        if self._is_end and not self.until.includes(after):
            # Another runner came first, and went further; or the log was cut.
            now = self._log.now()
            if not now.includes(after):
                raise LogWentBackError(
                    f"the log of {after.events:,} events that projections have seen",
                    reason=f"it has {now.events:,}",
                    remedy="look what is gone with verify(), then rebuild the projections",
                )
        page = Page([], after)
        if not after.includes(self.until):
            page = self._log.read_all(after=after, limit=limit, until=self.until, undecodable=True)
        is_last = not page.events or page.moment.includes(self.until)
        marked = [one for one in page.events if type(one.event) is Undecodable]
        return Read(page, is_last, {one.reference: one.event.reason for one in marked})
