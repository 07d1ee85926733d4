"""
The events that a state of a run names: it holds them, or they stay in the log until somebody reads them.

A state that was opened from a snapshot knows which event registered each vertex, and reads few of them.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from ..errors import DamagedError
from ..named_events import EventSource
from .events import AttributeChange, RunEvent
from .nodes import node_name

# As long as it takes that nobody finds two names with one hash.
HASH_BYTES = 16
# So many events are read at a time, and twice as many as before by a reader that goes on where it was.
WINDOW_MIN = 64
WINDOW_MAX = 8_192


class StoredEvents:
    """
    The events of a stream, each of which is read with its neighbours at its first use.

    `until` is the last version that will be asked for; None if that is not known, as in a fold that goes on. Such a
    fold leaves all its events to the log (see `RunState.stored`).
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
        return self._look(version) if found is None else found

    def _look(self, version: int) -> Any:
        goes_on = self._next <= version < self._next + WINDOW_MIN
        window = self._window = min(2 * self._window, WINDOW_MAX) if goes_on else WINDOW_MIN
        start = version if goes_on else (version - 1) // WINDOW_MIN * WINDOW_MIN + 1
        self._read(start, start + window - 1)
        self._next = start + window
        try:
            return self._events[version]
        except KeyError:
            raise DamagedError(f"{self._stream}@{version}", "a run needs it, and it is not there") from None

    def fetch(self) -> None:
        """Read all events together, for who looks at all of them, or keeps them when the store is closed."""
        assert self.until is not None, "of a fold that goes on nobody needs all events"
        if len(self._events) < self.until:
            self._read(1, self.until)

    def put(self, version: int, event: Any) -> None:
        """Note an event that was read already."""
        self._events[version] = event

    def _read(self, start: int, stop: int) -> None:
        last = stop if self.until is None else min(stop, self.until)
        # An event is the same however often it is read, so that two readers need no lock.
        self._events.update(enumerate(self._log.read_events(self._stream, after=start - 1, until=last), start))


class Held(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A recorded event of a run; `source` is the event itself, or where it is read."""

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

    `named` is its plain name, which other vertices of the run may have too, or the hash of a name that is read from the
    event. `number` counts the vertices with the same name from 1; `before` is the version of the one before it, 0 for
    the first.
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
    """Return the hash of a name, by which a state finds it without having it."""
    return blake2b(name.encode(), digest_size=HASH_BYTES).digest()
