"""The records of a scope, folded from its events. The state is a value: it never changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple, Never

import msgspec
from msgspec.structs import replace

from ..clock import time_of
from ..concurrency.known_types import known
from ..content import estimated_tokens, plain_content, restored_content
from ..context.description import Departure
from ..context.snapshot import Packing
from ..errors import DamagedError, NotFoundError
from ..log.envelope import Event, RecordedEvent
from ..named_events import EventSource, Resolved, read_named, recorded_event
from ..ordered_map import OrderedMap
from ..spans import OWN, Ref, Span, refs_of, spans_of
from ..totals import Totals
from .describe import left_by
from .events import ITEM_EVENTS, MemoryEvent, MemoryForgotten, MemoryNamed, MemoryRemembered, MemoryRestored
from .records import MemoryChange, MemoryKind, MemoryRecord


class Held(NamedTuple):
    """A recorded record: the version that added it, and the event of that version."""

    version: int
    event: MemoryRemembered

    def record_in(self, scope: str) -> MemoryRecord:
        """Return the record as users see it. Each call makes a new object, so a user's change affects nothing else."""
        event = self.event
        content = event.value
        return MemoryRecord(
            scope=scope,
            key=event.key,
            value=restored_content(content) if content.type else plain_content(content),
            kind=MemoryKind(event.kind),
            tags=list(event.tags),
            timestamp=time_of(event.first_at),
            updated_at=time_of(event.at),
        )

    @property
    def totals(self) -> Totals:
        """The count of the record in totals."""
        return Totals(1, 0, estimated_tokens(self.event.value, self.event.key))


class MemoryState(msgspec.Struct, frozen=True, kw_only=True):
    """
    The records of a scope at one version: by key, and their keys by the version that added them.

    `last_at` is when the newest record was remembered.
    """

    version: int = 0
    records: OrderedMap[str, Held] = msgspec.field(default_factory=OrderedMap)
    keys: OrderedMap[int, str] = msgspec.field(default_factory=OrderedMap)
    last_at: int = 0
    names: dict[str, int] = msgspec.field(default_factory=dict)

    def newest_first(self) -> list[Held]:
        """Return the records, the one that was remembered last first."""
        return sorted(self.records.values(), key=lambda held: held.version, reverse=True)


EMPTY = MemoryState()
# The events of a scope in the form that `fold` takes: restorations come with the records that they name.
Completed = MemoryEvent | Resolved[Held]


def complete(log: EventSource, events: Sequence[Any]) -> Sequence[Completed]:
    """
    Return the events of a scope in the form that `fold` takes: restorations together with the records that they name.

    Raises:
        DamagedError: the stream does not hold what an event names.
    """
    return [_resolved(log, event) if isinstance(event, MemoryRestored) else event for event in events]


def _resolved(log: EventSource, event: MemoryRestored) -> Resolved[Held]:
    return Resolved(event, tuple(Held(ref.version, found) for ref, found in read_named(log, event.items, ITEM_EVENTS)))


def fold(state: MemoryState, events: Iterable[Completed]) -> MemoryState:
    """Return the state after `events`, which are history and not checked. A restoration comes as `Resolved`."""
    return reduce(_evolved, events, state)


def _evolved(state: MemoryState, event: Completed) -> MemoryState:
    state = replace(state, version=state.version + 1)
    recorded: MemoryEvent = recorded_event(event)
    match recorded:
        case MemoryRemembered(at=at):
            state = replace(state, last_at=max(state.last_at, at))
            return _with(state, Held(state.version, recorded))
        case MemoryForgotten(items=items):
            return reduce(_without, refs_of(items), state)
        case MemoryRestored():
            assert isinstance(event, Resolved), "a restoration is folded with the records that it names"
            return reduce(_with, event.taken, state)
        case MemoryNamed(name=name, version=version):
            return replace(state, names={**state.names, name: version})
    _: Never = recorded  # A type checker sees to it that each event is named. Others are passed over.
    return state


def _with(state: MemoryState, held: Held) -> MemoryState:
    key, keys = held.event.key, state.keys
    old = state.records.get(key)
    if old is not None:
        keys = keys.minus(old.version)
    return replace(state, records=state.records.plus(key, held), keys=keys.plus(held.version, key))


def _without(state: MemoryState, ref: Ref) -> MemoryState:
    key = state.keys.get(ref.version)
    if key is None:
        raise _not_there(ref.version)
    return replace(state, records=state.records.minus(key), keys=state.keys.minus(ref.version))


