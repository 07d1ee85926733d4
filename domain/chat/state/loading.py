"""
What the events of a context refer to in other streams, looked up so that they can be folded.

A fork that carried everything is folded behind its ancestors' events: one read of a range for each. A fork that
carried a part, and a merge, get the items that they name, and nothing else is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ...errors import DamagedError
from ...ports import Log
from ..events import ChatEvent, ChatItemEvent, Forked, Merged, added_item
from ..spans import Ref, Span, neighbours
from .builder import TakenItem
from .fold import Resolved

__all__ = ["complete", "read_items", "resolve"]

NAMING_ITEMS = frozenset({Merged, Forked})


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
    segments = list(first.lineage)
    while isinstance(first, Forked) and first.carried is None:
        if not segments or segments[-1].stream != first.parent:
            raise DamagedError(f"the fork of {first.parent}@{first.version}", "its parent is not in its lineage")
        segment = segments.pop()
        parts.append(log.read_events(segment.stream, until=segment.version))
        if len(parts[-1]) != segment.version:
            raise DamagedError(f"the fork of {segment.stream}@{segment.version}", "that version does not exist")
        first = parts[-1][0]
    return [event for part in reversed(parts) for event in _resolved(log, part)]


def _resolved(log: Log, events: Sequence[Any]) -> list[ChatEvent | Resolved]:
    return [resolve(log, event) if type(event) in NAMING_ITEMS else event for event in events]


def resolve(log: Log, event: ChatEvent) -> ChatEvent | Resolved:
    """
    Return an event together with the items of other streams that it names, if it needs any.
    """
    if isinstance(event, Merged):
        return Resolved(event, _taken_by(log, event))
    if isinstance(event, Forked) and event.carried is not None:
        return Resolved(event, tuple(read_items(log, event.carried)))
    return event


def _taken_by(log: Log, merged: Merged) -> tuple[TakenItem, ...]:
    spans = [span for placement in merged.placed for span in placement.items]
    return tuple(_stamped(taken, merged.agent_id) for taken in read_items(log, spans))


def _stamped(taken: TakenItem, agent_id: str | None) -> TakenItem:
    if agent_id is None:
        return taken
    return TakenItem(taken.ref, msgspec.structs.replace(taken.item, agent_id=agent_id))


def read_items(log: Log, spans: Iterable[Span]) -> list[TakenItem]:
    """
    Return the items that spans name, in their order, read where they came into the world.

    Raises:
        DamagedError: there is no such item.
    """
    taken: list[TakenItem] = []
    for span in spans:
        for near in neighbours(span.ranges()):
            first, stop = near[0].start, near[-1].stop
            events = log.read_events(span.stream, after=first - 1, until=stop - 1)
            if len(events) != stop - first:
                raise DamagedError(f"{span.stream}@{stop - 1}", "a merge or fork names it, and it does not exist")
            for run in near:
                for version in run:
                    item = _item(log, span, version, events[version - first])
                    taken.append(TakenItem(Ref(version, span.stream), item))
    return taken


def _item(log: Log, span: Span, version: int, event: Any) -> ChatItemEvent:
    item = added_item(event)
    if isinstance(event, Merged) and event.agent_id is not None:
        # It put another agent's name on the one item that it took.
        item = next((taken.item for taken in _taken_by(log, event)), None)
    if item is None:
        raise DamagedError(f"{span.stream}@{version}", "a merge or fork names it as an item, and it is none")
    return item
