"""
The events that a state of a run names: it holds them, or they stay in the log until they are needed.

A state that was read from a snapshot knows the version that registered each vertex, and reads few of these events.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from ..errors import DamagedError
from ..named_events import EventSource
from .events import AttributeChange, RunEvent
from .nodes import node_name

# Long enough that nobody can find two names with the same hash.
HASH_BYTES = 16
# The number of events that are read at a time. It doubles with each read that continues the one before.
WINDOW_MIN = 64
WINDOW_MAX = 8_192


class StoredEvents:
    """
    The events of a stream. Each is read at its first use, together with the events around it.

    `until` is the last version that may be needed; None in a fold in progress, where it is not known.
    """

    __slots__ = ("_events", "_log", "_next", "_stream", "_window", "until")

    def __init__(self, log: EventSource, stream: str, until: int | None = None) -> None:
        self._log, self._stream, self.until = log, stream, until
        self._events: dict[int, Any] = {}
        self._next, self._window = 0, WINDOW_MIN

    def event(self, version: int) -> Any:
        """
        Return the event of a version.

        Raises:
            DamagedError: the log does not have it.
        """
        found = self._events.get(version)
        return self._read_around(version) if found is None else found

    def _read_around(self, version: int) -> Any:
        continues = self._next <= version < self._next + WINDOW_MIN
        window = self._window = min(2 * self._window, WINDOW_MAX) if continues else WINDOW_MIN
        start = version if continues else (version - 1) // WINDOW_MIN * WINDOW_MIN + 1
        self._read(start, start + window - 1)
        self._next = start + window
        try:
            return self._events[version]
        except KeyError:
            raise DamagedError(f"{self._stream}@{version}", "a run needs it, and it is not there") from None

    def fetch(self) -> None:
        """Read all events at once: the caller needs most of them, or will need them after the store is closed."""
        assert self.until is not None, "a fold in progress never needs all events"
        if len(self._events) < self.until:
            self._read(1, self.until)

    def put(self, version: int, event: Any) -> None:
        """Keep an event that was read elsewhere."""
        self._events[version] = event

    def _read(self, start: int, stop: int) -> None:
        last = stop if self.until is None else min(stop, self.until)
        # Two threads may read the same events: they are equal, so no lock is needed.
        self._events.update(enumerate(self._log.read_events(self._stream, after=start - 1, until=last), start))


class Held(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A recorded event of a run; `source` is the event itself, or the source from which it is read."""

    version: int
    source: RunEvent | StoredEvents

    @property
    def event(self) -> Any:
        source = self.source
        return source.event(self.version) if isinstance(source, StoredEvents) else source

    def __eq__(self, other: object) -> bool:
        return (self.version, self.event) == (other.version, other.event) if isinstance(other, Held) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # equal by value, and the value may be in the log


class Change(Held, frozen=True, gc=False, eq=False):
    """The event that changed a node."""

    @property
    def changes(self) -> tuple[AttributeChange, ...]:
        """The changes of its attributes."""
        changes: tuple[AttributeChange, ...] = self.event.changes
        return changes


class Vertex(Held, frozen=True, gc=False, eq=False):
    """
    A vertex: the event that registered it, and its type.

    `named` is its plain name, which other vertices of the run may have too, or the hash of that name; then only the
    event has the name. `number` counts the vertices with the same name from 1; `before` is the version of the one
    before it, 0 for the first.
    """

    type: str
    named: str | bytes
    number: int
    before: int

    @property
    def name(self) -> str:
        """Its plain name."""
        named = self.named
        return named if isinstance(named, str) else node_name(self.type, self.event.label)

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and isinstance(other, Vertex) and self._identity == other._identity

    __hash__ = None

    @property
    def _identity(self) -> tuple[str, str, int, int]:
        return self.type, self.name, self.number, self.before


def hash_of(name: str) -> bytes:
    """Return the hash of a name, under which a snapshot has it."""
    return blake2b(name.encode(), digest_size=HASH_BYTES).digest()
