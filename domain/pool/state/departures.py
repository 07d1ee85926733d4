"""Which items left a container, and how: read from its events, since the state holds only what is there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ...spans import Ref, refs_of
from ..events import (
    BranchedEvent,
    ClearedEvent,
    ContainerEvent,
    EvictedEvent,
    MergedEvent,
    PoolRemoved,
    PoolReplaced,
)
from ..items import EvictedItem, Held
from .fold import EMPTY, ContainerState, Resolved, fold, recorded_event
from .naming import absolute, birth_of


class Departure(NamedTuple):
    """How an item left, why, and with which version."""

    held: Held
    how: str
    reason: str | None
    version: int


class Departures:
    """What left a container up to a version, and is not back: by birth, with its stream, the last one last."""

    def __init__(self, stream: str) -> None:
        self._stream = stream
        self._left: dict[Ref, Departure] = {}
        self.state: ContainerState = EMPTY

    def go_on(self, events: Iterable[ContainerEvent | Resolved]) -> None:
        """Take note of what leaves with `events`, which follow those before."""
        for event in events:
            recorded = recorded_event(event)
            # Looked up before the fold: to look back at a state costs what it holds.
            leaving = _leaving(recorded, self.state)
            self.state = fold(self.state, (event,))
            if isinstance(recorded, BranchedEvent):
                # What its ancestors had let go of was never the branch's.
                self._left.clear()
                leaving = [(held.named_in(recorded.parent), how, reason) for held, how, reason in leaving]
            staying = self._there() if isinstance(recorded, MergedEvent | BranchedEvent) else ()
            for held, how, reason in leaving:
                ref = absolute(held.ref, self._stream)
                if ref not in staying:
                    self._left.pop(ref, None)
                    self._left[ref] = Departure(held, how, reason, self.state.version)

    def gone(self) -> dict[Ref, Departure]:
        """Return what left and is not there, each with how, why and with which version."""
        there = self._there()
        return {ref: left for ref, left in self._left.items() if ref not in there}

    def _there(self) -> set[Ref]:
        return {absolute(held.ref, self._stream) for held in self.state.items.values()}


def departed(stream: str, events: Iterable[ContainerEvent | Resolved]) -> list[EvictedItem]:
    """Return what left the container `stream` with its events so far, and is not back."""
    departures = Departures(stream)
    departures.go_on(events)
    return [
        EvictedItem(held, how, reason, left_with, birth_of(ref, stream))
        for ref, (held, how, reason, left_with) in departures.gone().items()
    ]


def _leaving(event: ContainerEvent, state: ContainerState) -> list[tuple[Held, str, str | None]]:
    """Return the items that leave with an event; with a merge and a branch all that may."""
    match event:
        case EvictedEvent():
            return [(held, "evict", event.reason) for held in _named(state, refs_of(event.items))]
        case PoolRemoved():
            return [(held, "remove", event.reason) for held in _named(state, [event.item])]
        case PoolReplaced():
            return [(held, "replace", None) for held in _named(state, [event.old])]
        case ClearedEvent():
            return [(held, "clear", None) for held in state.items.values()]
        case MergedEvent():
            return [(held, "merge", None) for held in state.items.values()]
        case BranchedEvent():
            return [(held, "evict", "limit") for held in state.items.values()]
        case _:
            return []


def _named(state: ContainerState, refs: Iterable[Ref]) -> list[Held]:
    by_key = [state.items.get(state.ids.get(ref) or ref if state.is_pool else ref) for ref in refs]
    return [held for held in by_key if held is not None]
