"""The rules of a scope: commands in, events out, nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..content import Content
from ..context.decider import Decider, NameVersion, decide_name
from ..errors import InvalidInputError
from ..named_events import Resolved
from ..spans import Ref, spans_of
from ..totals import Totals, total_of
from .events import MemoryEvent, MemoryForgotten, MemoryNamed, MemoryRemembered, MemoryRestored
from .state import EMPTY, PACKING, Completed, Held, MemoryState, complete, fold


class Remember(msgspec.Struct, frozen=True):
    """Remember a value under a key; `first_at` is used where the key is new, and `now` is the present time."""

    key: str
    value: Content
    kind: str
    tags: tuple[str, ...]
    first_at: int
    now: int


class Forget(msgspec.Struct, frozen=True):
    """Forget a key, or all of them."""

    key: str | None
    reason: str | None


class Restore(msgspec.Struct, frozen=True):
    """Restore records that `stream` had forgotten."""

    stream: str
    items: tuple[Held, ...]


Command = Remember | Forget | Restore | NameVersion


def decide(command: Command, state: MemoryState) -> Sequence[Completed]:
    """
    Return the events that carry out `command`; no events where nothing would change.

    Raises:
        InvalidInputError: a name is malformed, or a key to be restored has a new record.
    """
    match command:
        case Remember():
            return [_remembered(command, state)]
        case Forget(key=key, reason=reason):
            return _forget(key, reason, state)
        case Restore(stream=stream, items=items):
            return _restore(stream, items, state)
        case NameVersion():
            return decide_name(command, state.names, MemoryNamed)


def _remembered(command: Remember, state: MemoryState) -> MemoryRemembered:
    old = state.records.get(command.key)
    event = MemoryRemembered(
        key=command.key,
        value=command.value,
        kind=command.kind,
        tags=command.tags,
        first_at=command.first_at if old is None else old.event.first_at,
        # Each record in a scope is newer than the one before it, whatever the clocks of their writers say.
        at=max(command.now, state.last_at + 1),
        replaced=None if old is None else Ref(old.version),
        change=Totals(),
    )
    change = Held(0, event).totals
    return msgspec.structs.replace(event, change=change if old is None else change - old.totals)


def _forget(key: str | None, reason: str | None, state: MemoryState) -> Sequence[MemoryEvent]:
    found = state.records.get(key) if key is not None else None
    leaving = state.records.values() if key is None else [found] if found is not None else []
    if not leaving:
        return []
    named = spans_of(Ref(version) for version in sorted(held.version for held in leaving))
    return [MemoryForgotten(items=named, change=-total_of(leaving), reason=reason)]


def _restore(stream: str, items: Sequence[Held], state: MemoryState) -> Sequence[Completed]:
    for held in items:
        if held.event.key in state.records:
            raise InvalidInputError(f"{held.event.key!r} has a record now: forget it first, or put the old record")
    if not items:
        return []
    named = spans_of(Ref(held.version, stream) for held in items)
    return [Resolved(MemoryRestored(items=named, change=total_of(items)), tuple(items))]


MEMORIES: Decider[MemoryState] = Decider(decide, fold, EMPTY, complete, PACKING, is_opened=False)
