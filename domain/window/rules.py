"""The rules of a window: its commands, admission within the budget, and the decider."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from msgspec.structs import asdict

from ..context.decider import Decider, NameVersion, decide_name
from ..errors import InvalidInputError, LimitExceededError, NotFoundError
from ..named_events import Resolved
from ..spans import Ref, Span, spans_of
from ..totals import Totals
from . import events as window
from .items import QUARTERS_PER_TOKEN, Held
from .state import EMPTY, PACKING, Completed, WindowState, complete, fold


class Incoming(msgspec.Struct, frozen=True):
    """An item to be added, in the form that an event has, and its size in quarters of a token."""

    key: str
    value: str
    source: str
    priority: int | float
    quarters: int


class Begin(msgspec.Struct, frozen=True):
    """Open the window."""

    event: window.WindowOpened


class Add(msgspec.Struct, frozen=True):
    """Add an item, if there is room or the policy makes room."""

    incoming: Incoming


class Put(msgspec.Struct, frozen=True):
    """Add an item in the place of those with its key."""

    incoming: Incoming


class SetItems(msgspec.Struct, frozen=True):
    """Replace all items by these, whatever the budget is."""

    items: tuple[Incoming, ...]


class Remove(msgspec.Struct, frozen=True):
    """Remove all items with a key."""

    key: str
    reason: str | None


class Evict(msgspec.Struct, frozen=True):
    """Evict items, each named by the version that added it."""

    versions: tuple[int, ...]
    reason: str | None


class Restore(msgspec.Struct, frozen=True):
    """Add items that had left `stream`, or had not been admitted."""

    stream: str
    items: tuple[Held, ...]


class Clear(msgspec.Struct, frozen=True):
    """Remove all items."""


class ChangeSettings(msgspec.Struct, frozen=True):
    """Change these settings, given by name."""

    changes: dict[str, Any]


Command = Begin | Add | Put | SetItems | Remove | Evict | Restore | Clear | ChangeSettings | NameVersion


def admitted(incoming: Incoming, old: Sequence[Held], state: WindowState) -> list[window.WindowEvent]:
    """Return the events of an item to be added; it replaces the items in `old`, if there are any."""
    quarters = state.held.quarters - sum(held.quarters for held in old) + incoming.quarters
    leaving = _leaving(incoming, quarters, old, state)
    if leaving is None:
        tokens = quarters // QUARTERS_PER_TOKEN
        return [window.WindowDropped(**asdict(incoming), tokens=tokens, max_tokens=state.max_tokens)]
    if not leaving:
        return [_arrived(incoming, old, state.held.quarters)]
    left = state.held.quarters - sum(held.quarters for held in leaving)
    return [evicted(leaving, state.held.quarters, how="room"), _arrived(incoming, old, left)]


def _leaving(incoming: Incoming, quarters: int, old: Collection[Held], state: WindowState) -> list[Held] | None:
    """
    Return the items that must leave so that the window can hold `quarters`: an empty list if there is room, None if
    too few items may leave.

    Only items with a lower priority than the new one leave. The item that is shown last leaves first: the one with the
    lowest priority, and among equals the newest. So the beginning of the prompt stays as it is, and older items have
    precedence, as in the seed.
    """
    excess = quarters - (QUARTERS_PER_TOKEN * (state.max_tokens + 1) - 1)
    if excess <= 0:
        return []
    if state.policy != "evict_lower_priority":
        return None
    lower = sorted(priority for priority in state.by_priority if priority < incoming.priority)
    groups = [group for priority in lower if (group := state.by_priority.get(priority)) is not None]
    # No item leaves if the new one would still not fit.
    if sum(group.quarters for group in groups) < excess:
        return None
    leaving: list[Held] = []
    for held in (held for group in groups for held in reversed(group.in_order()) if held not in old):
        leaving.append(held)
        excess -= held.quarters
        if excess <= 0:
            return leaving
    return None


def added(incoming: Incoming, before: int) -> window.WindowAdded:
    """Return the event that adds an item to a window which holds `before` quarters."""
    return window.WindowAdded(**asdict(incoming), change=change_of(before, before + incoming.quarters, 1))


def _arrived(incoming: Incoming, old: Sequence[Held], before: int) -> window.WindowEvent:
    if not old:
        return added(incoming, before)
    after = before - sum(held.quarters for held in old) + incoming.quarters
    return window.WindowReplaced(**asdict(incoming), old=named(old), change=change_of(before, after, 1 - len(old)))


def evicted(leaving: Sequence[Held], before: int, *, how: str, reason: str | None = None) -> window.WindowEvicted:
    """Return the event of items that leave a window which held `before` quarters."""
    after = before - sum(held.quarters for held in leaving)
    return window.WindowEvicted(
        items=named(leaving), change=change_of(before, after, -len(leaving)), how=how, reason=reason
    )


def named(items: Sequence[Held], stream: str = "") -> tuple[Span, ...]:
    """Return the names that an event has for items."""
    return spans_of(Ref(held.version, stream) for held in items)


def change_of(before: int, after: int, items: int) -> Totals:
    """Return the change from one size in quarters to another; it counts whole tokens, as the window does."""
    return Totals(items, 0, after // QUARTERS_PER_TOKEN - before // QUARTERS_PER_TOKEN)


def decide(command: Command, state: WindowState) -> Sequence[Completed]:
    """
    Return the events that carry out `command`; no events where nothing would change.

    Raises:
        NotFoundError: an item is not there.
        InvalidInputError: a name is malformed, or an item is there already.
        LimitExceededError: more items would be restored than the budget allows.
    """
    match command:
        case Begin(event=event):
            return [] if state.opened else [event]
        case Add(incoming=incoming):
            return admitted(incoming, [], state)
        case Put(incoming=incoming):
            return _put(incoming, state)
        case SetItems(items=items):
            return _set_items(items, state)
        case Remove(key=key, reason=reason):
            return [evicted(_with_key(key, state), state.held.quarters, how="remove", reason=reason)]
        case Evict(versions=versions, reason=reason):
            leaving = [_require_held(version, state) for version in dict.fromkeys(versions)]
            return [evicted(leaving, state.held.quarters, how="evict", reason=reason)] if leaving else []
        case Restore(stream=stream, items=items):
            return _restore(stream, items, state)
        case Clear():
            return _clear(state)
        case ChangeSettings(changes=changes):
            after = window.settings_of(state) | changes
            return [] if after == window.settings_of(state) else [window.WindowSettingsChanged(**after)]
        case NameVersion():
            return decide_name(command, state.names, window.WindowNamed)


def _put(incoming: Incoming, state: WindowState) -> Sequence[window.WindowEvent]:
    old = state.with_key(incoming.key)
    if len(old) == 1 and old[0].has_content(incoming.value, incoming.source, incoming.priority):
        return []
    return admitted(incoming, old, state)


def _set_items(items: Sequence[Incoming], state: WindowState) -> Sequence[window.WindowEvent]:
    events: list[window.WindowEvent] = _clear(state)
    quarters = 0
    for incoming in items:
        events.append(added(incoming, quarters))
        quarters += incoming.quarters
    return events


def _clear(state: WindowState) -> list[window.WindowEvent]:
    count = len(state.held.items)
    return [window.WindowCleared(change=change_of(state.held.quarters, 0, -count))] if count else []


def _restore(stream: str, items: Sequence[Held], state: WindowState) -> Sequence[Completed]:
    for held in items:
        if held.version in state.held.items:
            raise InvalidInputError(f"the item {held.event.key!r} of version {held.version} is in the window already")
    quarters = state.held.quarters + sum(held.quarters for held in items)
    if quarters // QUARTERS_PER_TOKEN > state.max_tokens:
        actual = quarters // QUARTERS_PER_TOKEN
        raise LimitExceededError("max_tokens of the window", allowed=state.max_tokens, actual=actual)
    if not items:
        return []
    change = change_of(state.held.quarters, quarters, len(items))
    return [Resolved(window.WindowRestored(items=named(items, stream), change=change), tuple(items))]


def _with_key(key: str, state: WindowState) -> list[Held]:
    items = state.with_key(key)
    if not items:
        raise NotFoundError(f"the window has no item {key!r}")
    return items


def _require_held(version: int, state: WindowState) -> Held:
    held = state.held.items.get(version)
    if held is None:
        raise NotFoundError(f"the window does not hold the item of version {version}: `births` names those it does")
    return held


WINDOWS: Decider[WindowState] = Decider(decide, fold, EMPTY, complete, PACKING)
