"""Which contexts are there? One row for each stream: what it is, how long, and who changed it when."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..domain.chat.events import ITEM_EVENTS, Forked, ItemInserted, MessageAdded, Opened
from ..domain.chat.state.item_table import totals_of
from ..domain.chat.tokens import estimate_tokens
from ..domain.ids import OF_STORE, split_stream_id
from ..domain.log.envelope import RecordedEvent
from ..domain.pool.events import BranchedEvent, PoolAdded, QueueAppended
from ..domain.pool.items import totals_of as totals_of_item
from ..domain.totals import Totals
from ..domain.trajectory.events import NodeEvent, NodeRemoved, RunOpened

A_NODE = Totals(items=1)


class CatalogueRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    One context. `key` is its stream; times are in microseconds since 1970, UTC; an empty text is "not given".

    `items`, `turns` and `tokens` count the visible items. For a run, `items` counts the nodes that it registered and
    did not remove. `parent` is `stream@version` of the context that it was forked from. `lane` is the slice of its
    events, -1 on a log with one sequence; `first_number` and `number` are the positions of its first and last event.
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
    parent: str = ""
    opened_at: int = 0
    changed_at: int = 0
    changed_by: str = ""
    lane: int = -1
    first_number: int = 0
    number: int = 0


class Catalogue:
    """The fold behind `store.contexts()` and `refold contexts`."""

    name = "catalogue"
    version = 4
    row = CatalogueRow
    stays_in_slice = True

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the stream of the event."""
        # The streams of a store itself, such as that of named moments, are no contexts.
        return () if event.stream.startswith(OF_STORE) else (event.stream,)

    def evolve(self, key: str, row: CatalogueRow | None, event: RecordedEvent) -> CatalogueRow:
        return self.evolve_all(key, row, (event,))

    def evolve_all(self, key: str, row: CatalogueRow | None, events: Sequence[RecordedEvent]) -> CatalogueRow:
        if row is None:
            kind, context_id = split_stream_id(key)
            first = events[0]
            row = CatalogueRow(
                key=key,
                kind=kind,
                id=context_id,
                opened_at=first.recorded_at,
                lane=first.position.slice,
                first_number=first.position.number,
            )
        origin: dict[str, str] = {}
        items, turns, tokens = row.items, row.turns, row.tokens
        for event in events:
            recorded = event.event
            if isinstance(recorded, ITEM_EVENTS):
                # Checked first because nearly all events are items.
                items += 1
                turns += isinstance(recorded, MessageAdded) and recorded.role == "user"
                tokens += estimate_tokens(recorded)
                continue
            if event.version == 1:
                origin = _origin(recorded)
            change = change_of(recorded)
            if change is not None:
                items, turns, tokens = items + change.items, turns + change.turns, tokens + change.tokens
        last = events[-1]
        return msgspec.structs.replace(
            row,
            version=last.version,
            items=items,
            turns=turns,
            tokens=tokens,
            changed_at=last.recorded_at,
            changed_by=last.meta.actor or "",
            number=last.position.number,
            **origin,
        )


def change_of(event: object) -> Totals | None:
    """Return how much an event adds to the totals of its context, or takes away; None if it changes nothing."""
    if isinstance(event, ItemInserted):
        return totals_of(event.item)
    if isinstance(event, QueueAppended | PoolAdded):
        return totals_of_item(event)
    if isinstance(event, NodeEvent):
        return A_NODE
    if isinstance(event, NodeRemoved):
        # A node of an earlier round is counted in the run that registered it.
        return None if event.node.stream else -A_NODE
    return getattr(event, "change", None)


def _origin(first: object) -> dict[str, str]:
    """Return the owner, the agent and the parent of a context, as the first event of its stream gives them."""
    origin = {field: getattr(first, field, None) or "" for field in ("user", "session", "agent")}
    if isinstance(first, Forked | BranchedEvent):
        return {**origin, "parent": f"{first.parent}@{first.version}"}
    return {**origin, "source": (first.source or "") if isinstance(first, Opened | RunOpened) else ""}


CATALOGUE = Catalogue()
