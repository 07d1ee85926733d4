"""
The folded state of a window, and the fold.

A state is a value: it never changes, and a change costs the same whatever it holds.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ...errors import DamagedError
from ...ordered_map import OrderedMap
from ...spans import Span, refs_of
from ..events import (
    WindowAdded,
    WindowCleared,
    WindowDropped,
    WindowEvent,
    WindowEvicted,
    WindowNamed,
    WindowOpened,
    WindowReplaced,
    WindowRestored,
    WindowSettingsChanged,
)
from ..items import QUARTERS_PER_TOKEN, Held
from .group import NO_ITEMS, Group, Groups, with_item, without_item


class Resolved(msgspec.Struct, frozen=True):
    """A restoration, together with the items that it names: the version and the event of each."""

    event: WindowRestored
    taken: tuple[Held, ...]


class WindowState(msgspec.Struct, frozen=True, kw_only=True):
    """What a window is at one version: its settings, its items, and the same items by key and by priority."""

    version: int = 0
    opened: WindowOpened | None = None
    max_tokens: int = 0
    policy: str = "first_come"
    held: Group = NO_ITEMS
    by_key: Groups[str] = msgspec.field(default_factory=OrderedMap)
    by_priority: Groups[int | float] = msgspec.field(default_factory=OrderedMap)
    names: dict[str, int] = msgspec.field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """The estimated tokens of all items: one rounding, of the sum (SPEC A2.5)."""
        return self.held.quarters // QUARTERS_PER_TOKEN

    def with_key(self, key: str) -> list[Held]:
        """Return the items with a key, in order."""
        group = self.by_key.get(key)
        return [] if group is None else group.in_order()


EMPTY = WindowState()


def recorded_event(event: WindowEvent | Resolved) -> WindowEvent:
    """Return the event itself, without what was looked up for it."""
    return event.event if isinstance(event, Resolved) else event


def fold(state: WindowState, events: Iterable[WindowEvent | Resolved]) -> WindowState:
    """Return the state after `events`; it trusts them, since they are history. A restoration comes as `Resolved`."""
    step = _Fold(state)
    for event in events:
        step.apply(event)
    return step.state()


class _Fold:
    """A fold under way."""

    def __init__(self, state: WindowState) -> None:
        self._version, self._opened = state.version, state.opened
        self._max_tokens, self._policy = state.max_tokens, state.policy
        self._held, self._by_key, self._by_priority = state.held, state.by_key, state.by_priority
        self._names = state.names

    def state(self) -> WindowState:
        """Return the state at the end."""
        return WindowState(
            version=self._version,
            opened=self._opened,
            max_tokens=self._max_tokens,
            policy=self._policy,
            held=self._held,
            by_key=self._by_key,
            by_priority=self._by_priority,
            names=self._names,
        )

    def apply(self, event: WindowEvent | Resolved) -> None:
        """Apply one event."""
        self._version += 1
        match recorded_event(event):
            case WindowAdded() as added:
                self._put(Held(self._version, added, (self._version, 0)))
            case WindowReplaced() as replaced:
                place = min(held.place for held in self._drop(replaced.old))
                self._put(Held(self._version, replaced, place))
            case WindowEvicted(items=items):
                self._drop(items)
            case WindowRestored():
                assert isinstance(event, Resolved), "a restoration is folded with what it names"
                for index, held in enumerate(event.taken):
                    self._put(held._replace(place=(self._version, index)))
            case WindowCleared():
                self._held, self._by_key, self._by_priority = NO_ITEMS, OrderedMap(), OrderedMap()
            case WindowOpened() as opened:
                self._opened, self._max_tokens, self._policy = opened, opened.max_tokens, opened.policy
            case WindowSettingsChanged(max_tokens=max_tokens, policy=policy):
                self._max_tokens, self._policy = max_tokens, policy
            case WindowNamed(name=name, version=version):
                self._names = {**self._names, name: version}
            case WindowDropped():
                pass  # It was never in.

    def _put(self, held: Held) -> None:
        self._held = self._held.plus(held)
        self._by_key = with_item(self._by_key, held.event.key, held)
        self._by_priority = with_item(self._by_priority, held.event.priority, held)

    def _drop(self, spans: Iterable[Span]) -> list[Held]:
        dropped: list[Held] = []
        for ref in refs_of(spans):
            held = self._held.items.get(ref.version)
            if held is None:
                raise DamagedError(f"item {ref.version} of a window", "it left, and was not there")
            self._held = self._held.minus(held)
            self._by_key = without_item(self._by_key, held.event.key, held)
            self._by_priority = without_item(self._by_priority, held.event.priority, held)
            dropped.append(held)
        return dropped
