"""
Which contexts are there? One row for each stream: what it is, how long, and who changed it when.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..domain.chat.events import ITEM_EVENTS, MessageAdded, Opened
from ..domain.chat.tokens import estimate_tokens
from ..domain.envelope import RecordedEvent
from ..domain.streams import split_stream_id

__all__ = ["CATALOGUE", "Catalogue", "CatalogueRow"]


class CatalogueRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    One context. `key` is its stream; times are in microseconds since 1970, UTC; an empty text is "not given".
    """

    key: str
    kind: str
    id: str
    version: int = 0
    items: int = 0
    turns: int = 0
    tokens: int = 0
    user: str = ""
    session: str = ""
    agent: str = ""
    source: str = ""
    opened_at: int = 0
    changed_at: int = 0
    changed_by: str = ""


class Catalogue:
    """The fold behind `store.contexts()` and `refold contexts`."""

    name = "catalogue"
    version = 1
    row = CatalogueRow

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """
        Return the stream of the event.
        """
        return (event.stream,)

    def evolve(self, key: str, row: CatalogueRow | None, event: RecordedEvent) -> CatalogueRow:
        """
        Return the context's row after `event`.
        """
        if row is None:
            kind, context_id = split_stream_id(key)
            row = CatalogueRow(key=key, kind=kind, id=context_id, opened_at=event.recorded_at)
        changes: dict[str, object] = {
            "version": event.version,
            "changed_at": event.recorded_at,
            "changed_by": event.meta.actor or "",
        }
        recorded = event.event
        if isinstance(recorded, Opened):
            changes.update(
                user=recorded.user or "",
                session=recorded.session or "",
                agent=recorded.agent or "",
                source=recorded.source or "",
            )
        elif isinstance(recorded, ITEM_EVENTS):
            is_turn = isinstance(recorded, MessageAdded) and recorded.role == "user"
            changes.update(
                items=row.items + 1, turns=row.turns + is_turn, tokens=row.tokens + estimate_tokens(recorded)
            )
        return msgspec.structs.replace(row, **changes)


CATALOGUE = Catalogue()
