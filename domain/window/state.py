"""The folded state of a window: its items with their totals, those that left, and the fold."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import reduce
from operator import attrgetter
from typing import Any, NamedTuple, Never, TypeVar

import msgspec
from msgspec.structs import replace

from ..concurrency.known_types import known
from ..context.description import Departure
from ..context.snapshot import Packing
from ..errors import DamagedError, NotFoundError
from ..named_events import EventSource, Resolved, read_named, recorded_event
from ..ordered_map import OrderedMap
from ..spans import OWN, Ref, Span, refs_of, spans_of
from . import events as window
from .describe import left_by
from .items import QUARTERS_PER_TOKEN, DroppedItem, EvictedItem, Held

K = TypeVar("K", bound=Hashable)
NOWHERE = (0, 0)


class Group(NamedTuple):
    """Items by the version that added each, and their total size."""

    items: OrderedMap[int, Held]
    quarters: int

    def plus(self, held: Held) -> Group:
        """Return the group with one more item."""
        return Group(self.items.plus(held.version, held), self.quarters + held.quarters)

    def minus(self, held: Held) -> Group:
        """Return the group without one of its items."""
        return Group(self.items.minus(held.version), self.quarters - held.quarters)

    def in_order(self) -> list[Held]:
        """Return the items in the order in which a window shows them."""
        # The items are nearly in order already: only an item that replaced another can be in another place.
        return sorted(self.items.values(), key=attrgetter("place"))


Groups = OrderedMap[K, Group]
NO_ITEMS = Group(OrderedMap(), 0)


def with_item(groups: Groups[K], key: K, held: Held) -> Groups[K]:
    """Return the groups with one more item under `key`."""
    group = groups.get(key)
    return groups.plus(key, (NO_ITEMS if group is None else group).plus(held))


def without_item(groups: Groups[K], key: K, held: Held) -> Groups[K]:
    """Return the groups without an item under `key`; where it was the last one, without the key."""
    group = groups.get(key)
    assert group is not None, "an item of a window is in its groups"
    return groups.plus(key, group.minus(held)) if len(group.items) > 1 else groups.minus(key)


class WindowState(msgspec.Struct, frozen=True, kw_only=True):
    """A window at one version: its settings, its items, and the same items by key and by priority."""

    version: int = 0
    opened: window.WindowOpened | None = None
    max_tokens: int = 0
    policy: str = "first_come"
    held: Group = NO_ITEMS
    by_key: Groups[str] = msgspec.field(default_factory=OrderedMap)
    by_priority: Groups[int | float] = msgspec.field(default_factory=OrderedMap)
    names: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """The estimated tokens of all items: the sum is rounded once."""
        return self.held.quarters // QUARTERS_PER_TOKEN

    def with_key(self, key: str) -> list[Held]:
        """Return the items with a key, in order."""
        group = self.by_key.get(key)
        return [] if group is None else group.in_order()


EMPTY = WindowState()
# The events of a window in the form that `fold` takes: restorations come with the items that they name.
Completed = window.WindowEvent | Resolved[Held]


def fold(state: WindowState, events: Iterable[Completed]) -> WindowState:
    """Return the state after `events`, which are history and not checked. A restoration comes as `Resolved`."""
    return reduce(_evolved, events, state)


def _evolved(state: WindowState, event: Completed) -> WindowState:
    version = state.version + 1
    state = replace(state, version=version)
    recorded: window.WindowEvent = recorded_event(event)
    match recorded:
        case window.WindowAdded():
            return _with(state, Held(version, recorded, (version, 0)))
        case window.WindowReplaced(old=old):
            places = [_require_held(state, ref).place for ref in refs_of(old)]
            if not places:
                raise DamagedError(f"item {version} of a window", "it replaced nothing")
            place = min(places)
            return _with(reduce(_without, refs_of(old), state), Held(version, recorded, place))
        case window.WindowEvicted(items=items):
            return reduce(_without, refs_of(items), state)
        case window.WindowRestored():
            assert isinstance(event, Resolved), "a restoration is folded with the items that it names"
            placed = [held._replace(place=(version, index)) for index, held in enumerate(event.taken)]
            return reduce(_with, placed, state)
        case window.WindowCleared():
            return replace(state, held=NO_ITEMS, by_key=OrderedMap(), by_priority=OrderedMap())
        case window.WindowOpened():
            return replace(state, opened=recorded, **window.settings_of(recorded))
        case window.WindowSettingsChanged():
            return replace(state, **window.settings_of(recorded))
        case window.WindowNamed(name=name, version=named):
            return replace(state, names={**state.names, name: named})
        case window.WindowDropped():
            return state  # It was never in the window.
    _: Never = recorded  # A type checker sees to it that each event is named. Others are passed over.
    return state


def _with(state: WindowState, held: Held) -> WindowState:
    return replace(
        state,
        held=state.held.plus(held),
        by_key=with_item(state.by_key, held.event.key, held),
        by_priority=with_item(state.by_priority, held.event.priority, held),
    )


def _without(state: WindowState, ref: Ref) -> WindowState:
    held = _require_held(state, ref)
    return replace(
        state,
        held=state.held.minus(held),
        by_key=without_item(state.by_key, held.event.key, held),
        by_priority=without_item(state.by_priority, held.event.priority, held),
    )


def _require_held(state: WindowState, ref: Ref) -> Held:
    held = state.held.items.get(ref.version)
    if held is None:
        raise _not_there(ref.version)
    return held


def _not_there(version: int) -> DamagedError:
    return DamagedError(f"item {version} of a window", "it left, and was not there")


def complete(log: EventSource, events: Sequence[Any]) -> Sequence[Completed]:
    """
    Return the events of a window in the form that `fold` takes: restorations together with the items that they name.

    Raises:
        DamagedError: the stream does not hold what an event names.
    """
    return [_resolved(log, event) if isinstance(event, window.WindowRestored) else event for event in events]


def _resolved(log: EventSource, event: window.WindowRestored) -> Resolved[Held]:
    named = read_named(log, event.items, window.ITEM_EVENTS)
    return Resolved(event, tuple(Held(ref.version, found, NOWHERE) for ref, found in named))


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """
    A state without its items' events: their versions, in order. The event that opened the window is read again, too.

    `places` has the places of the items that are not in the order of their versions. `by_key` and `by_priority` have
    one item of each group, in the order of the groups.
    """

    version: int
    settings: window.WindowSettingsChanged
    names: dict[str, int]
    items: tuple[Span, ...]
    places: dict[int, tuple[int, int]]
    by_key: tuple[Span, ...]
    by_priority: tuple[Span, ...]


def packed(state: WindowState) -> bytes:
    """Return a state as a snapshot holds it."""
    items = state.held.items
    return msgspec.msgpack.encode(
        _Packed(
            version=state.version,
            settings=window.WindowSettingsChanged(**window.settings_of(state)),
            names=state.names,
            items=_spans_of(items),
            places={held.version: held.place for held in items.values() if held.place != (held.version, 0)},
            by_key=_spans_of(next(iter(group.items)) for group in state.by_key.values()),
            by_priority=_spans_of(next(iter(group.items)) for group in state.by_priority.values()),
        )
    )


def _spans_of(versions: Iterable[int]) -> tuple[Span, ...]:
    return spans_of(Ref(version, OWN) for version in versions)


def unpacked(log: EventSource, stream: str, data: bytes) -> WindowState:
    """
    Return the state that `packed` packed.

    Raises:
        DamagedError: the log does not hold what it names.
    """
    short = msgspec.msgpack.decode(data, type=known(_Packed))
    opened = log.read_events(stream, until=1)[0]
    there = [Span(stream, span.runs) for span in short.items]
    held = {
        ref.version: Held(ref.version, event, short.places.get(ref.version, (ref.version, 0)))
        for ref, event in read_named(log, there, window.ITEM_EVENTS)
    }
    return WindowState(
        version=short.version,
        opened=opened if isinstance(opened, window.WindowOpened) else None,
        **window.settings_of(short.settings),
        held=_group_of(held.values()),
        by_key=_groups(held, short.by_key, attrgetter("event.key")),
        by_priority=_groups(held, short.by_priority, attrgetter("event.priority")),
        names=short.names,
    )


def _group_of(items: Iterable[Held]) -> Group:
    listed = {held.version: held for held in items}
    return Group(OrderedMap.of(listed), sum(held.quarters for held in listed.values()))


def _groups(held: Mapping[int, Held], order: Iterable[Span], key: Callable[[Held], K]) -> Groups[K]:
    """Return items by a key, given one item of each group in the order of the groups."""
    grouped: dict[K, list[Held]] = {key(held[version]): [] for version in _versions(order)}
    for one in held.values():
        grouped[key(one)].append(one)
    return OrderedMap.of({name: _group_of(items) for name, items in grouped.items()})


PACKING = Packing(
    packed,
    unpacked,
    "refold.domain.ordered_map",
    "refold.domain.window.describe",
    "refold.domain.window.events",
    "refold.domain.window.items",
    "refold.domain.window.state",
)


class Departures:
    """Items that left a window with its events so far, or were dropped, and are not in it: by version."""

    def __init__(self, stream: str, events: Iterable[Any]) -> None:
        self._stream, self._events = stream, list(events)
        self._there: dict[int, None] = {}
        self._left: dict[int, Departure] = {}
        self._dropped: dict[int, None] = {}
        for number, event in enumerate(self._events, 1):
            self._apply(number, event)

    def evicted(self) -> list[EvictedItem]:
        """Return the items that left, in the order in which they left."""
        return [
            EvictedItem(self._item_at(version).item, left.how, left.reason, left.version, self._birth(version))
            for version, left in self._left.items()
        ]

    def dropped(self) -> list[DroppedItem]:
        """Return the items that were not admitted, in order."""
        return [self._dropped_item(version) for version in self._dropped]

    def returning(self, versions: Iterable[int]) -> list[Held]:
        """
        Return the items that these versions added, so that they can be added again.

        Raises:
            NotFoundError: no such item left or was dropped, or it is in the window.
        """
        found: list[Held] = []
        for version in dict.fromkeys(versions):
            if version not in self._left and version not in self._dropped:
                raise NotFoundError(
                    f"no item {self._birth(version)} left the window: `evicted()` and `dropped()` list those there are"
                )
            found.append(self._item_at(version))
        return found

    def _apply(self, number: int, event: Any) -> None:
        left = left_by(event)
        if left is not None:
            departure = left.with_version(number)
            for version in list(self._there) if left.items is None else _versions(left.items):
                if version not in self._there:
                    raise _not_there(version)
                del self._there[version]
                self._left[version] = departure
        match event:
            case window.WindowAdded() | window.WindowReplaced():
                self._there[number] = None
            case window.WindowRestored(items=items):
                for version in _versions(items):
                    self._left.pop(version, None)
                    self._dropped.pop(version, None)
                    self._there[version] = None
            case window.WindowDropped():
                self._dropped[number] = None

    def _item_at(self, version: int) -> Held:
        event: window.WindowItemEvent = self._events[version - 1]
        return Held(version, event, (0, 0))

    def _birth(self, version: int) -> str:
        return f"{self._stream}@{version}"

    def _dropped_item(self, version: int) -> DroppedItem:
        event: window.WindowDropped = self._events[version - 1]
        item = self._item_at(version).item
        return DroppedItem(item, event.tokens, event.max_tokens, version, self._birth(version))


def _versions(spans: Iterable[Span]) -> list[int]:
    return [ref.version for ref in refs_of(spans)]
