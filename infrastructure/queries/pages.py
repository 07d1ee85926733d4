"""
Rows page by page: those of the catalogue by kind, user, session, agent and time of the last change, and those of any
projection by their keys; and the edges of one context.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from ...domain.arguments import require_instance, require_whole
from ...domain.canonical import require_unicode
from ...domain.errors import InvalidInputError
from ...domain.ids import end_of_prefix, microseconds
from ...domain.kinds import KINDS
from ...projections.catalogue import CATALOGUE, CatalogueRow
from ...projections.intervals import rows_prefix
from ...projections.lineage import LINEAGE, LineageRow
from ..log.row_faults import NUMBER_MAX
from ..projecting.runner import ProjectionRunner
from ..projecting.store import Where

CONTEXTS_MAX = 1_000


class ContextPage(NamedTuple):
    """Some contexts, and the cursor for the next page; None if there are no more."""

    contexts: list[CatalogueRow]
    cursor: str | None


class ContextFilter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of contexts; None means any. Times are those of the last change."""

    kind: str | None = None
    user: str | None = None
    session: str | None = None
    agent: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def context_page(runner: ProjectionRunner, chosen: ContextFilter, *, limit: int, cursor: str | None) -> ContextPage:
    """
    Return the contexts that match a filter, ordered by kind and id, after a cursor.

    Raises:
        InvalidInputError: there is no such kind, a time has no zone, the limit is out of range, or a text cannot be
            encoded.
    """
    if chosen.kind is not None and chosen.kind not in KINDS:
        raise InvalidInputError(f"there is no kind of context {chosen.kind!r}: there are {', '.join(KINDS)}")
    if not 1 <= require_whole(limit, "limit", least=None) <= CONTEXTS_MAX:
        raise InvalidInputError(f"limit is {limit}: it is a number from 1 to {CONTEXTS_MAX:,}")
    for name, time in (("since", chosen.since), ("until", chosen.until)):
        if time is not None:
            require_instance(time, datetime, name, "give an aware datetime")
    after, before = require_unicode(cursor or "", "the cursor"), None
    if chosen.kind is not None:
        # The keys of a kind follow each other, so the page can begin and end with them.
        after, before = max(after, f"{chosen.kind}:"), end_of_prefix(f"{chosen.kind}:")
    rows: list[CatalogueRow] = runner.page(
        CATALOGUE, after=after, before=before, limit=limit + 1, where=_wanted(chosen)
    )
    return ContextPage(rows[:limit], rows[limit - 1].key if len(rows) > limit else None)


def _wanted(chosen: ContextFilter) -> Where:
    fields = {name: getattr(chosen, name) for name in ("user", "session", "agent")}
    wanted: dict[str, Any] = {name: require_unicode(one, name) for name, one in fields.items() if one is not None}
    if chosen.since is not None or chosen.until is not None:
        since, until = (None if time is None else _microseconds(time) for time in (chosen.since, chosen.until))
        wanted["changed_at"] = range(since or 0, NUMBER_MAX if until is None else until)
    return wanted


def _microseconds(time: datetime) -> int:
    if time.tzinfo is None:
        raise InvalidInputError(f"{time} has no time zone: give an aware datetime")
    return microseconds(time)


def row_page(
    runner: ProjectionRunner, name: str, *, under: str, limit: int, cursor: str | None
) -> tuple[list[Any], str | None]:
    """
    Return rows of a projection whose keys begin with `under`, by key, after a cursor; and the cursor for the next page.

    Raises:
        NotFoundError: there is no such projection.
        ProjectionError: it cannot fold an event.
    """
    prefix, after = require_unicode(under, "under"), require_unicode(cursor or "", "the cursor")
    projection = runner.named(name)
    before = end_of_prefix(prefix) if prefix else None
    rows = runner.page(projection, after=max(prefix, after), before=before, limit=limit + 1)
    # A page begins behind a key, and a row may have the prefix itself as its key.
    first = runner.stored(projection, [prefix]) if after < prefix else {}
    found = [*first.values(), *rows]
    return found[:limit], found[limit - 1].key if len(found) > limit else None


def edges(runner: ProjectionRunner, stream: str | None) -> list[LineageRow]:
    """Return the edges of the graph of forks and merges, or those into and from one context, oldest first."""
    if stream is None:
        found = runner.rows(LINEAGE)
    else:
        into = runner.rows_under([LINEAGE], [rows_prefix(stream)])
        rows = (*into, *runner.page(LINEAGE, where={"source": stream}))
        found = [*{row.key: row for row in rows}.values()]
    return sorted(found, key=lambda row: (row.recorded_at, row.key))
