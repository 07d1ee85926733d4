"""
Snapshots of chats: where the items come from, and what edits did to them; and items that stay in the log.

A state that was opened from a snapshot reads an item when somebody looks at it. It has hashes of all ids, so that an
item is found, or known to be new, without reading the others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain, groupby
from operator import itemgetter
from typing import NamedTuple

import msgspec

from ...concurrency.known_types import known
from ...context.folded_stream import SNAPSHOT_EVENTS, FoldedStream
from ...context.snapshot import DIGEST_BYTES, Packing
from ...errors import DamagedError
from ...log.ports import Range
from ...named_events import EventSource
from ...spans import Segment
from ...totals import Totals
from ..events import ChatItemEvent, Forked, Opened, added_item
from ..pairing import Approval
from .edits import Edits, Gone
from .fold import ChatState, fold
from .item_table import Birthplace, ItemTable, RunningTotals
from .loading import NAMING_ITEMS, items_of_runs, with_pieces
from .sequence import Items
from .unread_items import ItemNames, PackedNames, StoredItems

# A chat with fewer items is read as fast as a snapshot. A writer that adds items makes a new snapshot when this many
# events follow the last one.
ADDING_MIN = 32
ADDING_TAIL_MAX = 16


class _Left(msgspec.Struct, frozen=True, array_like=True):
    """Items that left together: how, and runs of ordinals as (first, length) in their order."""

    how: str
    reason: str | None
    version: int
    summary: int | None
    runs: tuple[int, ...]


class _Edited(msgspec.Struct, frozen=True, array_like=True):
    """The effects of edits: `placed` has pairs of an inserted item and the one before which it was put."""

    left: tuple[_Left, ...]
    placed: tuple[tuple[int, int], ...]
    pinned: tuple[int, ...]
    approvals: tuple[tuple[int, Approval], ...]


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """
    A state without its items.

    `opened` is the digest of the event that opened the chat, which is read again. `names_of_items` has what makes an
    `ItemNames`. `sizes` has the totals of each item that it ever held, `whole` the tokens and turns of all of them, and
    `shown` the totals of the view.
    """

    version: int
    opened: bytes
    names: dict[str, int]
    merged: tuple[tuple[str, str, int], ...]
    ancestry: tuple[Segment, ...]
    lineage: tuple[str, ...]
    reach: int
    runs: tuple[tuple[int, Birthplace, int], ...]
    taken: tuple[tuple[int, int, int], ...]
    written: tuple[tuple[int, int], ...]
    names_of_items: PackedNames
    sizes: bytes
    whole: tuple[int, int]
    shown: Totals
    edits: _Edited | None


def packed(state: ChatState) -> bytes | None:
    """Return a state in the form of a snapshot; None if another context wrote one of its messages piece by piece."""
    items, item_table = state.items, state.items.raw
    whole = items.whole_totals()
    written = tuple(items.written())
    if any(item_table.birth(ordinal)[0] != len(items.lineage) for ordinal, _ in written):
        # Only the fold knows which pieces of the message belong to this chat.
        return None
    return msgspec.msgpack.encode(
        _Packed(
            version=state.version,
            opened=_digest_of(state.opened),
            names=dict(sorted(state.names.items())),
            merged=tuple(sorted((*source, version) for source, version in state.merged.items())),
            ancestry=state.ancestry,
            lineage=items.lineage,
            reach=items.reach,
            runs=tuple(item_table.runs(items.reach)),
            taken=tuple(item_table.taken(items.reach)),
            written=written,
            names_of_items=item_table.names(items.reach),
            sizes=items.sizes(),
            whole=(whole.tokens, whole.turns),
            shown=items.totals,
            edits=None if items.edits is None else _packed_edits(items.edits),
        )
    )


def _digest_of(opened: Opened | Forked | None) -> bytes:
    # The recorded event names the last items; the event in the state of the process that recorded it does not.
    said = msgspec.structs.replace(opened, tail=None) if isinstance(opened, Forked) else opened
    return blake2b(msgspec.msgpack.encode(said), digest_size=DIGEST_BYTES).digest()


def _packed_edits(edits: Edits) -> _Edited:
    together = groupby(edits.departed(), key=lambda one: id(one[1]))
    groups = [list(group) for _, group in together]
    left = [
        _Left(how.how, how.reason, how.version, how.summary, _runs([ordinal for ordinal, _ in group]))
        for group in groups
        for how in (group[0][1],)
    ]
    placed = sorted((one, anchor) for anchor, ahead in edits.before.items() for one in ahead)
    return _Edited(
        tuple(left),
        tuple(placed),
        tuple(sorted(edits.pinned)),
        tuple(sorted(edits.approvals.items(), key=itemgetter(0))),
    )


def _runs(ordinals: Sequence[int]) -> tuple[int, ...]:
    runs: list[int] = []
    for ordinal in ordinals:
        if runs and ordinal == runs[-2] + runs[-1]:
            runs[-1] += 1
        else:
            runs += (ordinal, 1)
    return tuple(runs)


def unpacked(log: EventSource, stream: str, data: bytes) -> ChatState:
    """
    Return the state that `packed` packed; its items are read from the log at their first use.

    Raises:
        DamagedError: the log does not hold what it names.
    """
    short = msgspec.msgpack.decode(data, type=known(_Packed))
    first = log.read_events(stream, until=1)
    opened = first[0] if first and isinstance(first[0], Opened | Forked) else None
    if _digest_of(opened) != short.opened:
        raise DamagedError(stream, "its snapshot belongs to a chat that another event opened")
    source = _Source(
        log,
        [start for start, _, _ in short.runs],
        [(place, version) for _, place, version in short.runs],
        dict(short.written),
        (*short.lineage, stream),
    )
    stored = StoredItems(short.reach, source.read)
    totals = RunningTotals(short.reach, short.sizes, *short.whole)
    item_table = ItemTable.stored(stored, ItemNames(*short.names_of_items), short.runs, short.taken, totals)
    item_table.until = dict(short.written)
    edits = None if short.edits is None else _unpacked_edits(short.edits)
    basis = None if edits is None else (short.reach, short.shown)
    return ChatState(
        version=short.version,
        opened=opened,
        items=Items(item_table, short.reach, edits, lineage=short.lineage, basis=basis),
        names=short.names,
        merged={(source, how): version for source, how, version in short.merged},
        ancestry=short.ancestry,
    )


def unread(log: EventSource, stream: str, state: ChatState) -> ChatState:
    """
    Return a state without its items, which are read from the log at their first use; it continues the given one.

    `stream` recorded its last event.
    """
    items = state.items
    source = _Source(log, *items.raw.places, items.raw.until, (*items.lineage, stream))
    return msgspec.structs.replace(state, items=items.unread(source.read))


def _unpacked_edits(short: _Edited) -> Edits:
    edits = Edits()
    for ordinal, anchor in short.placed:
        edits.place(ordinal, anchor)
    for left in short.left:
        ranges = zip(left.runs[::2], left.runs[1::2], strict=True)
        ordinals = [ordinal for start, length in ranges for ordinal in range(start, start + length)]
        edits.hide(ordinals, Gone(left.how, left.reason, left.version, left.summary))
    for ordinal in short.pinned:
        edits.pinned[ordinal] = True
    for ordinal, approval in short.approvals:
        edits.approvals[ordinal] = approval
    return edits


class _Source(NamedTuple):
    """
    The places of items in the log: runs by ordinal, the last piece of each message, the streams of origin (own last).
    """

    log: EventSource
    starts: Sequence[int]
    where: Sequence[tuple[Birthplace, int]]
    written: Mapping[int, int]
    streams: Sequence[str]

    def read(self, ordinals: Sequence[int]) -> list[ChatItemEvent]:
        """
        Return the items with these ordinals.

        Raises:
            DamagedError: one of them is not in the log.
        """
        is_range = isinstance(ordinals, range)
        flat = (ordinals[0], len(ordinals)) if is_range and ordinals else _runs(ordinals)
        stretches = zip(flat[::2], flat[1::2], strict=True)
        runs = [run for start, length in stretches for run in self._places(start, start + length)]
        items = [*chain.from_iterable(items_of_runs(self.log, runs))]
        for ordinal, until in self.written.items():
            if ordinal in ordinals:
                at = ordinals.index(ordinal)
                stream, version = self._place(ordinal)
                events = self.log.read_ranges([Range(stream, version, until)])[0]
                items[at] = with_pieces(items[at], version, events)
        return items

    def _place(self, ordinal: int) -> tuple[str, int]:
        run = bisect_right(self.starts, ordinal) - 1
        place, version = self.where[run]
        stream = place if isinstance(place, str) else self.streams[place]
        return stream, version + ordinal - self.starts[run]

    def _places(self, start: int, stop: int) -> Iterator[tuple[str, range]]:
        while start < stop:
            run = bisect_right(self.starts, start)
            end = min(stop, self.starts[run] if run < len(self.starts) else stop)
            stream, version = self._place(start)
            yield stream, range(version, version + end - start)
            start = end


PACKING = Packing(
    packed,
    unpacked,
    "refold.domain.chat.state.packed",
    "refold.domain.chat.state.unread_items",
    "refold.domain.chat.state.loading",
    "refold.domain.chat.state.item_table",
    "refold.domain.chat.state.edits",
    "refold.domain.chat.state.sequence",
    "refold.domain.chat.state.fold",
    "refold.domain.chat.describe",
    "refold.domain.chat.events",
    "refold.domain.chat.pairing",
    "refold.domain.chat.pieces",
    "refold.domain.chat.roles",
    "refold.domain.chat.tokens",
    unread=unread,
    later=True,
)


def new_at(journal: FoldedStream[ChatState], items: Sequence[ChatItemEvent]) -> int:
    """
    Return a version up to which a chat certainly never held these items; -1 if only its state shows it, which is loaded
    then.

    Reading the state of a short chat in a long log takes many blocks, and adding an item needs nothing else of it.
    """
    is_loaded = journal.is_loaded or journal.is_ahead
    end, log, stream = journal.known, journal.log, journal.place.stream
    read = None if is_loaded or end.version < ADDING_MIN else PACKING.read(log, stream, end)
    if read is not None:
        state, events = read[0], [one.event for one in read[1]]
        # A merge or a fork may have taken items with any ids.
        if NAMING_ITEMS.isdisjoint(map(type, events)):
            if len(events) >= ADDING_TAIL_MAX:
                PACKING.keep(log, stream, fold(state, events), end)
            added = {item.id for event in events if (item := added_item(event)) is not None}
            if not any(item.id in added or state.items.raw.may_have(item.id) for item in items):
                return end.version
    state = journal.state
    # Loading a longer chat keeps a snapshot anyway.
    if not is_loaded and state.items.reach >= ADDING_MIN and end.version < SNAPSHOT_EVENTS:
        PACKING.keep(log, stream, state, end)
    return -1
