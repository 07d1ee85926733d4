"""The rules of a window: commands in, events out, nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from ...addressing import require_name
from ...decider import Decider
from ...errors import InvalidInputError, LimitExceededError, NotFoundError
from ..events import WindowCleared, WindowEvent, WindowNamed, WindowRestored, WindowSettingsChanged
from ..items import QUARTERS_PER_TOKEN, Held
from ..state.fold import EMPTY, Resolved, WindowState, fold, recorded_event
from ..state.loading import complete
from .admitting import added, admitted, change_of, evicted, named
from .commands import (
    Add,
    Begin,
    ChangeSettings,
    Clear,
    Command,
    Evict,
    Incoming,
    NameVersion,
    Put,
    Remove,
    Restore,
    SetItems,
)


def decide(command: Command, state: WindowState) -> Sequence[WindowEvent | Resolved]:
    """
    Return the events that carry out `command`; none where it is so already.

    Raises:
        NotFoundError: an item that is not there.
        InvalidInputError: a name that cannot be, or an item that is there already.
        LimitExceededError: more is to be restored than the budget lets in.
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
            leaving = [_held(version, state) for version in dict.fromkeys(versions)]
            return [evicted(leaving, state.held.quarters, how="evict", reason=reason)] if leaving else []
        case Restore(stream=stream, items=items):
            return _restore(stream, items, state)
        case Clear():
            return _clear(state)
        case ChangeSettings(max_tokens=max_tokens, policy=policy):
            is_so = (max_tokens, policy) == (state.max_tokens, state.policy)
            return [] if is_so else [WindowSettingsChanged(max_tokens=max_tokens, policy=policy)]
        case NameVersion(name=name, version=version):
            is_so = state.names.get(require_name(name)) == version
            return [] if is_so else [WindowNamed(name=name, version=version)]


def _put(incoming: Incoming, state: WindowState) -> Sequence[WindowEvent]:
    old = state.with_key(incoming.key)
    if len(old) == 1 and old[0].says(incoming.value, incoming.source, incoming.priority):
        return []
    return admitted(incoming, old, state)


def _set_items(items: Sequence[Incoming], state: WindowState) -> Sequence[WindowEvent]:
    events: list[WindowEvent] = _clear(state)
    quarters = 0
    for incoming in items:
        events.append(added(incoming, quarters))
        quarters += incoming.quarters
    return events


def _clear(state: WindowState) -> list[WindowEvent]:
    count = len(state.held.items)
    return [WindowCleared(change=change_of(state.held.quarters, 0, -count))] if count else []


def _restore(stream: str, items: Sequence[Held], state: WindowState) -> Sequence[Resolved]:
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
    return [Resolved(WindowRestored(items=named(items, stream), change=change), tuple(items))]


def _with_key(key: str, state: WindowState) -> list[Held]:
    items = state.with_key(key)
    if not items:
        raise NotFoundError(f"the window has no item {key!r}")
    return items


def _held(version: int, state: WindowState) -> Held:
    held = state.held.items.get(version)
    if held is None:
        raise NotFoundError(f"the window does not hold the item of version {version}: `births` names those it does")
    return held


WINDOWS: Decider[WindowState] = Decider(decide, fold, EMPTY, complete, recorded_event)
