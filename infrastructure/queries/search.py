"""Full-text search in a store: from the text of a query to hits with snippets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...domain.arguments import require_whole
from ...domain.chat.events import MessageAdded
from ...domain.chat.pieces import written
from ...domain.errors import ContextNotFoundError, DamagedError, InvalidInputError
from ...domain.ids import split_stream_id, stream_id
from ...domain.log.envelope import Event
from ...domain.log.ports import Log
from ...domain.spans import Ref
from ...domain.words import Term, parse_query, snippet_of
from ...projections.contract import Found, SearchQuery
from ...projections.lineage import LINEAGE
from ...projections.search import SEARCH, SEARCHED_KINDS, SearchHit, searchable_text_of
from ..context_streams import first_event, streams_named
from ..log.row_faults import NUMBER_MAX, REBUILD
from ..projecting.runner import ProjectionRunner
from .origins import first_events, pieces_of

# Very many items of a large store may have a word. In contexts with up to this many versions, items are found by key.
KEYS_MAX = 256


def search(
    log: Log, runner: ProjectionRunner, query: str, *, kind: str | None, context: str | None, limit: int
) -> list[SearchHit]:
    """Return what `Store.search` does."""
    terms = parse_query(query)
    if kind not in (None, *SEARCHED_KINDS):
        raise InvalidInputError(f"nothing of the kind {kind!r} is searched: the kinds are {', '.join(SEARCHED_KINDS)}")
    # No database takes a larger number.
    most = min(require_whole(limit, "limit", least=1), NUMBER_MAX)
    ends = None if context is None else _streams(log, context, kind)
    streams = None if ends is None else _with_merges(log, runner, ends)
    asked = SearchQuery(terms, most, kind, streams, None if streams is None else _few_keys(streams))
    found = runner.search(SEARCH, asked)
    return [_hit(log, one, terms[0]) for one in found]


def searched_in(log: Log, context: str, kind: str | None) -> list[str]:
    """Return the streams that are meant by the name of a context, which may have its kind in front, and by a kind."""
    return streams_named(log, context, (kind,) if kind else SEARCHED_KINDS)


def _streams(log: Log, context: str, kind: str | None) -> dict[str, int]:
    """Return the streams of a context and of its ancestors, each with the last version that belongs to the context."""
    streams: dict[str, int] = {}
    for stream in searched_in(log, context, kind):
        lineage = getattr(first_event(log, stream), "lineage", ())
        streams |= {segment.stream: segment.version for segment in lineage} | {stream: log.head(stream)}
    if not streams:
        # A name that cannot be an id at all is refused as such.
        stream_id(kind or "chat", context)
        raise ContextNotFoundError(context, (kind,) if kind else ())
    return streams


def _with_merges(log: Log, runner: ProjectionRunner, ends: Mapping[str, int]) -> dict[str, list[range]]:
    """Return where the items of streams were recorded: in them, and in others from which merges took some."""
    found: dict[str, list[range]] = {}
    seen: set[Ref] = set()
    new = {stream: [range(1, version + 1)] for stream, version in ends.items()}
    while new:
        for stream, ranges in new.items():
            found.setdefault(stream, []).extend(ranges)
        edges = runner.rows_under([LINEAGE], [f"{stream}@" for stream in new])
        # An item that a merge took may itself be one that a merge made, under the name of another agent.
        within = (row for row in edges if any(row.target_version in one for one in new[row.target]))
        merges = {Ref(row.target_version, row.target) for row in within if row.kind == "merged"} - seen
        seen |= merges
        new = {}
        for merge in first_events(log, merges).values():
            for span in merge.event.taken:
                new.setdefault(span.stream or merge.stream, []).extend(span.ranges())
    return found


def _few_keys(streams: Mapping[str, Sequence[range]]) -> list[str] | None:
    """Return the keys that the items of versions of streams have, where these are few; else None."""
    if sum(len(one) for ranges in streams.values() for one in ranges) > KEYS_MAX:
        return None
    return [f"{stream}@{version}" for stream, ranges in streams.items() for one in ranges for version in one]


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
    passage = next(map(searchable_text_of, _written(log, row.stream, row.version)), None)
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
