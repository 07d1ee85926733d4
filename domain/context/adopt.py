"""
Adopting a context into another log: its own events, and those of every stream that they name.

Events name streams of their own log only. So the ancestors of a fork or branch and the sources of a merge are copied
too, under names made from the context's new name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, get_type_hints

import msgspec

from ..clock import System
from ..ids import split_stream_id, stream_id
from ..log.admission import parts_of
from ..log.envelope import Event, Meta, RecordedEvent
from ..log.gate import behind_gate
from ..log.memory_log import MemoryLog
from ..log.ports import Log, NewEvents
from ..named_events import LogAhead
from ..spans import Ref, Segment, Span
from .transaction import current_transaction

Names = Mapping[str, str]
NAMES = frozenset({Ref, Segment, Span})
# The number of bytes of a digest from which an id is made.
ID_BYTES = 6


def adopted_events(log: Log, stream: str, new_stream: str, *, root: str, keep_names: bool = False) -> list[NewEvents]:
    """
    Return the events to append to another log so that `stream` of `log` is there as `new_stream`.

    The streams that it names come first, the stream itself last. Their names are made from the new one, unless
    `keep_names`.

    Raises:
        InvalidInputError: the new id is too long to make the names of the other streams from it.
    """
    streams = _StreamsToCopy(log, stream)
    return streams.parts(streams.numbered_names(new_stream, keep_names=keep_names), root)


class _StreamsToCopy:
    """The events of a stream, and those of every stream that they name, also by way of others."""

    def __init__(self, log: Log, stream: str) -> None:
        self._stream = stream
        self._events: dict[str, list[RecordedEvent]] = {}
        # In the order in which they are named, so that their new names are the same each time.
        self._named = {stream: None}
        waiting = [stream]
        while waiting:
            current = waiting.pop()
            self._events[current] = log.read(current)
            for name in (name for recorded in self._events[current] for name in named_streams(recorded.event)):
                if name not in self._named:
                    self._named[name] = None
                    waiting.append(name)

    def numbered_names(self, new_stream: str, *, keep_names: bool = False) -> dict[str, str]:
        """Return new names of the streams, made from that of the stream itself; or the same ones."""
        kind, context_id = split_stream_id(new_stream)
        names = {
            name: name if keep_names else stream_id(kind, f"{context_id}~{number}")
            for number, name in enumerate(self._named)
        }
        return {**names, self._stream: new_stream}

    def lasting_names(self, into: Log, beside: str) -> dict[str, str]:
        """Return names that are the same at each call; a stream that the other log has, too, keeps its name there."""
        kind, context_id = split_stream_id(beside)
        names, there = {}, behind_gate(into)
        for name, events in self._events.items():
            digest = events[0].digest
            # A stream there is never written to, since another context may own it: where events lack, a copy is made.
            is_whole = there.head(name) >= len(events) and there.read(name, until=1)[0].digest == digest
            names[name] = name if is_whole else stream_id(kind, f"{context_id}~{digest[:ID_BYTES].hex()}")
        return names

    def parts(self, names: Names, root: str) -> list[NewEvents]:
        """Return the events under these names: the streams that others name come first, the stream itself last."""
        return [
            NewEvents(
                stream=names[stream],
                expected_version=0,
                events=tuple(_renamed_event(recorded.event, names, root) for recorded in past),
                metas=tuple(_without_call(recorded.meta) for recorded in past),
                root=root,
            )
            for stream, past in reversed(self._events.items())
        ]


def _without_call(meta: Meta) -> Meta:
    """Return a meta without the call: in another log, the idempotency key does not belong to it."""
    return meta if meta.fingerprint is None else msgspec.structs.replace(meta, fingerprint=None)


class AdoptedCopy(NamedTuple):
    """A stream of one log in another: its name there, the events to be written there, and a log that has all of it."""

    stream: str
    events: list[NewEvents]
    log: Log


def adopted_copy(log: Log, stream: str, *, into: Log, beside: str, root: str, system: System) -> AdoptedCopy:
    """
    Return `stream` of `log` as it will be in the log `into`, under an id made from that of the stream `beside` there.

    A copy that was made before goes on, so that its items are known; unless it was changed, or texts were erased. The
    events have new names, which are known only once a log holds the events; a log in memory is used for this.
    """
    streams = _StreamsToCopy(log, stream)
    names = streams.lasting_names(into, beside)
    events = streams.parts(names, root)
    new = _new_in(into, events)
    if new is None:
        kind, context_id = split_stream_id(beside)
        names = streams.numbered_names(stream_id(kind, context_id + system.new_id("~")))
        new = events = streams.parts(names, root)
    scratch = MemoryLog(system)
    scratch.append(events).result()
    return AdoptedCopy(names[stream], new, scratch)


def _new_in(log: Log, parts: Iterable[NewEvents]) -> list[NewEvents] | None:
    """Return the part of events that a log does not have; None if it has others in their place."""
    new: list[NewEvents] = []
    current = current_transaction(log)
    within = LogAhead(behind_gate(log), {} if current is None else current.ahead())
    for part in parts:
        known = within.head(part.stream)
        if tuple(within.read_events(part.stream, until=len(part.events))) != part.events[:known]:
            return None
        if known < len(part.events):
            left = {"events": part.events[known:], "metas": part.metas[known:]}
            new.append(msgspec.structs.replace(part, expected_version=known, **left))
    return new


def named_streams(event: Event) -> Iterator[str]:
    """Yield the streams that an event names, without its own."""
    yield from streams_in_fields(event)
    yield from (named.stream for named in names_in(event) if named.stream)


def streams_in_fields(event: Event) -> Iterator[str]:
    """Yield the streams that an event names in plain text fields."""
    yield from (getattr(event, field) for field in _stream_fields(event))


def names_in(event: Event) -> Iterator[Ref | Segment | Span]:
    """Yield the items and streams that an event names, also those of its own stream."""
    waiting = _holding(getattr(event, field) for field in _naming_fields(type(event)))
    while waiting:
        value = waiting.pop()
        if isinstance(value, Ref | Segment | Span):
            yield value
        elif isinstance(value, tuple):
            waiting += _holding(value)
        else:
            waiting += _holding(getattr(value, field) for field in value.__struct_fields__)


# Most events are items, which have a dozen fields and name nothing.
@cache
def _naming_fields(event_type: type[Event]) -> tuple[str, ...]:
    """Return the fields that may name items or streams, by their types."""
    hints = get_type_hints(event_type, include_extras=True)
    return tuple(name for name in event_type.__struct_fields__ if not NAMES.isdisjoint(parts_of(hints[name])))


def _holding(values: Iterable[object]) -> list[tuple[object, ...] | msgspec.Struct]:
    """Return the values that may contain names; most values are texts and numbers, which contain none."""
    return [value for value in values if isinstance(value, tuple | msgspec.Struct)]


def _renamed_event(event: Event, names: Names, root: str) -> Event:
    renamed: Event = _renamed(event, names)
    changed = {field: names[getattr(renamed, field)] for field in _stream_fields(event)}
    if "root" in event.__struct_fields__:
        changed["root"] = root
    return msgspec.structs.replace(renamed, **changed) if changed else renamed


def _stream_fields(event: Event) -> tuple[str, ...]:
    """Return the fields of an event that hold the plain name of another stream, as its class declares."""
    fields: tuple[str, ...] = getattr(event, "STREAM_FIELDS", ())
    return fields


def _renamed(value: Any, names: Names) -> Any:
    if isinstance(value, Ref | Segment | Span):
        return msgspec.structs.replace(value, stream=names.get(value.stream, value.stream))
    if isinstance(value, tuple):
        return tuple(_renamed(one, names) for one in value)
    if not isinstance(value, msgspec.Struct) or not any(True for _ in names_in(value)):
        return value
    changed = {field: _renamed(getattr(value, field), names) for field in value.__struct_fields__}
    return msgspec.structs.replace(value, **changed)
