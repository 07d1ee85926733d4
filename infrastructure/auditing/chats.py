"""What the events of a chat did to its items."""

from __future__ import annotations

from collections.abc import Iterator

from ...domain.chat.events import (
    ITEM_EVENTS,
    Cleared,
    ConflictResolved,
    Forked,
    InstructionsReplaced,
    ItemInserted,
    ItemsEvicted,
    ItemsPinned,
    ItemsRestored,
    ItemsUnpinned,
    Merged,
    Named,
    Opened,
    Summarized,
    SummaryUndone,
)
from ...domain.log.envelope import RecordedEvent
from ...domain.spans import Ref, refs_of
from ..plain_events import plain_fields
from .trail import Change, Trail


def chat_changes(recorded: RecordedEvent, trail: Trail) -> Iterator[Change]:
    """Yield what an event did."""
    event, own = recorded.event, Ref(recorded.version, recorded.stream)
    if isinstance(event, ITEM_EVENTS):
        yield from trail.come(recorded, [own])
        return
    match event:
        case Opened():
            yield from trail.begin(recorded, plain_fields(event))
        case Forked():
            yield from trail.begin(recorded, {"parent": f"{event.parent}@{event.version}", "how": event.how})
            yield from trail.come(recorded, [own] if event.config else [])
        case Named():
            yield from trail.set(recorded, f"name {event.name}", event.version)
        case ConflictResolved():
            reason = f"the rule {event.rule!r}"
            yield Change(recorded, attribute=f"conflict of {event.kind}", new=event.kept, reason=reason)
        case Merged():
            yield from _merge(recorded, event, trail)
        case _:
            yield from _edit(recorded, trail)


def _edit(recorded: RecordedEvent, trail: Trail) -> Iterator[Change]:
    event, own = recorded.event, Ref(recorded.version, recorded.stream)
    match event:
        case ItemInserted():
            yield from trail.come(recorded, [own])
        case InstructionsReplaced():
            yield from trail.leave(recorded, refs_of(event.replaced))
            yield from trail.come(recorded, [own])
        case ItemsEvicted():
            yield from trail.leave(recorded, refs_of(event.items), reason=event.reason or _by(event.how))
        case ItemsRestored():
            yield from trail.come(recorded, refs_of(event.items), reason=event.reason)
        case ItemsPinned() | ItemsUnpinned():
            is_pinned = isinstance(event, ItemsPinned)
            yield from trail.mark(recorded, refs_of(event.items), "pinned", is_so=is_pinned, reason=event.reason)
        case Cleared():
            yield from trail.clear(recorded, reason=event.reason)
        case Summarized():
            yield from trail.leave(recorded, refs_of(event.folded))
            yield from trail.come(recorded, [own])
        case SummaryUndone():
            yield from trail.leave(recorded, [event.summary])
            yield from trail.come(recorded, refs_of(event.items))


def _by(how: str) -> str | None:
    return None if how == "evict" else how


def _merge(recorded: RecordedEvent, event: Merged, trail: Trail) -> Iterator[Change]:
    yield Change(recorded, attribute="merged", new=f"{event.source}@{event.version}")
    taken = [ref for placement in event.placed for ref in refs_of(placement.items)]
    # With another agent's name on it the item is a new one, which this event brought into the world.
    yield from trail.come(recorded, [Ref(recorded.version, recorded.stream)] if event.agent_id and taken else taken)
