"""The events of queues and pools in words and as data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..content import Content, plain_content
from ..context.decider import VersionNamed
from ..context.description import (
    Change,
    Fact,
    Left,
    WriteJson,
    because,
    counted,
    in_pairs,
    joined,
    named,
    named_version,
    place_of,
    sized,
    source_of,
)
from ..log.envelope import Event
from ..spans import Ref, span_of
from . import events as pool

# The reasons that are recorded where the caller gave none.
REASONS = {"limit": "to make room", "evict": ""}


# A dict by type is used instead of `match`, since projections call this for every event.
_LEFT_BY: dict[type[Event], Callable[[Any], Left]] = {
    **dict.fromkeys((pool.QueueEvicted, pool.PoolEvicted), lambda event: Left(event.items, "evict", event.reason)),
    **dict.fromkeys((pool.QueueMerged, pool.PoolMerged), lambda event: Left(event.dropped, "merge")),
    **dict.fromkeys((pool.QueueCleared, pool.PoolCleared), lambda _: Left(None, "clear")),
    pool.PoolRemoved: lambda event: Left((span_of(event.item),), "remove", event.reason),
    pool.PoolReplaced: lambda event: Left((span_of(event.old),), "replace"),
}


def left_by(event: Event) -> Left | None:
    """Return which items left with an event, or None. A branch names no items that left."""
    left = _LEFT_BY.get(type(event))
    return None if left is None else left(event)


def describe(event: pool.ContainerEvent) -> Change:
    """Return what an event did to a queue or a pool."""
    left = left_by(event)
    match event:
        case pool.OpenedEvent() | pool.BranchedEvent():
            return _opened(event)
        case pool.PoolReplaced(old=old):
            return Change(
                lambda _: f"{event.id}, in the place of {place_of(old)}: {event.description or ''}",
                left=left,
                adds_item=True,
                instead=old,
            )
        case pool.PoolAdded():
            return Change(lambda _: f"{event.id}: {event.description or ''}", adds_item=True)
        case pool.AddedEvent(content=content):
            return Change(lambda write: text_of(content, write), adds_item=True)
        case pool.EvictedEvent(items=items, reason=reason):
            why = REASONS.get(reason, because(reason))
            return Change(lambda _: joined([named(items), sized(event.change), why]), left=left, reason=reason)
        case pool.PoolRemoved(item=item, reason=reason):
            return Change(
                lambda _: joined([f"{event.id} ({place_of(item)})", sized(event.change), because(reason)]),
                left=left,
                reason=reason,
            )
        case pool.RestoredEvent(items=items):
            return Change(lambda _: joined([named(items), sized(event.change)]), came=items)
        case pool.ClearedEvent(change=change):
            return Change(lambda _: joined([counted(-change.items, "item"), sized(change)]), left=left)
        case pool.MergedEvent():
            return _merged(event)
        case pool.PoolConflictResolved():
            return _resolved(event)
        case pool.SettingsEvent():
            return Change(
                lambda _: in_pairs(**_settings(event)) or "no limit, no tags",
                settings={"limit": event.limit, "tags": list(event.tags)},
            )
        case VersionNamed():
            return named_version(event.name, event.version)


def text_of(content: Content, write: WriteJson) -> str:
    """Return content as text: a text as it is, any other content as JSON."""
    return content.text if content.text is not None else write(plain_content(content))


def _opened(event: pool.OpenedEvent | pool.BranchedEvent) -> Change:
    settings = {"limit": event.limit, "tags": list(event.tags)}
    who = {"user": event.user, "session": event.session, "agent": event.agent}
    given = {"limit": event.limit, "tags": list(event.tags) or None, **who}
    opened = {name: value for name, value in given.items() if value is not None}
    if isinstance(event, pool.OpenedEvent):
        return Change(lambda _: in_pairs(**who, **_settings(event)), opened=opened, settings=settings)
    parent = f"{event.parent}@{event.version}"
    came = f"from {source_of(event.parent, event.version)}, {counted(event.change.items, 'item')}"
    return Change(
        lambda _: joined([came, in_pairs(**_settings(event))]),
        opened={"parent": parent, **opened},
        settings=settings,
    )


def _merged(event: pool.MergedEvent) -> Change:
    base = source_of(event.base.stream, event.base.version) if event.base else ""
    return Change(
        lambda _: joined([
            source_of(event.source, event.version),
            f"{named(event.taken)} taken" if event.taken else "no items taken",
            f"{named(event.dropped)} dropped" if event.dropped else "",
            f"since {base}" if base else "",
        ]),
        facts=(Fact("merged", new=f"{event.source}@{event.version}"),),
        left=left_by(event),
        came=event.taken,
        is_by_name=isinstance(event, pool.PoolMerged),
    )  # fmt: skip


def _resolved(event: pool.PoolConflictResolved) -> Change:
    kept = event.ours if event.kept == "ours" else event.theirs
    return Change(
        lambda _: (
            f"{event.id}: {event.kept} kept, as {event.rule!r} wants it; "
            f"ours {_place(event.ours)}, theirs {_place(event.theirs)}"
        ),
        facts=(Fact("conflict", None, event.kept, kept, event.id, f"the rule {event.rule!r}"),),
    )


def _settings(event: pool.OpenedEvent | pool.BranchedEvent | pool.SettingsEvent) -> dict[str, Any]:
    return {"limit": None if event.limit is None else str(event.limit), "tags": ",".join(event.tags)}


def _place(ref: Ref | None) -> str:
    return "none" if ref is None else place_of(ref)
