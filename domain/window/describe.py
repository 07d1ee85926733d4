"""The events of windows in words and as data."""

from __future__ import annotations

from typing import Any

from ..context.description import ITSELF, Change, Fact, Left, because, counted, joined, named, named_version, sized
from ..spans import refs_of
from . import events as window


def left_by(event: object) -> Left | None:
    """Return which items left with an event; None if no items did."""
    match event:
        case window.WindowReplaced(old=items):
            return Left(items, "replace")
        case window.WindowEvicted(items=items, how=how, reason=reason):
            return Left(items, how, reason)
        case window.WindowCleared():
            return Left(None, "clear")
    return None


def describe(event: window.WindowEvent) -> Change:
    """Return what an event did to a window."""
    left = left_by(event)
    match event:
        case window.WindowOpened() | window.WindowSettingsChanged():
            return _set(event)
        case window.WindowAdded():
            return Change(lambda _: f"{event.key}: {event.value}", adds_item=True)
        case window.WindowReplaced(old=old):
            return Change(
                lambda _: f"{event.key}, in the place of {named(old)}: {event.value}",
                left=left,
                adds_item=True,
                instead=next(refs_of(old), None),
            )
        case window.WindowDropped():
            over = f"with it {event.tokens:,} tokens, and {event.max_tokens:,} are allowed"
            return Change(
                lambda _: f"{event.key}, not let in ({over}): {event.value}",
                facts=(Fact("dropped", new=event, ref=ITSELF, name=event.key, reason=over),),
            )
        case window.WindowEvicted(items=items, how=how, reason=reason):
            why = "to make room" if how == "room" else because(reason)
            return Change(
                lambda _: joined([named(items), sized(event.change), why]),
                left=left,
                reason=reason or ("room" if how == "room" else None),
            )
        case window.WindowRestored(items=items):
            return Change(lambda _: joined([named(items), sized(event.change)]), came=items)
        case window.WindowCleared(change=change):
            return Change(lambda _: joined([counted(-change.items, "item"), sized(change)]), left=left)
        case window.WindowNamed():
            return named_version(event.name, event.version)


def _set(event: window.WindowOpened | window.WindowSettingsChanged) -> Change:
    settings = window.settings_of(event)
    opened: dict[str, Any] | None = None
    if isinstance(event, window.WindowOpened):
        fields = {"user": event.user, "session": event.session, "agent": event.agent}
        who = {name: value for name, value in fields.items() if value is not None}
        # In JSON, the policy comes last if it is the usual one.
        is_usual = event.policy == "first_come"
        opened = {"max_tokens": event.max_tokens, **who, **settings} if is_usual else {**settings, **who}
    words = " ".join(f"{name}={value}" for name, value in settings.items())
    return Change(lambda _: words, opened=opened, settings=settings)