def _not_there(version: int) -> DamagedError:
    return DamagedError(f"record {version} of a memory", "it was forgotten, and was not there")


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """A state without its records' events: their versions, in the orders of `records` and of `keys`."""

    version: int
    last_at: int
    names: dict[str, int]
    records: tuple[Span, ...]
    keys: tuple[Span, ...]


def packed(state: MemoryState) -> bytes:
    """Return a state as a snapshot holds it."""
    records = spans_of(Ref(held.version, OWN) for held in state.records.values())
    keys = spans_of(Ref(version, OWN) for version in state.keys)
    return msgspec.msgpack.encode(_Packed(state.version, state.last_at, state.names, records, keys))


def unpacked(log: EventSource, stream: str, data: bytes) -> MemoryState:
    """
    Return the state that `packed` packed.

    Raises:
        DamagedError: the log does not hold what it names.
    """
    short = msgspec.msgpack.decode(data, type=known(_Packed))
    there = [Span(stream, span.runs) for span in short.records]
    held = {ref.version: Held(ref.version, event) for ref, event in read_named(log, there, ITEM_EVENTS)}
    return MemoryState(
        version=short.version,
        records=OrderedMap.of({one.event.key: one for one in held.values()}),
        keys=OrderedMap.of({ref.version: held[ref.version].event.key for ref in refs_of(short.keys)}),
        last_at=short.last_at,
        names=short.names,
    )


PACKING = Packing(
    packed,
    unpacked,
    "refold.domain.ordered_map",
    "refold.domain.memory.describe",
    "refold.domain.memory.events",
    "refold.domain.memory.records",
    "refold.domain.memory.state",
)


def changes_of(events: Sequence[RecordedEvent], scope: str, key: str | None) -> list[MemoryChange]:
    """Return the changes of a key, or of every key, that the events of a scope record, the oldest first."""
    changes: list[MemoryChange] = []
    present: dict[str, Held] = {}
    plain = [recorded.event for recorded in events]
    for recorded in events:
        touched = _touched(recorded.version, plain, present)
        changes += [_change(recorded, scope, touch) for touch in touched if key in (None, touch.key)]
    return changes


def changed_keys(events: Sequence[Event], *, after: int) -> set[str]:
    """Return the keys that the events after a version changed; `events` has all events of the scope."""
    present: dict[str, Held] = {}
    touched = {version: [*_touched(version, events, present)] for version, _ in enumerate(events, 1)}
    return {one.key for version, many in touched.items() if version > after for one in many}


def forgotten(events: Sequence[Event], stream: str, key: str | None) -> list[tuple[Held, Departure]]:
    """
    Return the record that was last forgotten under a key, or under each key, and how it left; records that were
    restored or replaced since are left out. `events` has all events of the scope.

    Raises:
        NotFoundError: there is no such record under this key.
    """
    gone: dict[str, tuple[Held, Departure]] = {}
    present: dict[str, Held] = {}
    for version, event in enumerate(events, 1):
        for touch in _touched(version, events, present):
            gone.pop(touch.key, None)
            left = left_by(event)
            if touch.new is None and touch.old is not None and left is not None:
                gone[touch.key] = (touch.old, left.with_version(version))
    if key is None:
        return list(gone.values())
    if key not in gone:
        raise NotFoundError(f"nothing was forgotten under {key!r} in {stream}, or it was restored or replaced since")
    return [gone[key]]


class _Touch(NamedTuple):
    """How a key was changed, with the records before and after it."""

    key: str
    how: str
    old: Held | None
    new: Held | None


def _touched(version: int, events: Sequence[Event], present: dict[str, Held]) -> Iterator[_Touch]:
    """Yield the changes of keys by the event of a version, and keep `present` up to date."""
    match events[version - 1]:
        case MemoryRemembered() as event:
            new = Held(version, event)
            yield _Touch(event.key, "remembered", present.get(event.key), new)
            present[event.key] = new
        case MemoryForgotten(items=items):
            for held in _records_named(items, events):
                if present.pop(held.event.key, None) is None:
                    raise _not_there(held.version)
                yield _Touch(held.event.key, "forgotten", held, None)
        case MemoryRestored(items=items):
            for held in _records_named(items, events):
                yield _Touch(held.event.key, "restored", None, held)
                present[held.event.key] = held


def _records_named(items: Iterable[Span], events: Sequence[Any]) -> Iterator[Held]:
    # The events of a scope name records of its own stream only.
    for ref in refs_of(items):
        event = events[ref.version - 1] if 0 < ref.version <= len(events) else None
        if not isinstance(event, MemoryRemembered):
            raise _not_there(ref.version)
        yield Held(ref.version, event)


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
