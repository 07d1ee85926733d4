"""
From which version to which was an entry held? One row for each entry of a queue or a pool that its own events name.

The entries that a branch begins with, or that a merge takes, are not copied. One row, a mark, names all of them.
Restored entries have a mark as well, because they come back as the newest, in the order in which they were named.
Clearing a container makes a mark, too. `refold.infrastructure.queries.entries` joins entries and marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..domain.concurrency.known_types import known
from ..domain.context.decider import VersionNamed
from ..domain.log.envelope import Event, RecordedEvent
from ..domain.pool import events as pool
from ..domain.pool.describe import left_by
from ..domain.pool.items import totals_of
from ..domain.spans import Ref, Segment, Span, refs_of
from .intervals import STILL_THERE, IntervalRow, birth_in, close_interval, fill_mark, item_key, mark_key, open_interval

BRANCHED, MERGED, RESTORED, CLEARED, NAMED = "branched", "merged", "restored", "cleared", "named"
DESCRIPTION_CHARACTERS_MAX = 200


class EntryRow(IntervalRow, frozen=True):
    """
    An entry of a queue or a pool, or a mark: `type` is branched, merged, restored or cleared, `brought` is
    `entries_with_mark`.

    The `type` of an entry is `text`, `json`, or `module:name` of the class of its content. Its `description` is on one
    line, and cut if it is long; `agent` recorded it. `v0` is 0 if the entry came with a branch or a merge. `v1` is 0
    also if the entry left with a mark: with the next `cleared`, or because a merge took an entry with the same id.

    The name of a version has a row, too: `type` is named, `item` is the name, `v0` the version that it names now.
    """

    description: str = ""


class MarkedEntries(msgspec.Struct, frozen=True, array_like=True):
    """
    The entries that came with a mark.

    For a branch they are the newest entries of `parent`, at most `limit`. For a merge or a restore they are `items`.
    """

    parent: Segment | None = None
    limit: int | None = None
    items: tuple[Span, ...] = ()


class Entries:
    """The fold behind `store.entries()`."""

    name = "entries"
    version = 1
    row = EntryRow
    stays_in_slice = True
    events: frozenset[type[Event]] = frozenset((
        *pool.ITEM_EVENTS,
        *(pool.QueueBranched, pool.QueueEvicted, pool.QueueRestored, pool.QueueCleared, pool.QueueMerged),
        *(pool.PoolBranched, pool.PoolEvicted, pool.PoolRemoved, pool.PoolRestored, pool.PoolCleared, pool.PoolMerged),
        *(pool.QueueNamed, pool.PoolNamed),
    ))  # fmt: skip

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the keys of the entry that the event added, of the entries it removed or restored, and of its mark."""
        recorded, stream = event.event, event.stream
        keys = [item_key(stream, ref) for ref in _touched(recorded)]
        match recorded:
            case pool.AddedEvent():
                keys.append(item_key(stream, Ref(event.version)))
            case VersionNamed(name=name):
                keys.append(f"{names_prefix(stream)}{name}")
            case pool.BranchedEvent() | pool.RestoredEvent() | pool.ClearedEvent():
                keys.append(mark_key(stream, event.version))
            case pool.MergedEvent(taken=taken) if taken:
                keys.append(mark_key(stream, event.version))
        return keys

    def evolve(self, key: str, row: EntryRow | None, event: RecordedEvent) -> EntryRow:
        recorded, stream = event.event, event.stream
        if isinstance(recorded, pool.AddedEvent) and key == item_key(stream, Ref(event.version)):
            return _new_row(key, recorded, event)
        if isinstance(recorded, VersionNamed) or key == mark_key(stream, event.version):
            return _new_mark(key, event)
        row = row or EntryRow(key=key, context=stream, birth=birth_in(key, stream))
        if isinstance(recorded, pool.RestoredEvent):
            return open_interval(row, event.version)
        # The entry came back with a merge, which did not change its row. It leaves a second time with this event.
        row = row if row.v1 == STILL_THERE else open_interval(row, 0)
        by = left_by(recorded)
        assert by is not None, "an event that names an entry adds, restores or removes it"
        return close_interval(row, event.version, by.how, by.reason or "")


def entries_with_mark(row: EntryRow) -> MarkedEntries:
    """Return the entries that came with a mark."""
    return msgspec.msgpack.decode(row.brought, type=known(MarkedEntries))


def names_prefix(context: str) -> str:
    """Return the prefix of the keys of a container's named versions."""
    return f"{context}@~"


def _touched(event: Event) -> Iterable[Ref]:
    """Return the entries that left or came back with an event, as far as the event names them."""
    left = left_by(event)
    return refs_of(event.items if isinstance(event, pool.RestoredEvent) else (left and left.items) or ())


def _new_row(key: str, added: pool.AddedEvent, event: RecordedEvent) -> EntryRow:
    content = added.content
    return EntryRow(
        key=key,
        context=event.stream,
        birth=event.reference,
        item=added.id or "",
        type=content.type or ("json" if content.text is None else "text"),
        agent=event.meta.actor or "",
        tokens=totals_of(added).tokens,
        v0=event.version,
        description=_on_one_line(added.description or ""),
    )


def _new_mark(key: str, event: RecordedEvent) -> EntryRow:
    row = EntryRow(key=key, context=event.stream, birth=event.reference, v0=event.version)
    match event.event:
        case VersionNamed(name=name, version=version):
            return msgspec.structs.replace(row, type=NAMED, item=name, v0=version)
        case pool.BranchedEvent(parent=parent, version=version, limit=limit):
            return fill_mark(row, BRANCHED, MarkedEntries(Segment(parent, version), limit))
        case pool.MergedEvent(taken=taken):
            return fill_mark(row, MERGED, MarkedEntries(items=taken))
        case pool.RestoredEvent(items=items):
            return fill_mark(row, RESTORED, MarkedEntries(items=items))
    return msgspec.structs.replace(row, type=CLEARED)


def _on_one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DESCRIPTION_CHARACTERS_MAX else f"{line[: DESCRIPTION_CHARACTERS_MAX - 1]}…"


ENTRIES = Entries()
