"""The part of a store that answers from projections: what is there, and where something is said."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from ..domain.concurrency.threads import in_thread
from ..domain.log.ports import LiveLog
from ..domain.positions import Moment
from ..projections.catalogue import CATALOGUE, CatalogueRow
from ..projections.entries import ENTRIES
from ..projections.lineage import LINEAGE, LineageRow
from ..projections.rollup import ROLLUP, RollupRow
from ..projections.search import SearchHit
from ..projections.usage import USAGE, UsageRow
from ..projections.validity import VALIDITY
from .named_contexts import context_named
from .projecting.runner import ProjectionRunner
from .projecting.store import ProjectionStore
from .queries.ancestor_rows import holds
from .queries.entries import EntryStay, entry_stays, version_meant
from .queries.intervals import Interval, intervals
from .queries.pages import ContextPage, Wish, context_page
from .queries.search import search
from .times import day_named


class AnswersOfStore:
    """Asks the projections of a store, which are brought up to date first."""

    log: LiveLog
    _runner: ProjectionRunner
    _projections: ProjectionStore

    def contexts(self) -> list[CatalogueRow]:
        """Return what is known of every context, ordered by kind and id."""
        return self._runner.rows(CATALOGUE)

    async def acontexts(self) -> list[CatalogueRow]:
        """`contexts()` for a running event loop."""
        return await in_thread(self.contexts)

    def find_contexts(
        self,
        *,
        kind: str | None = None,
        user: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ContextPage:
        """
        Return a page of the contexts that are wanted, ordered by kind and id, and the cursor for the next page.

        `since` and `until` (not included) are times of the last change.

        Raises:
            InvalidInputError: there is no such kind, a time without a zone, or a limit that is none.
        """
        wish = Wish(kind=kind, user=user, session=session, agent=agent, since=since, until=until)
        return context_page(self._runner, wish, limit=limit, cursor=cursor)

    async def afind_contexts(self, **options: Any) -> ContextPage:
        """`find_contexts()` for a running event loop."""
        return await in_thread(self.find_contexts, **options)

    def validity(self, context_id: str) -> list[Interval]:
        """
        Return when each item of a chat could be seen: its stays in the view, from version `v0` on and before `v1`.

        The items come in the order in which they stand, with those that left and those that a fork began with; so what
        is seen at a version is the stays that hold it (`refold.infrastructure.queries.intervals.ids_seen`).

        Raises:
            NotFoundError: there is no such chat.
        """
        stream = context_named(self.log, context_id, ("chat",))
        self._runner.catch_up(VALIDITY)
        return intervals(self._projections, stream)

    async def avalidity(self, context_id: str) -> list[Interval]:
        """`validity()` for a running event loop."""
        return await in_thread(self.validity, context_id)

    def entries(
        self, context: str, at: int | str | datetime | Moment | None = None, *, with_gone: bool = False
    ) -> list[EntryStay]:
        """
        Return what a queue or a pool holds, or held at a version, a time, a position (`"pos:17"`) or a name, in order.

        With `with_gone` what had left by then is there too, each stay of it: those that are held are the ones whose
        `v1` is 0 or later than the version. Contents are not read.

        Raises:
            NotFoundError: there is no such queue or pool, or no such version or name.
            InvalidInputError: both could be meant, or `at` is none of these.
        """
        stream = context_named(self.log, context, ("queue", "pool"))
        head = self.log.head(stream)
        self._runner.catch_up(ENTRIES)
        version = version_meant(self.log, self._projections, stream, at, head=head)
        stays = (stay for stay in entry_stays(self._projections, stream) if stay.v0 <= version)
        return [stay for stay in stays if with_gone or holds(stay, version)]

    async def aentries(
        self, context: str, at: int | str | datetime | Moment | None = None, *, with_gone: bool = False
    ) -> list[EntryStay]:
        """`entries()` for a running event loop."""
        return await in_thread(self.entries, context, at, with_gone=with_gone)

    def lineage(self, context: str | None = None) -> list[LineageRow]:
        """
        Return the forks and merges of all contexts, or those from and into one, as edges, oldest first.

        Raises:
            NotFoundError: there is no such context.
            InvalidInputError: several could be meant: write its kind in front.
        """
        stream = None if context is None else context_named(self.log, context)
        rows: list[LineageRow] = self._runner.rows(LINEAGE)
        chosen = (row for row in rows if stream in (None, row.source, row.target))
        return sorted(chosen, key=lambda row: (row.recorded_at, row.key))

    async def alineage(self, context: str | None = None) -> list[LineageRow]:
        """`lineage()` for a running event loop."""
        return await in_thread(self.lineage, context)

    def usage(self, *, since: date | str | None = None, until: date | str | None = None) -> list[UsageRow]:
        """
        Return how many tokens agents used, by day (UTC), agent and model; only from one day to another, both included.

        Raises:
            InvalidInputError: what is given is no day.
        """
        first = "" if since is None else day_named(since)
        last = None if until is None else day_named(until)
        rows: list[UsageRow] = self._runner.rows(USAGE)
        chosen = (row for row in rows if first <= row.day and (last is None or row.day <= last))
        return sorted(chosen, key=lambda row: (row.day, row.agent, row.model))

    async def ausage(self, *, since: date | str | None = None, until: date | str | None = None) -> list[UsageRow]:
        """`usage()` for a running event loop."""
        return await in_thread(self.usage, since=since, until=until)

    def rollup(self) -> list[RollupRow]:
        """Return the summary of the log, one row for every 1,024 positions of a slice."""
        return self._runner.rows(ROLLUP)

    def search(
        self, query: str, *, kind: str | None = None, context: str | None = None, limit: int = 20
    ) -> list[SearchHit]:
        """
        Return the items in which all words of `query` stand, the best first; what left the view is found as well.

        `"in quotes"` finds words side by side, `begin*` the beginning of a word; no other sign has a meaning. Case and
        accents make no difference. `context` is searched with the past that it keeps from what it was forked from.

        Raises:
            InvalidInputError: the query has no word, or there is no such kind.
            LimitExceededError: it has too many words.
            NotFoundError: there is no such context.
        """
        return search(self.log, self._runner, query, kind=kind, context=context, limit=limit)

    async def asearch(self, query: str, **options: Any) -> list[SearchHit]:
        """`search()` for a running event loop."""
        return await in_thread(self.search, query, **options)
