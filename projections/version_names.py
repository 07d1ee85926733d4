"""Which versions of contexts have a name? One row for each name of a context, with the version that it means now."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..domain.chat.events import Named
from ..domain.log.envelope import Event, RecordedEvent
from ..domain.memory.events import MemoryNamed
from ..domain.pool.events import PoolNamed, QueueNamed
from ..domain.trajectory.events import RunNamed
from ..domain.window.events import WindowNamed
from .rows import digest_of


class VersionNameRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    A name of a version: `name` means `context@version`. The event that said so is `context@named_at`.

    `recorded_at` is in microseconds since 1970, UTC; an empty actor is "not given".
    """

    key: str
    context: str
    name: str
    version: int
    named_at: int
    recorded_at: int
    actor: str


class VersionNames:
    """The fold behind the names in graphs of forks and merges."""

    name = "version_names"
    version = 1
    row = VersionNameRow
    stays_in_slice = True
    events: frozenset[type[Event]] = frozenset((Named, QueueNamed, PoolNamed, WindowNamed, MemoryNamed, RunNamed))

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the key of the name in its context."""
        return (f"{event.stream}@{digest_of(event.event.name)}",)

    def evolve(self, key: str, row: VersionNameRow | None, event: RecordedEvent) -> VersionNameRow:
        """Return the row of the name, which the event may have moved to another version."""
        return VersionNameRow(
            key=key,
            context=event.stream,
            name=event.event.name,
            version=event.event.version,
            named_at=event.version,
            recorded_at=event.recorded_at,
            actor=event.meta.actor or "",
        )


VERSION_NAMES = VersionNames()
