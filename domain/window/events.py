"""
The events of context windows.

A tag is kept for ever; a field is never renamed, retyped or reused, and a new one has a default. Each item, also one
that is not admitted, is recorded by one event, its origin; all later events name the item by it
(`refold.domain.spans`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from ..context.decider import VersionNamed
from ..log.admission import Priority, Total, one_of
from ..log.envelope import TaggedEvent
from ..spans import Span
from ..totals import Totals

AdmissionPolicy = Literal["first_come", "evict_lower_priority"]


class SettingsEvent(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """The settings of a window from this event on; `policy` says which items are admitted."""

    max_tokens: int
    policy: Annotated[str, one_of(*get_args(AdmissionPolicy))] = "first_come"


def settings_of(source: Any) -> dict[str, Any]:
    """Return the settings of a window by name, as an event or a state has them."""
    return {name: getattr(source, name) for name in SettingsEvent.__struct_fields__}


class WindowOpened(SettingsEvent, frozen=True, kw_only=True, gc=False, tag="window.opened.v1"):
    """The window was created."""

    user: str | None = None
    session: str | None = None
    agent: str | None = None


class WindowItemEvent(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """
    An item was given to the window. `quarters` is its size in quarters of a token, as the counter measured it then.

    Sizes are in quarters because the seed's estimate rounds the sum of all items and not each of them.
    """

    key: str
    value: str
    source: str
    priority: Priority = 0
    quarters: Total


class WindowAdded(WindowItemEvent, frozen=True, kw_only=True, gc=False, tag="window.added.v1"):
    """An item was added at the end."""

    change: Totals


class WindowReplaced(WindowItemEvent, frozen=True, kw_only=True, gc=False, tag="window.replaced.v1"):
    """An item took the place of the first of `old`; all items of `old` had its key and left."""

    old: tuple[Span, ...]
    change: Totals


class WindowDropped(WindowItemEvent, frozen=True, kw_only=True, gc=False, tag="window.dropped.v1"):
    """An item was not admitted: with it the window would have held `tokens`, more than `max_tokens`."""

    tokens: int
    max_tokens: int


class WindowEvicted(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="window.evicted.v1"):
    """Items left: `how` is `evict`, `remove`, or `room` (they made room for a more important item)."""

    items: tuple[Span, ...]
    change: Totals
    how: str = "room"
    reason: str | None = None


class WindowRestored(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="window.restored.v1"):
    """Items that had left, or had not been admitted, were added at the end. Their names include the stream."""

    items: tuple[Span, ...]
    change: Totals


class WindowCleared(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="window.cleared.v1"):
    """All items left."""

    change: Totals


class WindowSettingsChanged(SettingsEvent, frozen=True, kw_only=True, gc=False, tag="window.settings_changed.v1"):
    """The settings were changed to these values; no item leaves because of it."""


class WindowNamed(VersionNamed, frozen=True, kw_only=True, gc=False, tag="window.named.v1"):
    """A version of a window was named."""


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
