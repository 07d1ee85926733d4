"""
The events of context windows.

A tag is kept for ever; a field is never renamed, retyped or reused, and a new one has a default. An item is brought
into the world by one event, also one that is not let in, and named by it ever after (`refold.domain.spans`).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from ..log.admission import Priority, Total, VersionName, VersionNumber, one_of
from ..spans import Span
from ..totals import Totals

POLICY = one_of("first_come", "evict_lower_priority")


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="t"):
    """Base of all events of windows: a msgpack map with the tag under `t`."""


class WindowOpened(_Event, frozen=True, kw_only=True, gc=False, tag="window.opened.v1"):
    """The window came to be; `policy` says what is let in: `first_come` or `evict_lower_priority`."""

    max_tokens: int
    policy: Annotated[str, POLICY] = "first_come"
    user: str | None = None
    session: str | None = None
    agent: str | None = None


class WindowItemEvent(_Event, frozen=True, kw_only=True, gc=False):
    """
    An item was brought. `quarters` is its size in quarters of a token, as the counter of that moment had it.

    Quarters, because the seed's estimate rounds the sum of all items and not each of them.
    """

    key: str
    value: str
    source: str
    priority: Priority = 0
    quarters: Total


class WindowAdded(WindowItemEvent, frozen=True, kw_only=True, gc=False, tag="window.added.v1"):
    """An item came in, as the last one."""

    change: Totals


class WindowReplaced(WindowItemEvent, frozen=True, kw_only=True, gc=False, tag="window.replaced.v1"):
    """An item took the place of the first of `old`, all of which had its key and left."""

    old: tuple[Span, ...]
    change: Totals


class WindowDropped(WindowItemEvent, frozen=True, kw_only=True, gc=False, tag="window.dropped.v1"):
    """An item was not let in: with it the window would have held `tokens`, more than `max_tokens`."""

    tokens: int
    max_tokens: int


class WindowEvicted(_Event, frozen=True, kw_only=True, gc=False, tag="window.evicted.v1"):
    """Items left: `how` is `evict`, `remove`, or `room`, which they made for a more important one."""

    items: tuple[Span, ...]
    change: Totals
    how: str = "room"
    reason: str | None = None


class WindowRestored(_Event, frozen=True, kw_only=True, gc=False, tag="window.restored.v1"):
    """Items that had left, or had not been let in, are in now, as the last ones. They are named with their stream."""

    items: tuple[Span, ...]
    change: Totals


class WindowCleared(_Event, frozen=True, kw_only=True, gc=False, tag="window.cleared.v1"):
    """All items left."""

    change: Totals


class WindowSettingsChanged(_Event, frozen=True, kw_only=True, gc=False, tag="window.settings_changed.v1"):
    """The budget and the policy are these from now on; nothing leaves because of it."""

    max_tokens: int
    policy: Annotated[str, POLICY] = "first_come"


class WindowNamed(_Event, frozen=True, kw_only=True, gc=False, tag="window.named.v1"):
    """A version got a name; the same name given again moves it."""

    name: VersionName
    version: VersionNumber


ITEM_EVENTS = (WindowAdded, WindowReplaced, WindowDropped)
WindowEvent = (
    WindowOpened
    | WindowAdded
    | WindowReplaced
    | WindowDropped
    | WindowEvicted
    | WindowRestored
    | WindowCleared
    | WindowSettingsChanged
    | WindowNamed
)
