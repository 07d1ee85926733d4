"""
The folded state of a chat context, and the fold.

A state is a value: it never changes, and appending to it costs the same whatever its length, because
successive states share one growing buffer and differ only in how much of it they show.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never, overload

import msgspec

from .events import ITEM_EVENTS, ChatEvent, ChatItemEvent, ConfigUpdated, MessageAdded, Named, Opened
from .tokens import estimate_tokens

__all__ = ["EMPTY", "ChatState", "Items", "active_config", "evolve", "fold"]


class _Buffer:
    """
    What successive states share: the items in order and, made on demand and only ever extended, where each id
    stands and the running totals of tokens and turns.
    """

    __slots__ = ("_indexed", "_lock", "_places", "_totals", "items")

    def __init__(self, items: list[ChatItemEvent]) -> None:
        self.items = items
        self._lock = threading.Lock()
        self._places: dict[str, int] = {}
        self._indexed = 0
        self._totals = [(0, 0)]

    def place(self, item_id: str) -> int | None:
        with self._lock:
            for place in range(self._indexed, len(self.items)):
                self._places.setdefault(self.items[place].id, place)
            self._indexed = len(self.items)
            return self._places.get(item_id)

    def totals(self, length: int) -> tuple[int, int]:
        with self._lock:
            tokens, turns = self._totals[-1]
            for item in self.items[len(self._totals) - 1 : length]:
                tokens += estimate_tokens(item)
                turns += isinstance(item, MessageAdded) and item.role == "user"
                self._totals.append((tokens, turns))
            return self._totals[length]


class Items(Sequence[ChatItemEvent]):
    """An immutable sequence of items: the first `length` entries of a buffer that only ever grows."""

    __slots__ = ("_buffer", "_length")

    def __init__(self, buffer: _Buffer | None = None, length: int = 0) -> None:
        self._buffer = buffer or _Buffer([])
        self._length = length

    def plus(self, added: list[ChatItemEvent]) -> Items:
        """
        Return these items and `added` behind them; in time of `added` alone, unless two states branch here.
        """
        buffer = self._buffer
        if not self._length or len(buffer.items) != self._length:
            buffer = _Buffer(buffer.items[: self._length])
        buffer.items.extend(added)
        return Items(buffer, len(buffer.items))

    def find(self, item_id: str) -> int | None:
        """
        Return the index of the item with this id, or None.
        """
        place = self._buffer.place(item_id)
        return None if place is None or place >= self._length else place

    @property
    def tokens(self) -> int:
        """The estimated tokens of all items: a running total, never a sum over them again."""
        return self._buffer.totals(self._length)[0]

    @property
    def turns(self) -> int:
        """The number of user messages, likewise."""
        return self._buffer.totals(self._length)[1]

    def continues(self, earlier: Items) -> bool:
        """
        Return whether `earlier` is the beginning of these items, by what they share, not by comparing.
        """
        return self._buffer is earlier._buffer and self._length >= earlier._length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[ChatItemEvent]:
        return iter(self._buffer.items[: self._length])

    @overload
    def __getitem__(self, index: int) -> ChatItemEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[ChatItemEvent]: ...
    def __getitem__(self, index: int | slice) -> ChatItemEvent | list[ChatItemEvent]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step > 0:
                return self._buffer.items[start:stop:step]
            return [self._buffer.items[place] for place in range(start, stop, step)]
        return self._buffer.items[range(self._length)[index]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class ChatState(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a chat context is at one version; `names` maps a name to the version it was given to.
    """

    version: int = 0
    opened: Opened | None = None
    items: Items = msgspec.field(default_factory=Items)
    names: dict[str, int] = msgspec.field(default_factory=dict)


EMPTY = ChatState()


def fold(state: ChatState, events: Iterable[ChatEvent]) -> ChatState:
    """
    Return the state after `events`; it trusts them, since they are history.
    """
    version, opened, names = state.version, state.opened, state.names
    added: list[ChatItemEvent] = []
    for event in events:
        version += 1
        if isinstance(event, ITEM_EVENTS):
            added.append(event)
        elif isinstance(event, Opened):
            opened = event
        elif isinstance(event, Named):
            names = {**names, event.name: event.version}
        else:
            assert_never(event)
    items = state.items.plus(added) if added else state.items
    return ChatState(version=version, opened=opened, items=items, names=names)


def evolve(state: ChatState, event: ChatEvent) -> ChatState:
    """
    Return the state after one event.
    """
    return fold(state, (event,))


def active_config(items: Iterable[ChatItemEvent]) -> tuple[str | None, tuple[str, ...] | None]:
    """
    Return the instructions and tools in force behind `items`; the later wins, whatever its kind (SPEC V3.2).
    """
    instructions: str | None = None
    tools: tuple[str, ...] | None = None
    for item in items:
        if isinstance(item, MessageAdded) and item.role in ("system", "developer"):
            content = item.content
            instructions = content if isinstance(content, str) else " ".join(p for p in content if isinstance(p, str))
        elif isinstance(item, ConfigUpdated):
            instructions = item.instructions if item.instructions is not None else instructions
            tools = item.tools if item.tools is not None else tools
    return instructions, tools
