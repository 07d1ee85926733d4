"""
Rows page by page: those of the catalogue by kind, user, session, agent and time of the last change, and those of any
projection by their keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from ...domain.arguments import require_instance, require_whole
from ...domain.canonical import require_unicode
from ...domain.errors import InvalidInputError
from ...domain.ids import microseconds
from ...domain.kinds import KINDS
from ...projections.catalogue import CATALOGUE, CatalogueRow
from ..projecting.runner import ProjectionRunner

CONTEXTS_MAX = 1_000
FETCHED_ROWS = 512


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
    found: list[CatalogueRow] = []
    for row in _wanted_rows(runner, chosen, require_unicode(cursor or "", "the cursor"), limit + 1):
        if len(found) == limit:
            return ContextPage(found, found[-1].key)
        found.append(row)
    return ContextPage(found, None)


def _wanted_rows(runner: ProjectionRunner, chosen: ContextFilter, after: str, wanted: int) -> Iterator[CatalogueRow]:
    fields = {name: getattr(chosen, name) for name in ("kind", "user", "session", "agent")}
    where = {name: require_unicode(value, name) for name, value in fields.items() if value is not None}
    since, until = (None if time is None else _microseconds(time) for time in (chosen.since, chosen.until))
    if chosen.kind is not None:
        # The keys of a kind are neighbours, so the page can begin with them.
        after = max(after, f"{chosen.kind}:")
    is_timed = since is not None or until is not None
    size = FETCHED_ROWS if is_timed else wanted
    while True:
        rows: list[CatalogueRow] = runner.page(CATALOGUE, after=after, limit=size, where=where)
        for row in rows:
            if (since is None or row.changed_at >= since) and (until is None or row.changed_at < until):
                yield row
        if len(rows) < size:
            return
        after = rows[-1].key


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
    rows = runner.page(projection, after=max(prefix, after), limit=limit + 1)
    # A page begins behind a key, and a row may have the prefix itself as its key.
    first = runner.stored(projection, [prefix]) if after < prefix else {}
    found = [row for row in (*first.values(), *rows) if row.key.startswith(prefix)]
    return found[:limit], found[limit - 1].key if len(found) > limit else None
