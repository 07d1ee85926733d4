"""What did frameworks save in which chat, under which key? One row for each key; the data itself stays in the log."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..domain.chat.events import StateSaved
from ..domain.log.envelope import Event, RecordedEvent
from .rows import digest_of


class SavedStateRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    The last save under a key, `name`: the event is `context@version`. `is_deleted` is 1 if it deleted what was there.

    `recorded_at` is in microseconds since 1970, UTC.
    """

    key: str
    framework: str
    context: str
    name: str
    version: int
    recorded_at: int
    is_deleted: int


class StatesOfFrameworks:
    """The fold behind `store.saved_states()`."""

    name = "saved_states"
    version = 1
    row = SavedStateRow
    stays_in_slice = True
    events: frozenset[type[Event]] = frozenset({StateSaved})

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the key of what the event saved."""
        saved: StateSaved = event.event
        return (f"{states_prefix(saved.framework, event.stream)}{digest_of(saved.key)}",)

    def evolve(self, key: str, row: SavedStateRow | None, event: RecordedEvent) -> SavedStateRow:
        """Return the row of the last save."""
        saved: StateSaved = event.event
        return SavedStateRow(
            key=key,
            framework=saved.framework,
            context=event.stream,
            name=saved.key,
            version=event.version,
            recorded_at=event.recorded_at,
            is_deleted=int(not saved.value),
        )


def states_prefix(framework: str, context: str | None) -> str:
    """Return the prefix of the keys of all rows of a framework, or of those in one context (its stream)."""
    return f"{digest_of(framework)}/" + (f"{context}@" if context else "")


SAVED_STATES = StatesOfFrameworks()
