"""Answers about the log: its events as lines, one event in full, and the log in buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple, TypeVar

from ...domain.chat.events import (
    ApprovalRequested,
    CallApproved,
    CallChanged,
    CallRejected,
    FunctionCalled,
    FunctionReturned,
)
from ...domain.clock import exact
from ...domain.context.description import counted
from ...domain.errors import DamagedError, InvalidInputError, NotFoundError
from ...domain.log.envelope import RecordedEvent, Undecodable
from ...domain.positions import BEGINNING, Moment, Position, moment_of
from ...projections.rollup import ROLLUP_EVENTS, RollupRow, counts_by_type
from ..context_streams import stream_named
from ..log.codec import tag_of
from ..queries.origins import causes_of, event_at, first_events, reference_in
from ..store import Store
from ..views.damage import MISSING, UnreadableEvent, events_from, events_of
from ..views.shapes import Shape, describe, event_shape
from .answers import PAGE_MAX, as_json
from .item_answers import item_ref
from .parameters import Parameters

T = TypeVar("T")
# A filtered question looks through this many events at a time, and says how far it came.
SCANNED_MAX = 20_000
SCANNED_AT_ONCE = 2_000
BUCKETS_MAX = 2_000


def log_answer(store: Store, given: Parameters) -> Shape:
    """
    Return events of the log, or of one context, as lines.

    `row` is the number of the first line in the whole log; with slices it is an estimate by time. `pos` is the position
    of the event to begin with. A filtered question may look at more events than it returns: `next` says from where to
    ask on.

    Raises:
        InvalidInputError: a position or a moment is malformed.
        NotFoundError: the log has no such position.
    """
    limit = given.whole("limit", 100, 1, PAGE_MAX)
    wanted = Filter(given.text("type"), given.text("actor"), (given.text("q") or "").lower())
    context = given.text("context")
    if context is not None:
        return _log_of_context(store, stream_named(store.log, context), given, wanted, limit)
    after, row = _beginning(store, given)
    lines, moment, scanned = _scanned(partial(_page, store), after, wanted, limit)
    return {"row": row, "events": lines, "next": str(moment), "total": store.now().events, "scanned": scanned}


def _scanned(
    read: Callable[[T, int], tuple[Sequence[RecordedEvent | UnreadableEvent], T]], start: T, wanted: Filter, limit: int
) -> tuple[list[Shape], T, int]:
    """
    Return lines from a place on, the place behind them, and the number of events that were looked at.

    `read` returns the events behind a place, at most so many, and the place behind them.
    """
    lines: list[Shape] = []
    place, scanned = start, 0
    at_once, most = (SCANNED_AT_ONCE, SCANNED_MAX) if any(wanted) else (limit, 1)
    while len(lines) < limit and scanned < most:
        events, place = read(place, at_once)
        if not events:
            break
        scanned += len(events)
        lines += map(_line, filter(wanted.takes, events))
    return lines, place, scanned


def _page(store: Store, after: Moment, limit: int) -> tuple[Sequence[RecordedEvent | UnreadableEvent], Moment]:
    """Return the next events of the log, also those that cannot be read, and the moment behind them."""
    try:
        page = store.log.read_all(after=after, limit=limit, undecodable=True)
    except DamagedError:
        # With slices it is not known which event would be the next one.
        if store.log.has_slices:
            raise
        events = events_from(store.log, after.events, limit)
        return events, moment_of(after.events + len(events))
    return page.events, page.moment


class Filter(NamedTuple):
    """The events that are wanted: of a type, or of the first part of one, by an actor, and with a text."""

    type: str | None
    actor: str | None
    text: str

    def takes(self, event: RecordedEvent | UnreadableEvent) -> bool:
        """Return whether an event is wanted; an unreadable event always is, because it may be."""
        if isinstance(event, UnreadableEvent):
            return True
        tag = _tag(event)
        return (
            self.type in (None, tag, tag.partition(".")[0])
            and self.actor in (None, event.meta.actor)
            # Words are made last, because they cost most.
            and (not self.text or self.text in _words(event).lower())
        )


def _log_of_context(store: Store, stream: str, given: Parameters, wanted: Filter, limit: int) -> Shape:
    """Return the lines of one context; a filtered question goes on from a version instead of a moment."""
    head = store.log.head(stream)
    # Behind the end there is nothing yet: whoever asks on from there would miss what comes next.
    row = min(given.whole("after", given.whole("row", 0)), head)
    position = given.text("pos")
    if position is not None:
        row = store.log.version_at(stream, _before(store, position)[0])

    def read(start: int, count: int) -> tuple[Sequence[RecordedEvent | UnreadableEvent], int]:
        end = min(head, start + count)
        return events_of(store.log, stream, start, end), end

    lines, version, scanned = _scanned(read, row, wanted, limit)
    return {"row": row, "events": lines, "next": str(version), "total": head, "scanned": scanned}


def _tag(event: RecordedEvent) -> str:
    return "undecodable" if isinstance(event.event, Undecodable) else tag_of(event.event)


def _words(event: RecordedEvent) -> str:
    return event.event.reason if isinstance(event.event, Undecodable) else describe(event.event).words(as_json)


def _line(event: RecordedEvent | UnreadableEvent) -> Shape:
    if isinstance(event, UnreadableEvent):
        return {
            "position": event.position and str(event.position), "stream": event.stream, "version": event.version,
            "at": None, "actor": None, "type": "damaged", "text": event.error.reason, "because": None, "damaged": True,
            "call_id": None, "call": None, "failed": False,
        }  # fmt: skip
    return {
        "position": str(event.position), "stream": event.stream, "version": event.version,
        "at": exact(event.recorded_at), "actor": event.meta.actor, "type": _tag(event), "text": _words(event)[:400],
        "because": event.meta.causation, "damaged": isinstance(event.event, Undecodable),
        **_call_of(event), "failed": getattr(event.event, "is_error", False),
    }  # fmt: skip


def _call_of(event: RecordedEvent) -> Shape:
    """Return to which call an event belongs: its id, and its own event where that is what is recorded."""
    match event.event:
        case FunctionCalled(call_id=call_id):
            return {"call_id": call_id, "call": event.reference}
        case FunctionReturned(call_id=call_id) | CallChanged(item=FunctionCalled(call_id=call_id)):
            return {"call_id": call_id, "call": None}
        case ApprovalRequested(call=call) | CallApproved(call=call) | CallRejected(call=call):
            return {"call_id": None, "call": str(call.within(event.stream))}
    return {"call_id": None, "call": None}


def _beginning(store: Store, given: Parameters) -> tuple[Moment, int]:
    """Return the moment from which a question reads, and the number of events before it."""
    after = given.text("after")
    if after is not None:
        moment = Moment.parse(after)
        return moment, moment.events
    position = given.text("pos")
    if position is not None:
        return _before(store, position)
    row = given.whole("row", 0)
    if not row:
        return BEGINNING, 0
    if not store.log.has_slices:
        row = min(row, store.now().events)
        return moment_of(row), row
    moment, count = _moment_near(store.rollup(), row)
    # The rest of the block is read, so that lines keep their numbers, and the last lines are not behind the end.
    page = store.log.read_all(after=moment, limit=row - count, undecodable=True) if row > count else None
    return (moment, count) if page is None else (page.moment, count + len(page.events))


def _position(store: Store, text: str) -> Position:
    """Return the position that a text means, which the log has."""
    heads = Moment.parse(text).heads
    lane, number = heads[0] if heads else (-1, 0)
    if text.startswith("v") or (number and (lane < 0) == store.log.has_slices):
        raise InvalidInputError(f"{text!r} is no position of an event of this log: take one as its lines have it")
    now = store.now()
    if not 1 <= number <= now.head(lane):
        raise NotFoundError(f"the log has no position {text}: it has {counted(now.events, 'event')}")
    return Position(lane, number)


def _event_of(store: Store, position: Position) -> RecordedEvent:
    """Return the event at a position that the log has."""
    before = Moment.of(dict(store.now().heads) | {position.slice: position.number - 1})
    (event,) = store.log.read_all(after=before, limit=1, undecodable=True).events
    return event


def _before(store: Store, text: str) -> tuple[Moment, int]:
    """Return the moment before the event at a position, and the number of events before it, as `row` counts them."""
    position = _position(store, text)
    if not store.log.has_slices:
        return moment_of(position.number - 1), position.number - 1
    recorded_at = _event_of(store, position).recorded_at
    moment, _ = _moment_behind(row for row in store.rollup() if row.last_at < recorded_at)
    # The events before it in each slice are only found by reading, however many were recorded at about that time.
    while (page := store.log.read_all(after=moment, limit=SCANNED_AT_ONCE, undecodable=True)).events:
        place = next((at for at, one in enumerate(page.events) if one.position == position), None)
        if place is not None:
            end = store.log.read_all(after=moment, limit=place, undecodable=True).moment if place else moment
            return end, end.events
        moment = page.moment
    # An older copy of the database was put in place meanwhile.
    raise NotFoundError(f"the log has no position {text}: it has {counted(store.now().events, 'event')}")


def _moment_near(rows: Sequence[RollupRow], row: int) -> tuple[Moment, int]:
    """Return a moment with about `row` events before it, by whole blocks of the log in the order of their times."""
    blocks = sorted(rows, key=lambda one: one.last_at)
    ends = accumulate(block.events for block in blocks)
    return _moment_behind(block for block, end in zip(blocks, ends, strict=True) if end <= row)


def _moment_behind(blocks: Iterable[RollupRow]) -> tuple[Moment, int]:
    heads: dict[int, int] = {}
    for block in blocks:
        heads[block.lane] = max(heads.get(block.lane, 0), block.block * ROLLUP_EVENTS + block.events)
    return Moment.of(heads), sum(heads.values())


def event_answer(store: Store, given: Parameters) -> Shape:
    """Return one event with its envelope, its words, and the chain of its causes."""
    named = given.required("event")
    if "@" not in named:
        named = _event_of(store, _position(store, named)).reference
    ref = item_ref(named)
    event = event_at(store.log, ref.stream, ref.version)
    if event is None and 0 < ref.version <= store.log.head(ref.stream):
        raise DamagedError(f"event {ref}", MISSING)
    if event is None or event.version != ref.version:
        raise NotFoundError(f"there is no event {ref}")
    causes = causes_of(store.log, [event])[event.reference]
    known = first_events(store.log, filter(None, map(reference_in, causes)))
    chain = {found.reference: _line(found) for found in known.values()}
    return {
        **event_shape(event),
        "text": describe(event.event).words(as_json),
        "causes": list(causes),
        # A cause that is no event of this store is some text of its writer, and has no line.
        "chain": [chain[cause] for cause in causes if cause in chain],
    }


def histogram_answer(store: Store, given: Parameters) -> Shape:
    """Return the log in buckets of about the same number of events: how many of each type, and from when to when."""
    rows = sorted(store.rollup(), key=lambda row: (row.last_at, row.key))
    count = given.whole("buckets", 200, 1, BUCKETS_MAX)
    # A bucket has at least one row of the rollup, which is 1,024 events.
    size = max(1, -(-len(rows) // count))
    starts = [0, *accumulate(row.events for row in rows)]
    buckets = [_bucket(rows[first : first + size], starts[first]) for first in range(0, len(rows), size)]
    return {"total": starts[-1], "buckets": buckets}


def _bucket(rows: Sequence[RollupRow], start: int) -> Shape:
    kinds: dict[str, int] = {}
    for row in rows:
        for tag, number in counts_by_type(row).items():
            kind = tag.partition(".")[0]
            kinds[kind] = kinds.get(kind, 0) + number
    return {
        "row": start, "kinds": kinds, "first_at": exact(min(row.first_at for row in rows)),
        "last_at": exact(max(row.last_at for row in rows)),
    }  # fmt: skip
