"""
Reading the items of other streams that forks and merges name, as the fold needs them; and reading only the last items.

A fork that carried everything is folded after its ancestors' events, which are read in batches of growing size. For a
merge, and for a fork that carried a part, only the items that they name are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, cast

import msgspec

from ...errors import DamagedError
from ...log.ports import Range
from ...named_events import EventSource, Resolved, recorded_event
from ...spans import OWN, Ref, Segment, Span, refs_of
from .. import events as chat
from ..pieces import written
from .fold import ITEM_TYPES, ChatState, Completed, ReferencedItem, fold
from .sequence import Items

NAMING_ITEMS = frozenset({chat.Merged, chat.Forked})
# The number of events of ancestors that are read ahead although they may not be needed. If more events were read
# already, that number is the limit.
EVENTS_AHEAD_MAX = 256
# Events that add no item, such as names. Usually fewer than this number are among the last events.
EVENTS_BESIDE_ITEMS = 8
FIRST_LOOK_EVENTS = 64


def complete(log: EventSource, events: Sequence[Any]) -> Sequence[Completed]:
    """
    Return the events of a context in the form that `fold` needs.

    If the first event is a fork that carried everything, the events of its ancestors come first.

    Raises:
        DamagedError: a stream does not hold an event that another event names.
    """
    first = events[0] if events else None
    if not isinstance(first, chat.Forked):
        return _resolved(log, events)
    parts: list[Sequence[Any]] = [events]
    ancestors = _ancestors(log, first.lineage, len(events))
    while isinstance(first, chat.Forked) and first.carried is None:
        segment, part = next(ancestors, (None, ()))
        if segment is None or segment.stream != first.parent:
            raise _parentless(first)
        if len(part) != segment.version:
            raise DamagedError(f"the fork of {segment.stream}@{segment.version}", "that version does not exist")
        parts.append(part)
        first = part[0]
    return list(chain.from_iterable(_resolved(log, part) for part in reversed(parts)))


def pages(log: EventSource, stream: str, until: int, at_once: int) -> Iterator[tuple[str, Sequence[Completed]]]:
    """
    Yield what `complete` returns for the first `until` events of a chat, some at a time, each page with its stream.

    Raises:
        DamagedError: a stream does not hold an event that another event names.
    """
    segments = [Segment(stream, until)]
    first, lineage = _first_event(log, stream), list[Segment]()
    while isinstance(first, chat.Forked) and first.carried is None:
        lineage = lineage or list(first.lineage)
        segment = lineage.pop() if lineage else None
        if segment is None or segment.stream != first.parent:
            raise _parentless(first)
        segments.append(segment)
        first = _first_event(log, segment.stream)
    for segment in reversed(segments):
        for after in range(0, segment.version, at_once):
            behind = min(after + at_once, segment.version)
            events = log.read_events(segment.stream, after=after, until=behind)
            if len(events) != behind - after:
                raise DamagedError(f"{segment.stream}@{behind}", "that version does not exist")
            yield segment.stream, _resolved(log, events)


def _first_event(log: EventSource, stream: str) -> Any:
    return next(iter(log.read_events(stream, until=1)), None)


def _parentless(fork: chat.Forked) -> DamagedError:
    return DamagedError(f"the fork of {fork.parent}@{fork.version}", "its parent is not in its lineage")


def _ancestors(log: EventSource, lineage: Sequence[Segment], read: int) -> Iterator[tuple[Segment, Sequence[Any]]]:
    """
    Yield the segments of a lineage and their events, the last segment first.

    A segment shows whether the one before it is needed: after a fork that carried only a part it is not. So segments
    are read ahead, but no more events than were `read` before, or EVENTS_AHEAD_MAX.
    """
    left = list(lineage)
    while left:
        segments = [left.pop()]
        ahead = max(read, EVENTS_AHEAD_MAX)
        while left and (ahead := ahead - left[-1].version) >= 0:
            segments.append(left.pop())
        for segment, events in zip(segments, _read_all(log, segments), strict=True):
            read += len(events)
            yield segment, events


def _read_all(log: EventSource, segments: Sequence[Segment]) -> Iterator[list[Any]]:
    ranges = [Range(segment.stream, 0, segment.version) for segment in segments]
    try:
        yield from log.read_ranges(ranges)
    except DamagedError:
        # The damaged stream may be one that is not needed, so they are read one by one.
        yield from (log.read_ranges([one])[0] for one in ranges)


def _resolved(log: EventSource, events: Sequence[Any]) -> Sequence[Completed]:
    """Return events together with the items of other streams that they name, if there are any."""
    if NAMING_ITEMS.isdisjoint(map(type, events)):
        return events
    naming = [(place, event) for place, event in enumerate(events) if type(event) in NAMING_ITEMS]
    runs = {
        place: [(span.stream, run) for span in spans for run in span.ranges()]
        for place, event in naming
        if (spans := _named_by(event)) is not None
    }
    found = iter(read_runs(log, [*chain.from_iterable(runs.values())]))
    resolved = list(events)
    for place, some in runs.items():
        named = [*chain.from_iterable(islice(found, len(some)))]
        resolved[place] = _resolved_with(events[place], _written(log, named, events[place].extents))
    return resolved


def _named_by(event: chat.Merged | chat.Forked) -> Sequence[Span] | None:
    return event.carried if isinstance(event, chat.Forked) else event.taken


def _resolved_with(event: chat.Merged | chat.Forked, taken: Iterable[ReferencedItem]) -> Resolved[ReferencedItem]:
    agent_id = event.agent_id if isinstance(event, chat.Merged) else None
    if agent_id is not None:
        taken = [ReferencedItem(one.ref, chat.with_agent(one.item, agent_id)) for one in taken]
    return Resolved(event, tuple(taken))


def _written(
    log: EventSource, taken: Sequence[ReferencedItem], extents: Sequence[chat.Extent]
) -> Sequence[ReferencedItem]:
    """Return items of other streams; those that were written piece by piece with their pieces."""
    if not extents:
        return taken
    until = {extent.item: extent.until for extent in extents}
    begun = [one for one in taken if one.ref in until]
    found = log.read_ranges([Range(one.ref.stream, one.ref.version, until[one.ref]) for one in begun])
    whole = {
        one.ref: ReferencedItem(one.ref, with_pieces(one.item, one.ref.version, events))
        for one, events in zip(begun, found, strict=True)
    }
    return [whole.get(one.ref, one) for one in taken]


def with_pieces(item: chat.ChatItemEvent, version: int, events: Sequence[Any]) -> chat.ChatItemEvent:
    """Return a message with its pieces among the events after its version."""
    pieces = [
        (number, event)
        for number, event in enumerate(events, version + 1)
        if isinstance(event, chat.PIECES) and event.item == Ref(version, OWN)
    ]
    return written(item, pieces) if pieces and isinstance(item, chat.MessageAdded) else item


def read_runs(log: EventSource, runs: Sequence[tuple[str, range]]) -> list[list[ReferencedItem]]:
    """
    Return the items of runs of versions, each read from the stream of its origin.

    Raises:
        DamagedError: there is no such item.
    """
    return [
        [ReferencedItem(Ref(version, stream), item) for version, item in zip(run, items, strict=True)]
        for (stream, run), items in zip(runs, items_of_runs(log, runs), strict=True)
    ]


def items_of_runs(log: EventSource, runs: Sequence[tuple[str, range]]) -> Iterator[Sequence[chat.ChatItemEvent]]:
    """
    Yield the items of each of these runs without their names, as `read_runs` returns them.

    Raises:
        DamagedError: there is no such item.
    """
    found = log.read_ranges([Range(stream, run.start - 1, run.stop - 1) for stream, run in runs]) if runs else []
    for (stream, run), events in zip(runs, found, strict=True):
        if len(events) != run.stop - run.start:
            raise DamagedError(f"{stream}@{run.stop - 1}", "a merge or fork names it, and it does not exist")
        if ITEM_TYPES.issuperset(map(type, events)):
            # Nearly all runs: a look at each by itself takes a tenth of the time of their read.
            yield cast(list[chat.ChatItemEvent], events)
        else:
            yield [_item(log, stream, version, event) for version, event in zip(run, events, strict=True)]


def _item(log: EventSource, stream: str, version: int, event: Any) -> chat.ChatItemEvent:
    item = chat.added_item(event)
    if isinstance(event, chat.Merged) and event.agent_id is not None:
        # This merge copied one item and gave it another agent's id.
        resolved = _resolved(log, [event])[0]
        item = next((one.item for one in resolved.taken), None) if isinstance(resolved, Resolved) else None
    if item is None:
        raise DamagedError(f"{stream}@{version}", "a merge or fork names it as an item, and it is none")
    return item


def with_tail(decided: Sequence[Completed], state: ChatState) -> Sequence[Completed]:
    """Return the decided events; the last one that changes the view names the items at the end of the view."""
    for last in range(len(decided) - 1, -1, -1):
        recorded = recorded_event(decided[last])
        if isinstance(recorded, chat.VIEW_EVENTS):
            break
    else:
        return decided
    if isinstance(recorded, chat.Forked) and recorded.carried is None:
        # The fork begins with its parent's items, and the parent's events name their end already.
        return decided
    if last == 0 and isinstance(recorded, chat.ItemInserted):
        end = state.items.last(chat.TAIL_ITEMS)
        if state.items.of_ref(recorded.before) not in end:
            # The item was inserted before the end, so the end is unchanged.
            return [_with(recorded, state.items.spans(end)), *decided[1:]]
    ahead = fold(msgspec.structs.replace(state, items=state.items.borrowed()), decided[: last + 1]).items
    return [*decided[:last], _with(decided[last], tail_of(ahead)), *decided[last + 1 :]]


def tail_of(items: Items, *, own: str = OWN) -> tuple[Span, ...]:
    """Return the names of the last items; `own` stands for the own stream in them."""
    return items.spans(items.last(chat.TAIL_ITEMS), own=own)


def _with(event: Completed, tail: tuple[Span, ...]) -> Completed:
    if isinstance(event, Resolved):
        return Resolved(msgspec.structs.replace(event.event, tail=tail), event.taken)
    return msgspec.structs.replace(event, tail=tail)


def last_items(
    log: EventSource, place: Ref, last_events: Callable[[int], Sequence[Any]], wanted: int
) -> list[tuple[chat.ChatItemEvent, int]] | None:
    """
    Return the last `wanted` items of a context, each with the version that brought it, or None if only a load shows it.

    `place` is the stream of the context and its version; `last_events` reads the last events up to that.
    """
    found, edit = _last_taken(log, place, last_events, wanted)
    brought = None if found is None else _brought(log, place, [one.ref for one in found], edit)
    if found is None or brought is None:
        return None
    begun = {one.ref for one in found if isinstance(one.item, chat.MessageAdded) and one.item.incomplete is not None}
    if any(ref.stream != place.stream for ref in begun):
        # Only the fold knows up to which piece a message of another stream counts.
        return None
    first = min((ref.version for ref in begun), default=place.version)
    events = last_events(place.version - first) if begun else ()
    items = [
        with_pieces(one.item, one.ref.version, events[one.ref.version - first :]) if one.ref in begun else one.item
        for one in found
    ]
    return list(zip(items, brought, strict=True))


def _brought(log: EventSource, place: Ref, refs: Sequence[Ref], edit: tuple[int, Any]) -> list[int] | None:
    """Return the versions that brought items, given the newest edit and its version; None if only the fold knows."""
    taken = [ref for ref in refs if ref.stream != place.stream]
    if not taken:
        return [ref.version for ref in refs]
    version, event = edit
    known = dict.fromkeys(refs_of(_named_by(event) or ()), version) if type(event) in NAMING_ITEMS else {}
    first = log.read_ranges([Range(place.stream, 0, 1)])[0][0]
    if isinstance(first, chat.Forked):
        known |= dict.fromkeys(refs_of(first.carried or ()), 1)
        # A whole fork begins with all that its parent added itself; only the fold knows what the parent took over.
        whole = first.version if first.carried is None else 0
        known |= {ref: 1 for ref in taken if ref.stream == first.parent and ref.version <= whole}
    known |= {ref: ref.version for ref in refs if ref.stream == place.stream}
    return [known[ref] for ref in refs] if known.keys() >= set(taken) else None


def _last_taken(
    log: EventSource, place: Ref, last_events: Callable[[int], Sequence[Any]], wanted: int
) -> tuple[list[ReferencedItem] | None, tuple[int, Any]]:
    """Return the last items, or None if the last events do not show them, and the newest edit among these events."""
    # Usually the last events are the items. After many edits, the newest edit among a few events already names the end.
    looked_at = min(wanted, FIRST_LOOK_EVENTS)
    while True:
        events = last_events(looked_at)
        newest: list[ReferencedItem] = []
        for version, event in zip(range(place.version, 0, -1), reversed(events), strict=False):
            if isinstance(event, chat.Opened):
                return newest[::-1], (version, event)
            if isinstance(event, chat.VIEW_EVENTS):
                return _joined(log, place.stream, event.tail, newest, wanted), (version, event)
            if isinstance(event, chat.ITEM_EVENTS):
                newest.append(ReferencedItem(Ref(version, place.stream), event))
                if len(newest) == wanted:
                    return newest[::-1], (version, event)
        if len(events) < looked_at:
            return None, (0, None)
        looked_at = max(2 * looked_at, wanted + EVENTS_BESIDE_ITEMS)


def _joined(
    log: EventSource, stream: str, tail: tuple[Span, ...] | None, newest: list[ReferencedItem], wanted: int
) -> list[ReferencedItem] | None:
    """Return the items that an edit names, and those appended since (`newest`, the last one first)."""
    if tail is None:
        return None
    runs = [(span.stream or stream, run) for span in tail for run in span.ranges()]
    missing = wanted - len(newest)
    if missing > sum(len(run) for _, run in runs) == chat.TAIL_ITEMS:
        return None
    items = chain.from_iterable(read_runs(log, _last(runs, missing)))
    return [*items, *reversed(newest)]


def _last(runs: Sequence[tuple[str, range]], wanted: int) -> list[tuple[str, range]]:
    """Return the runs with the last `wanted` versions of all; fewer if there are not as many."""
    last: list[tuple[str, range]] = []
    for stream, run in reversed(runs):
        if wanted <= 0:
            break
        last.append((stream, run[-wanted:]))
        wanted -= len(run)
    return last[::-1]
