"""Full-text search in a store: from the text of a query to hits with snippets."""

from __future__ import annotations

from ...domain.chat.events import MessageAdded
from ...domain.chat.pieces import written
from ...domain.errors import DamagedError, InvalidInputError, NotFoundError
from ...domain.ids import split_stream_id, stream_id
from ...domain.log.envelope import Event
from ...domain.log.ports import Log
from ...domain.words import Term, parse_query, snippet_of
from ...projections.contract import Found, SearchQuery
from ...projections.search import SEARCH, SEARCHED_KINDS, SearchHit, passage_of
from ..log.row_faults import NUMBER_MAX, REBUILD
from ..opening import first_event
from ..projecting.runner import ProjectionRunner
from .origins import pieces_of


def search(
    log: Log, runner: ProjectionRunner, query: str, *, kind: str | None, context: str | None, limit: int
) -> list[SearchHit]:
    """Return what `Store.search` does."""
    terms = parse_query(query)
    if kind not in (None, *SEARCHED_KINDS):
        raise InvalidInputError(f"nothing of the kind {kind!r} is searched: the kinds are {', '.join(SEARCHED_KINDS)}")
    if not isinstance(limit, int) or limit < 1:
        raise InvalidInputError(f"limit is {limit!r}: take a whole number from 1")
    streams = None if context is None else _streams(log, context, (kind,) if kind else SEARCHED_KINDS)
    # No database takes a larger number.
    found = runner.search(SEARCH, SearchQuery(terms, min(limit, NUMBER_MAX), kind, streams))
    return [_hit(log, one, terms[0]) for one in found]


def _streams(log: Log, context: str, kinds: tuple[str, ...]) -> dict[str, int]:
    """Return the streams of a context and of its ancestors, each with the last version that belongs to the context."""
    streams: dict[str, int] = {}
    for stream in (stream_id(kind, context) for kind in kinds):
        head = log.head(stream)
        if head:
            lineage = getattr(first_event(log, stream), "lineage", ())
            streams |= {segment.stream: segment.version for segment in lineage} | {stream: head}
    if not streams:
        raise NotFoundError(f"there is no context {context!r}: `refold contexts` lists them")
    return streams


def _written(log: Log, stream: str, version: int) -> list[Event]:
    """Return the event that added an item; a message that was written piece by piece has its pieces."""
    events = log.read_events(stream, after=version - 1, until=version)
    first = events[0] if events else None
    if not isinstance(first, MessageAdded) or first.incomplete is None:
        return events
    pieces = pieces_of(log, stream, version)
    return [written(first, pieces)] if pieces else events


def _hit(log: Log, found: Found, term: Term) -> SearchHit:
    row = found.row
    # The text is read from the log, because the index holds only its words.
    passage = next(map(passage_of, _written(log, row.stream, row.version)), None)
    if passage is None:
        raise DamagedError(f"row {row.key!r} of search", f"{row.stream}@{row.version} has no text", remedy=REBUILD)
    return SearchHit(
        kind=row.kind,
        context=split_stream_id(row.stream)[1],
        version=row.version,
        item=passage.item,
        snippet=snippet_of(passage.text, term),
        rank=found.rank,
    )
