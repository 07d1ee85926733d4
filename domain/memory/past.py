"""What became of the keys of a scope: read from its events, since the state holds only what is remembered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..errors import NotFoundError
from ..log.envelope import RecordedEvent
from ..spans import Span, refs_of
from .events import MemoryForgotten, MemoryRemembered, MemoryRestored
from .records import MemoryChange, time_of
from .state import Held


def changes_of(events: Sequence[RecordedEvent], scope: str, key: str | None) -> list[MemoryChange]:
    """Return what became of a key, or of every key, by the events of a scope, the oldest first."""
    changes: list[MemoryChange] = []
    present: dict[str, Held] = {}
    for recorded in events:
        changes += [
            _change(recorded, scope, touch) for touch in _touched(recorded, present, events) if key in (None, touch.key)
        ]
    return changes


def forgotten(events: Sequence[RecordedEvent], stream: str, key: str | None) -> list[Held]:
    """
    Return what was last forgotten under a key, or under each key that is not remembered, and is not back.

    Raises:
        NotFoundError: nothing was forgotten under this key.
    """
    gone: dict[str, Held] = {}
    present: dict[str, Held] = {}
    for recorded in events:
        for touch in _touched(recorded, present, events):
            gone.pop(touch.key, None)
            if touch.how == "forgotten" and touch.old is not None:
                gone[touch.key] = touch.old
    if key is None:
        return list(gone.values())
    if key not in gone:
        raise NotFoundError(f"nothing was forgotten under {key!r} in {stream} that is not back")
    return [gone[key]]


class _Touch(NamedTuple):
    """How a key was changed, with the records before and after it."""

    key: str
    how: str
    old: Held | None
    new: Held | None


def _touched(recorded: RecordedEvent, present: dict[str, Held], events: Sequence[RecordedEvent]) -> Iterator[_Touch]:
    """Yield how an event changes keys, and keep `present` up to date."""
    match recorded.event:
        case MemoryRemembered() as event:
            new = Held(recorded.version, event)
            yield _Touch(event.key, "remembered", present.get(event.key), new)
            present[event.key] = new
        case MemoryForgotten(items=items):
            for held in _named(items, events):
                yield _Touch(held.event.key, "forgotten", held, None)
                del present[held.event.key]
        case MemoryRestored(items=items):
            for held in _named(items, events):
                yield _Touch(held.event.key, "restored", None, held)
                present[held.event.key] = held


def _named(items: Iterable[Span], events: Sequence[RecordedEvent]) -> Iterator[Held]:
    # A scope names records of its own stream alone.
    for ref in refs_of(items):
        yield Held(ref.version, events[ref.version - 1].event)


def _change(recorded: RecordedEvent, scope: str, touch: _Touch) -> MemoryChange:
    return MemoryChange(
        key=touch.key,
        version=recorded.version,
        recorded_at=time_of(recorded.recorded_at),
        how=touch.how,
        old=None if touch.old is None else touch.old.record_in(scope),
        new=None if touch.new is None else touch.new.record_in(scope),
        actor=recorded.meta.actor,
        correlation_id=recorded.meta.correlation_id,
        because=recorded.meta.causation,
    )
