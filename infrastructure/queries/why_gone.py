"""Why is this item not in the context? The event that removed it, in the context itself or in an ancestor."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ...domain.chat.events import Forked
from ...domain.context.decider import trusted
from ...domain.errors import DamagedError
from ...domain.ids import split_stream_id
from ...domain.log.ports import Log
from ...domain.pool.events import BranchedEvent
from ...domain.positions import Position
from ...projections.validity import VALIDITY
from ..context_streams import first_event
from ..projecting.runner import ProjectionRunner
from ..projecting.store import ProjectionStore
from ..views.shapes import describe
from .audit import began_with, chat_items, context_changes
from .intervals import ReadItemRows, holds, item_intervals, item_rows_reader
from .origins import causes_of, event_at, id_of, named_so, reference_in

THERE, GONE, NEVER = "there", "gone", "never"


class WhyGone(msgspec.Struct, frozen=True, kw_only=True):
    """
    Whether an item is in a context: `state` is `there`, `gone`, or `never` if it never was in it.

    If it is gone, `reference` is `stream@version` of the event that removed it, which may belong to an ancestor. `how`
    is one word for the reason; `fork` and `branch` mean that the item was not inherited. `recorded_at` is in
    microseconds since 1970, UTC. `causes` are references: the cause of the event, the cause of that one, and so on.
    """

    context: str
    item: str
    state: str
    how: str | None = None
    reason: str | None = None
    reference: str | None = None
    position: Position | None = None
    recorded_at: int | None = None
    actor: str | None = None
    causes: tuple[str, ...] = ()


class _Left(NamedTuple):
    """The event with which an item left, how it left, and the reason."""

    stream: str
    version: int
    how: str
    reason: str | None


class _Asked(NamedTuple):
    """An item by its id or key, and the origins that the same text can mean."""

    name: str
    births: frozenset[str]


def why_gone(log: Log, runner: ProjectionRunner, stream: str, item: str) -> WhyGone:
    """Return the result of `Store.why_gone`, given the stream of the context."""
    asked, head = _Asked(item, named_so(item, stream)), log.head(stream)

    def found_in(store: ProjectionStore) -> _Left | str | None:
        found = _departure_or_presence(log, store, stream, asked, head)
        return None if found == NEVER else found

    with trusted(stream):
        found = runner.read(VALIDITY, ask=found_in) or NEVER
    if not isinstance(found, _Left):
        return WhyGone(context=stream, item=item, state=found)
    event = event_at(log, found.stream, found.version)
    assert event is not None, "the event was read to know of the item"
    return WhyGone(
        context=stream,
        item=item,
        state=GONE,
        how=found.how,
        reason=found.reason,
        reference=event.reference,
        position=event.position,
        recorded_at=event.recorded_at,
        actor=event.meta.actor,
        causes=causes_of(log, [event])[event.reference],
    )


def _departure_or_presence(log: Log, store: ProjectionStore, stream: str, asked: _Asked, until: int) -> _Left | str:
    """Return how an item left a context up to a version, or that it is there, or that it never was."""
    child: _Left | None = None
    seen, read = {stream}, item_rows_reader(store)
    # A loop, since a chain of forks may be longer than the stack of Python is deep.
    while True:
        is_chat = split_stream_id(stream)[0] == "chat"
        found = _in_chat(log, store, read, stream, asked, until) if is_chat else _in_folded(log, stream, asked, until)
        first = first_event(log, stream)
        if found != NEVER or not isinstance(first, Forked | BranchedEvent):
            return child if child is not None and found == THERE else found
        how, reason = ("fork", first.how) if isinstance(first, Forked) else ("branch", "limit")
        child = _Left(stream, 1, how, reason)
        if first.parent in seen:
            raise DamagedError(stream, f"what it goes on from leads back to {first.parent}")
        stream, until = first.parent, first.version
        seen.add(stream)


def _in_chat(
    log: Log, store: ProjectionStore, read: ReadItemRows, stream: str, asked: _Asked, until: int
) -> _Left | str:
    births = [birth for birth in asked.births if reference_in(birth)]
    # An id may look like an origin, too.
    stays = item_intervals(store, read, stream, until, asked.name, births)
    if stays is None:
        # The rows have no call ids, so the chat itself is read.
        items = chat_items(log, stream, until)
        ordinal = items.named(asked.name)
        if ordinal is not None:
            stays = item_intervals(store, read, stream, until, items.item_table.items[ordinal].id)
    if not stays:
        return NEVER
    last = max(stays, key=lambda stay: stay.v0)
    return THERE if holds(last, until) else _Left(stream, last.v1, last.how, last.reason or None)


def _in_folded(log: Log, stream: str, asked: _Asked, until: int) -> _Left | str:
    """Return the same for queues, pools, windows and memories; several of their items may have the name asked for."""
    began = began_with(log, stream)
    there = {str(ref) for ref, item in began.items() if id_of(item) == asked.name or str(ref) in asked.births}
    found: _Left | str = NEVER
    for change in context_changes(log, stream, until):
        if change.attribute not in (None, "dropped") or change.birth is None:
            continue
        is_meant = change.name == asked.name or change.birth in asked.births
        comes = change.attribute is None and change.new is not None
        leaves = str(change.replaced) if comes else change.birth
        if leaves in there or (is_meant and not comes):
            there.discard(leaves)
            left = describe(change.recorded.event).left
            how, reason = ("drop", change.reason) if left is None else (left.how, left.reason)
            found = _Left(stream, change.recorded.version, how, reason)
        if is_meant and comes:
            there.add(change.birth)
    return THERE if there else found
