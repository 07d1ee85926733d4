"""
The changes of a context, of an item or of a node, as plain data: position, time, who, old, new, why, because of what.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ...domain.errors import NotFoundError
from ...domain.log.ports import Log
from ...domain.positions import Position
from ..log.codec import tag_of
from ..plain_data import plain_item
from .audit_trail import Change
from .origins import Item, causes_of, named_so


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """
    A change: what was `old` is `new` now; None where it was not there before, or is not any more.

    What was changed is an item (`item` is its id or key, `birth` is `stream@version` of the event that brought it), of
    which `old` and `new` are plain data; with `attribute` it is something of an item, of a node (`item` is its name),
    or of the context. `type` is the tag of the event, `reference` its `stream@version`, `recorded_at` is in
    microseconds since 1970, UTC. `causes` are references too: what the event follows from, what that follows from, and
    so on.
    """

    position: Position
    reference: str
    recorded_at: int
    actor: str | None
    correlation_id: str | None
    type: str
    item: str | None
    birth: str | None
    attribute: str | None
    old: Any
    new: Any
    reason: str | None
    causes: tuple[str, ...]


def transitions_of(log: Log, changes: Iterable[Change]) -> list[Transition]:
    """Return changes as plain data, each with its chain of causes."""
    told = list(changes)
    causes = causes_of(log, [change.recorded for change in told])
    return [_transition(change, causes[change.recorded.reference]) for change in told]


def of_item(changes: Iterable[Change], name: str, stream: str) -> list[Change]:
    """
    Return the changes of one item, by its id or key, or by its birth.

    Raises:
        NotFoundError: there never was one.
    """
    births = named_so(name, stream)
    found = [change for change in changes if change.name == name or change.birth in births]
    if not found:
        raise NotFoundError(f"{stream} never had an item {name!r}: `refold audit {stream}` lists all changes")
    return found


def of_attribute(changes: Iterable[Change], name: str, stream: str) -> list[Change]:
    """
    Return the changes of one attribute.

    Raises:
        NotFoundError: there never was a change of it.
    """
    found = [change for change in changes if change.attribute == name]
    if not found:
        raise NotFoundError(
            f"{stream} never had an attribute {name!r} that was changed: `refold audit {stream}` lists all changes"
        )
    return found


def _transition(change: Change, causes: tuple[str, ...]) -> Transition:
    recorded = change.recorded
    return Transition(
        position=recorded.position,
        reference=recorded.reference,
        recorded_at=recorded.recorded_at,
        actor=recorded.meta.actor,
        correlation_id=recorded.meta.correlation_id,
        type=tag_of(recorded.event),
        item=change.name,
        birth=change.birth,
        attribute=change.attribute,
        old=_plain(change.old),
        new=_plain(change.new),
        reason=change.reason,
        causes=causes,
    )


def _plain(value: Any) -> Any:
    return plain_item(value) if isinstance(value, Item) else value
