"""Which contexts are there? One row for each stream: what it is, how long, and who changed it when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..domain.chat.events import ITEM_EVENTS, Forked, ItemInserted, Opened, is_user
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
        change, last = growth_of([event.event for event in events]), events[-1]
        origin = _origin(events[0].event) if events[0].version == 1 else {}
        return msgspec.structs.replace(
            row,
            version=last.version,
            items=row.items + change.items,
            turns=row.turns + change.turns,
            tokens=row.tokens + change.tokens,
            changed_at=last.recorded_at,
            changed_by=last.meta.actor or "",
            number=last.position.number,
            **origin,
        )


def growth_of(events: Iterable[object]) -> Totals:
    """Return how much events change the totals of their context."""
    items = turns = tokens = 0
    for event in events:
        if isinstance(event, ITEM_EVENTS):
            # Checked first because nearly all events are items; `totals_of` would make a record for each.
            items += 1
            turns += is_user(event)
            tokens += estimate_tokens(event)
        elif (change := _change_of(event)) is not None:
            items, turns, tokens = items + change.items, turns + change.turns, tokens + change.tokens
    return Totals(items, turns, tokens)


def _change_of(event: object) -> Totals | None:
    """Return how much an event that is no item changes the totals of its context; None if it changes nothing."""
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
