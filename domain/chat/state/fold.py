"""
The folded state of a chat context, and the fold.

A state is a value: it never changes, and appending to it costs the same whatever its length.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...spans import Segment
from ..events import (
    ITEM_EVENTS,
    ChatEvent,
    ChatItemEvent,
    Cleared,
    ConfigUpdated,
    ConflictResolved,
    Forked,
    InstructionsReplaced,
    ItemInserted,
    ItemsEvicted,
    ItemsPinned,
    ItemsRestored,
    ItemsUnpinned,
    Merged,
    MessageAdded,
    Named,
    Opened,
    Summarized,
    SummaryUndone,
    is_instructions,
)
from .builder import ItemsBuilder, TakenItem
from .sequence import Gone, Items

_IS_ITEM = frozenset(ITEM_EVENTS)


class Resolved(msgspec.Struct, frozen=True):
    """A merge, or a fork that carried a part, together with the items of other streams that it names."""

    event: Merged | Forked
    taken: tuple[TakenItem, ...]


class ChatState(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a chat context is at one version.

    `names` maps a name to the version it was given to, `merged` a stream, and how it was merged, to the
    version up to which that was done; `ancestry` is the lineage of a fork, its parent last.
    """

    version: int = 0
    opened: Opened | Forked | None = None
    items: Items = msgspec.field(default_factory=Items)
    names: dict[str, int] = msgspec.field(default_factory=dict)
    merged: dict[tuple[str, str], int] = msgspec.field(default_factory=dict)
    ancestry: tuple[Segment, ...] = ()


EMPTY = ChatState()


def recorded_event(event: ChatEvent | Resolved) -> ChatEvent:
    """Return the event itself, without what was looked up for it."""
    return event.event if isinstance(event, Resolved) else event


def fold(state: ChatState, events: Iterable[ChatEvent | Resolved]) -> ChatState:
    """
    Return the state after `events`; it trusts them, since they are history.

    A fork goes on where its parent's events end: its own begin with version 1 again. A merge, and a fork that
    carried a part, come as `Resolved`.
    """
    if isinstance(events, tuple) and len(events) == 1:
        event = events[0]
        if type(event) in _IS_ITEM:
            return _appended(state, events)  # type: ignore[arg-type]  # mypy does not narrow by membership
        if isinstance(event, Forked) and event.carried is None and event.config is None:
            return _forked(state, event)
    step = _Fold(state)
    version, row = state.version, step.row
    for event in events:
        version += 1
        if type(event) in _IS_ITEM:
            row.append(event)  # type: ignore[arg-type]  # mypy does not narrow by membership
        else:
            step.put_row(version)
            version = step.apply(event, version)
    step.put_row(version + 1)
    return step.state(version)


def _appended(state: ChatState, item: tuple[ChatItemEvent]) -> ChatState:
    """By far the most frequent step, and the one that somebody waits for."""
    version = state.version + 1
    items = state.items.plus(item, version)
    return ChatState(
        version=version,
        opened=state.opened,
        items=items,
        names=state.names,
        merged=state.merged,
        ancestry=state.ancestry,
    )


def _forked(state: ChatState, event: Forked) -> ChatState:
    """The first step of every fork of a whole, which somebody waits for too."""
    items = state.items.forked(event.parent, is_borrowed=bool(state.items.reach))
    return ChatState(version=1, opened=event, items=items, ancestry=event.lineage)


class _Fold:
    """A fold under way: everything that is not a plain append goes through here."""

    def __init__(self, state: ChatState) -> None:
        self._opened, self._names, self._merged = state.opened, state.names, state.merged
        self._ancestry = state.ancestry
        self._items = ItemsBuilder(state.items)
        # Items that were appended one after the other, and not handed to the builder yet.
        self.row: list[ChatItemEvent] = []

    def put_row(self, version: int) -> None:
        """Hand over the row, which ended right before `version`."""
        if self.row:
            self._items.append(self.row, version - len(self.row))
            self.row.clear()

    def state(self, version: int) -> ChatState:
        """Return the state at the end."""
        return ChatState(
            version=version,
            opened=self._opened,
            items=self._items.built(),
            names=self._names,
            merged=self._merged,
            ancestry=self._ancestry,
        )

    def apply(self, event: ChatEvent | Resolved, version: int) -> int:
        """Apply an event that is no plain append; return the version it has in its own stream."""
        taken = event.taken if isinstance(event, Resolved) else ()
        recorded = recorded_event(event)
        if isinstance(recorded, Opened):
            self._opened = recorded
        elif isinstance(recorded, Named):
            self._names = {**self._names, recorded.name: recorded.version}
        elif isinstance(recorded, Forked):
            self._fork(recorded, taken)
            return 1
        elif isinstance(recorded, Merged):
            self._merge(recorded, taken, version)
        else:
            self._edit(recorded, version)
        return version

    def _edit(self, event: ChatEvent, version: int) -> None:
        items = self._items
        match event:
            case ItemInserted():
                items.insert(event.item, version, event.before)
            case InstructionsReplaced():
                items.insert(event.item, version, event.before)
                items.hide(items.ordinals(event.replaced), Gone("replace", None, version))
            case ItemsEvicted():
                items.hide(items.ordinals(event.items), Gone(event.how, event.reason, version))
            case ItemsRestored():
                items.show(items.ordinals(event.items))
            case ItemsPinned() | ItemsUnpinned():
                items.pin(items.ordinals(event.items), is_pinned=isinstance(event, ItemsPinned))
            case Cleared():
                items.hide(range(items.count), Gone("clear", event.reason, version))
            case Summarized():
                folded = items.ordinals(event.folded)
                items.insert(event.item, version, event.before)
                items.hide(folded, Gone("summarize", None, version, items.count - 1))
            case SummaryUndone():
                items.show(items.ordinals(event.items))
                summary = items.ordinal(event.summary)
                items.hide([] if summary is None else [summary], Gone("undo_summary", None, version))
            case ConflictResolved():
                pass  # It says how the events around it came about, and changes nothing itself.

    def _fork(self, event: Forked, taken: tuple[TakenItem, ...]) -> None:
        self._opened, self._names, self._merged = event, {}, {}
        self._ancestry = event.lineage
        if event.carried is None:
            self._items.fork(event.parent)
        else:
            self._items.start_again(taken)
            self._items.pin(self._items.ordinals(event.pinned), is_pinned=True)
        if event.config is not None:
            self._items.append((event.config,), 1)

    def _merge(self, event: Merged, taken: tuple[TakenItem, ...], version: int) -> None:
        first = self._items.count
        if event.agent_id is None:
            self._items.take(taken)
        else:
            # With another agent's name on it the item is a new one, which this event brought into the world.
            self._items.append([one.item for one in taken], version)
        self._items.place(event.placed, first)
        self._merged = {**self._merged, (event.source, event.how): event.version}


def evolve(state: ChatState, event: ChatEvent | Resolved) -> ChatState:
    """Return the state after one event."""
    return fold(state, (event,))


def active_config(items: Iterable[ChatItemEvent]) -> tuple[str | None, tuple[str, ...] | None]:
    """Return the instructions and tools in force behind `items`; the later wins, whatever its kind."""
    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    for item in items:
        if isinstance(item, MessageAdded) and is_instructions(item):
            content = item.content
            instructions = content if isinstance(content, str) else " ".join(p for p in content if isinstance(p, str))
        elif isinstance(item, ConfigUpdated):
            instructions = item.instructions if item.instructions is not None else instructions
            tools = item.tools if item.tools is not None else tools
    return instructions, tools
