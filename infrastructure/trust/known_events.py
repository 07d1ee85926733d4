"""
The events of a log that are known from outside of its database: by its witness, or because this process wrote or read
them since. Events that are read are compared with them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from ...domain.concurrency.locks import locked, renew_in_child
from ...domain.errors import TamperedError
from ...domain.ids import slice_of, split_stream_id
from ...domain.log.envelope import Chain, RecordedEvent
from ...domain.log.ports import LiveLog, Receipt
from ...domain.positions import moment_of
from ..log.evidence import SEGMENT, SegmentRow, place, require_ends, segment_of
from .slices import SliceEvidence, contents_hash
from .witness import NOTHING_SEEN, SliceSeen, WitnessHistory

READ_EVENTS = 2_048
SEGMENTS_KEPT_MAX = 128


class SegmentTable(Protocol):
    """The rows of segments in the database; they are not trusted unless the witness has a hash over them."""

    def segments(self, lane: int, until: int) -> list[SegmentRow]:
        """Return the rows of the first `until` segments of a slice, in order, as far as they exist."""

    def keep(self, lane: int, rows: Sequence[SegmentRow]) -> None:
        """Store rows of segments, in place of those with the same numbers."""

    def digests(self, lane: int, first: int, last: int) -> list[bytes]:
        """Return the digests of the events between two positions, in any order, as they are at this moment."""


class ChainedLog(LiveLog, Protocol):
    """A log whose digests may be keyed."""

    @property
    def chain(self) -> Chain:
        """The chain that computes its digests."""


def _nobody() -> None:
    pass


class KnownEvents:
    """The known events of one log, as its reading asks for them; any number of threads may use it."""

    def __init__(self, log: ChainedLog, table: SegmentTable, *, read_only: bool) -> None:
        self.log, self.table, self.read_only = log, table, read_only
        # False while the witness could not be asked: then nothing is known.
        self.is_connected = False
        self.seen = WitnessHistory()
        # Committed events that are in no tree yet. `wake` is called at the first of them.
        self.noted: list[Sequence[Receipt]] = []
        self.is_awake = False
        self.wake: Callable[[], None] = _nobody
        self._slices: dict[int, SliceEvidence] = {}
        self._segments: OrderedDict[tuple[int, int], frozenset[bytes]] = OrderedDict()
        self._own_snapshots: dict[str, bytes] = {}
        self._being_loaded: set[int] = set()
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        self._loading = threading.RLock()

    # Slices

    def state(self, lane: int) -> SliceEvidence | None:
        """
        Return what is known of a slice; None while the witness could not be asked.

        Raises:
            TamperedError: its events are not those that the witness saw.
        """
        found = self._slices.get(lane)
        if found is None and self.is_connected:
            found = locked(self._loading, self._loaded, lane)
        return found

    def _loaded(self, lane: int) -> SliceEvidence | None:
        if lane in self._being_loaded:
            # This thread reads events in order to know them.
            return None
        if lane not in self._slices:
            self._being_loaded.add(lane)
            try:
                self._slices[lane] = self._load(lane, self.seen.slices.get(lane, NOTHING_SEEN))
            finally:
                self._being_loaded.discard(lane)
        return self._slices[lane]

    def _load(self, lane: int, wanted: SliceSeen) -> SliceEvidence:
        """Return a slice as its witness saw it: from the rows of its segments, and the events behind them."""
        rows = self.table.segments(lane, wanted.events // SEGMENT)
        if [row.number for row in rows] == [*range(wanted.events // SEGMENT)]:
            state = SliceEvidence()
            for row in rows:
                state.add_row(row)
            self.read_on(lane, state, wanted.events)
            if state.seen() == wanted:
                return state
        # The rows are lost or wrong, or the events are: these alone can say.
        state = SliceEvidence()
        kept = self.read_on(lane, state, wanted.events)
        if state.seen() != wanted:
            raise _other_events(lane, wanted.events, rows, kept)
        self.keep(lane, kept)
        return state

    def keep(self, lane: int, rows: Sequence[SegmentRow]) -> None:
        """Store rows of segments, unless the store is read only."""
        if rows and not self.read_only:
            self.table.keep(lane, rows)

    def read_on(self, lane: int, state: SliceEvidence, until: int) -> list[SegmentRow]:
        """Add the next events of a slice up to a position, as the log has them; return the completed segments."""
        completed = []
        for recorded in self.events(lane, state.count, until):
            if (row := state.add(recorded)) is not None:
                completed.append(row)
        require_ends({lane: state.count}, {lane: until})
        return completed

    def events(self, lane: int, after: int, until: int) -> Iterator[RecordedEvent]:
        """Yield the events of a slice behind one position up to another, as the log has them."""
        while after < until:
            start, end = moment_of(after, lane), moment_of(until, lane)
            page = self.log.read_all(after=start, limit=READ_EVENTS, until=end, undecodable=True)
            yield from page.events
            if not page.events:
                return
            after += len(page.events)

    # Reading

    def require_one(self, lane: int, position: int, digest: bytes) -> None:
        state = self.state(lane)
        if state is not None and state.view.tail.get(position) != digest:
            self._require(lane, state, (position,), (digest,))

    def require(self, lane: int, positions: Sequence[int], digests: Sequence[bytes]) -> bool:
        state = self.state(lane)
        return state is not None and self._require(lane, state, positions, digests)

    def _require(self, lane: int, state: SliceEvidence, positions: Sequence[int], digests: Sequence[bytes]) -> bool:
        complete, tail = state.view
        by_segment: dict[int, list[bytes]] = {}
        are_settled = True
        for position, digest in zip(positions, digests, strict=True):
            if position <= complete:
                by_segment.setdefault(segment_of(position), []).append(digest)
                continue
            are_settled = False
            if tail.get(position, digest) != digest:
                raise TamperedError(f"position {place(lane, position)}", "another event is known at it")
        for segment, some in by_segment.items():
            if not self._digests(lane, state, segment).issuperset(some):
                raise _other_segment(lane, segment)
        return are_settled

    def _digests(self, lane: int, state: SliceEvidence, segment: int) -> frozenset[bytes]:
        """Return the digests of a complete segment, after comparing them with the hash that is known."""
        found = self._segments.get((lane, segment))
        if found is None:
            listed = self.table.digests(lane, segment * SEGMENT + 1, (segment + 1) * SEGMENT)
            if contents_hash(listed) != state.contents_of(segment):
                raise _other_segment(lane, segment)
            if len(self._segments) >= SEGMENTS_KEPT_MAX:
                # Another thread may have done so meanwhile.
                self._segments = OrderedDict([*self._segments.items()][SEGMENTS_KEPT_MAX // 4 :])
            found = self._segments[lane, segment] = frozenset(listed)
        return found

    def last_version(self, stream: str, lane: int | None) -> int:
        if lane is not None:
            state = self.state(lane)
            return 0 if state is None else state.last_version(stream)
        # The database may have lost the stream. Its slice is mostly that of its own id, or one that is in use.
        guess = slice_of(split_stream_id(stream)[1]) if ":" in stream else -1
        guessed = self.state(guess) if guess in self.seen.slices else None
        known = [*self._slices.values(), *([] if guessed is None else [guessed])]
        return max((one.last_version(stream) for one in known), default=0)

    def ends(self) -> Mapping[int, int]:
        return {lane: one.events for lane, one in [*self.seen.slices.items()]}

    # Writing

    def note(self, receipts: Sequence[Receipt]) -> None:
        self.noted.append(receipts)
        if not self.is_awake:
            self.is_awake = True
            self.wake()

    # Snapshots: the log checks their codes if it has a chain key. Without one nothing can vouch for a stored snapshot,
    # so only those count that this process stored itself.

    def note_snapshot(self, stream: str, packed: bytes) -> None:
        self._own_snapshots[stream] = self.log.chain.snapshot_code(stream, packed)

    def is_authentic(self, stream: str, packed: bytes) -> bool:
        chain = self.log.chain
        return bool(chain.key) or self._own_snapshots.get(stream) == chain.snapshot_code(stream, packed)


def _other_segment(lane: int, segment: int) -> TamperedError:
    first, last = (place(lane, number) for number in (segment * SEGMENT + 1, (segment + 1) * SEGMENT))
    return TamperedError(f"positions {first} to {last}", "an event among them is missing, or is another one")


def _other_events(lane: int, events: int, rows: Sequence[SegmentRow], found: Sequence[SegmentRow]) -> TamperedError:
    """Return the error for a slice with other events: the first segment that is not as its row, else all of it."""
    for row, other in zip(rows, found, strict=False):
        if row != other:
            return _other_segment(lane, other.number)
    start = len(found) * SEGMENT + 1 if len(rows) == len(found) else 1
    where = f"positions {place(lane, start)} to {place(lane, events)}"
    return TamperedError(where, "an event among them is another one")
