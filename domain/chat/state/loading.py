"""
What the events of a context refer to in other streams, looked up so that they can be folded.

A fork that carried everything is folded behind its ancestors' events, of which more and more are read at once. A
fork that carried a part, and a merge, get the items that they name, and nothing else is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

import msgspec

from ...errors import DamagedError
from ...ports import Log, Range
from ...spans import Ref, Segment, Span
from ..events import ChatEvent, ChatItemEvent, Forked, Merged, added_item
from .builder import TakenItem
from .fold import Resolved

NAMING_ITEMS = frozenset({Merged, Forked})
# So many events of ancestors that may not be needed are read along, or as many as were read already.
EVENTS_AHEAD_MAX = 256


def complete(log: Log, events: Sequence[Any]) -> Sequence[ChatEvent | Resolved]:
    """
    Return the events of a context as `fold` wants them; where they begin with a fork, so does the result begin
    with what it needs of its ancestors.

    Raises:
        DamagedError: a stream does not hold what an event says of it.
    """
    first = events[0] if events else None
    if not isinstance(first, Forked):
        return _resolved(log, events)
    parts: list[Sequence[Any]] = [events]
    ancestors = _ancestors(log, first.lineage, len(events))
    while isinstance(first, Forked) and first.carried is None:
        segment, part = next(ancestors, (None, ()))
        if segment is None or segment.stream != first.parent:
            raise DamagedError(f"the fork of {first.parent}@{first.version}", "its parent is not in its lineage")
        if len(part) != segment.version:
            raise DamagedError(f"the fork of {segment.stream}@{segment.version}", "that version does not exist")
        parts.append(part)
        first = part[0]
    return list(chain.from_iterable(_resolved(log, part) for part in reversed(parts)))


def _ancestors(log: Log, lineage: Sequence[Segment], read: int) -> Iterator[tuple[Segment, Sequence[Any]]]:
    """
    Yield the segments of a lineage and their events, the last one first.

    Whether the next one is needed at all is known once this one is read: if it carried but a part, it is not. So they
    are read ahead, but no more events than were `read` before.
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


def _read_all(log: Log, segments: Sequence[Segment]) -> Iterator[list[Any]]:
    ranges = [Range(segment.stream, 0, segment.version) for segment in segments]
    try:
        yield from log.read_ranges(ranges)
    except DamagedError:
        # It may lie in one that is not needed.
        yield from (log.read_ranges([one])[0] for one in ranges)


def _resolved(log: Log, events: Sequence[Any]) -> Sequence[ChatEvent | Resolved]:
    """Return events together with the items of other streams that they name, where they need any."""
    if NAMING_ITEMS.isdisjoint(map(type, events)):
        return events
    naming = [(place, event) for place, event in enumerate(events) if type(event) in NAMING_ITEMS]
    named = {place: spans for place, event in naming if (spans := _named_by(event)) is not None}
    if not named:
        return events
    found = iter(_read_spans(log, [span for spans in named.values() for span in spans]))
    resolved = list(events)
    for place, spans in named.items():
        resolved[place] = _resolved_with(events[place], [one for _ in spans for one in next(found)])
    return resolved


def _named_by(event: Merged | Forked) -> Sequence[Span] | None:
    if isinstance(event, Forked):
        return event.carried
    return [span for placement in event.placed for span in placement.items]


def _resolved_with(event: Merged | Forked, taken: Iterable[TakenItem]) -> Resolved:
    agent_id = event.agent_id if isinstance(event, Merged) else None
    if agent_id is not None:
        taken = [TakenItem(one.ref, msgspec.structs.replace(one.item, agent_id=agent_id)) for one in taken]
    return Resolved(event, tuple(taken))


def _read_spans(log: Log, spans: Sequence[Span]) -> list[list[TakenItem]]:
    """Return the items of each span."""
    runs = [[(span.stream, run) for run in span.ranges()] for span in spans]
    found = iter(read_runs(log, list(chain.from_iterable(runs))))
    return [list(chain.from_iterable(islice(found, len(some)))) for some in runs]


def read_runs(log: Log, runs: Sequence[tuple[str, range]]) -> list[list[TakenItem]]:
    """
    Return the items of runs of versions, each of a stream, read where they came into the world.

    Raises:
        DamagedError: there is no such item.
    """
    found = log.read_ranges([Range(stream, run.start - 1, run.stop - 1) for stream, run in runs]) if runs else []
    taken: list[list[TakenItem]] = []
    for (stream, run), events in zip(runs, found, strict=True):
        if len(events) != run.stop - run.start:
            raise DamagedError(f"{stream}@{run.stop - 1}", "a merge or fork names it, and it does not exist")
        items = [_item(log, stream, version, event) for version, event in zip(run, events, strict=True)]
        taken.append([TakenItem(Ref(version, stream), item) for version, item in zip(run, items, strict=True)])
    return taken


def _item(log: Log, stream: str, version: int, event: Any) -> ChatItemEvent:
    item = added_item(event)
    if isinstance(event, Merged) and event.agent_id is not None:
        # It put another agent's name on the one item that it took.
        resolved = _resolved(log, [event])[0]
        item = next((one.item for one in resolved.taken), None) if isinstance(resolved, Resolved) else None
    if item is None:
        raise DamagedError(f"{stream}@{version}", "a merge or fork names it as an item, and it is none")
    return item
