"""
The queries before a locked append, in one round trip: first the locks, then everything that a plan needs.

Under READ COMMITTED each statement sees all that was committed before it began. So a statement after a lock sees all
rows that were written under that lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple, Protocol

from ....domain.errors import DamagedError
from ..database_log import AcknowledgedEnd
from ..records import AssignedPlace, EarlierVersions, Part
from ..row_faults import digest_of_row, whole
from .blocks import BLOCKS_SINCE, STREAM_END, Blocks, digest_of
from .planning import EarlierEvents, Memory, Order, SliceEnd, StreamTip
from .wire import BEGIN, Call, Rows, Wire, int4, int8

INT_MAX = (1 << 31) - 1
# A day, in microseconds.
CLOCK_SET_BACK_MAX = 24 * 60 * 60 * 1_000_000


class StreamMovedError(Exception):
    """
    A stream is in another slice than the one that was locked, a slice ends elsewhere, or tags are others; the memory is
    corrected now.
    """


class Guard(Protocol):
    """Knows which events were acknowledged, and returns the error if one is gone."""

    def witness(self, number: int) -> AcknowledgedEnd | None:
        """Return the event that was acknowledged last in a slice."""

    def went_back(self, witness: AcknowledgedEnd) -> Exception:
        """Return the error for a missing witness."""

    def check(self, wire: Wire) -> None:
        """
        Check that the rows that new rows will refer to exist; raise the error if they do not.
        """


class _Question(NamedTuple):
    """A statement, and the function that takes its rows."""

    call: Call
    take: Callable[[Rows], None]


class _Statements(NamedTuple):
    # One statement each, because others wait for the lock meanwhile.
    slice_end: str = (
        "SELECT e.position, e.recorded_at, e.digest,"
        " (SELECT digest FROM {p}event WHERE slice = $1 AND position = $2),"
        " coalesce((SELECT max(key) FROM {p}stream WHERE slice = $1), 0),"
        " coalesce((SELECT max(key) FROM {p}blob WHERE slice = $1), 0)"
        " FROM (SELECT 1) AS one LEFT JOIN LATERAL (SELECT position, recorded_at, digest FROM {p}event"
        " WHERE slice = $1 ORDER BY position DESC LIMIT 1) AS e ON true"
    )
    stream_end: str = (
        "SELECT s.slice, s.key, e.version, e.digest FROM {p}stream AS s LEFT JOIN LATERAL (SELECT version, digest"
        " FROM {p}event WHERE slice = $1 AND stream = s.key ORDER BY version DESC LIMIT 1) AS e ON s.slice = $1"
        " WHERE s.id = $2"
    )
    digest: str = (
        "SELECT digest FROM {p}event WHERE slice = $1"
        " AND stream = (SELECT key FROM {p}stream WHERE id = $2 AND slice = $1) AND version = $3"
    )
    known: str = (
        "SELECT first_version, last_version FROM {p}idempotency WHERE slice = $1"
        " AND stream = (SELECT key FROM {p}stream WHERE id = $2 AND slice = $1) AND key = $3"
    )
    blob: str = "SELECT key FROM {p}blob WHERE slice = $1 AND hash = $2 AND key_id = $3"
    recorded: str = "SELECT version, position, recorded_at, digest FROM {p}event WHERE slice = $1 AND event_id = $2"


_KEY = "(SELECT key FROM stream WHERE id = $2 AND slice = $1)"
# In Refold's own log an event may be in a block.
_OWN = _Statements()._replace(
    stream_end=f"SELECT s.slice, s.key, {STREAM_END.format(streams='stream')} WHERE s.id = $2",
    digest=f"SELECT {digest_of(_KEY, '$3')}",
)


class Inquiry:
    """
    Runs the queries for one log and puts the results about slices and streams into `memory`. `lock` is the statement
    that locks a slice, `lineage` an expression (see append.py).

    With a `guard` it also checks slices whose end is not remembered: they must still hold the acknowledged events. With
    `blocks` the log is Refold's own, and events may be in blocks.
    """

    def __init__(
        self,
        memory: Memory,
        prefix: str,
        lock: str,
        lineage: str,
        guard: Guard | None,
        blocks: Blocks | None,
    ) -> None:
        self._memory = memory
        self._lock = lock
        self._lineage = Call(f"SELECT {lineage}")
        self._guard = guard
        self._blocks = blocks
        self._sql = _Statements(*[one.format(p=prefix) for one in (_OWN if blocks else _Statements())])

    def run(self, wire: Wire, orders: list[Order], *, look_for_ids: bool) -> EarlierEvents:
        """
        Begin a transaction, lock the slices of these orders, and read what appending them needs.

        Raises:
            StreamMovedError: a stream is in another slice, a slice ends elsewhere than remembered, or tags are others;
                begin the transaction again.
            LogWentBackError: an acknowledged event is missing.
            DamagedError: a slice has no row to lock.
        """
        found = EarlierEvents({}, {})
        guesses = {
            part.stream: self._memory.slices.get(part.stream, part.slice)
            for order in orders
            for part in order.request.parts
        }
        self.read_ends(
            wire, guesses, lambda: [self._about_order(order, guesses, found, look_for_ids) for order in orders]
        )
        return found

    def read_ends(
        self,
        wire: Wire,
        guesses: Mapping[str, int],
        also: Callable[[], Iterable[Iterator[_Question]]] = lambda: (),
    ) -> None:
        """
        Begin a transaction, lock the slices in which these streams are thought to be, and read where both end.

        Raises:
            StreamMovedError, LogWentBackError, DamagedError: as above.
        """
        moved, changed, lineage = dict[str, int](), list[int](), list[tuple[str]]()
        slices = sorted(set(guesses.values()))
        questions = [_Question(Call(self._lock, (int4(number),)), _requires_row(number)) for number in slices]
        questions.append(_Question(self._lineage, lineage.extend))
        for number in slices:
            questions += self._about_slice(number, changed)
        for stream, number in guesses.items():
            questions.append(self._about_stream(stream, number, moved))
        questions += chain.from_iterable(also())
        _, *answers = wire.run(BEGIN, *(question.call for question in questions))
        for question, rows in zip(questions, answers, strict=True):
            question.take(rows)
        if self._memory.tags and lineage[0][0].encode() != self._memory.lineage:
            # Somebody added a tag, or put back an older copy of the database.
            self._memory.forget_all()
            raise StreamMovedError
        if moved or changed:
            # If nothing is remembered of a slice, the next attempt checks its acknowledged events, too. All of these
            # slices are forgotten: while others write, any of them may change between two attempts.
            self._memory.forget(slices if changed else ())
            self._memory.slices.update(moved)
            raise StreamMovedError

    def _about_slice(self, number: int, changed: list[int]) -> Iterator[_Question]:
        before = self._memory.slice_ends.get(number)
        witness = self._guard.witness(number) if self._guard and before is None else None
        slice_end = self._memory.slice_ends[number] = SliceEnd()

        def take_end(rows: Rows) -> None:
            ((position, recorded_at, digest, known, stream_key, blob_key),) = rows
            if position is not None:
                # The next positions, times and digests are counted on from these.
                slice_end.position = whole(f"the last position of slice {number}", position)
                slice_end.recorded_at = whole(f"the time of position {number}.{slice_end.position}", recorded_at)
                slice_end.digest = digest_of_row(f"position {number}.{slice_end.position}", digest)
            slice_end.stream_key = whole(f"the last key of a stream of slice {number}", stream_key, INT_MAX - 1)
            slice_end.blob_key = whole(f"the last key of a text of slice {number}", blob_key)
            if before is None:
                return
            if before.digest != (known or b""):
                changed.append(number)
            elif before.digest == slice_end.digest:
                # Nobody wrote since, so the remembered streams of the slice are still right.
                slice_end.tips, slice_end.blobs = before.tips, before.blobs
                self._memory.note_quiet(number)
            else:
                self._memory.note_overtaken([number])

        def take_witness(rows: Rows) -> None:
            if self._guard and witness and [tuple(row) for row in rows] != [(witness.digest,)]:
                raise self._guard.went_back(witness)

        values: tuple[bytes, ...] = (int4(number), int8(before.position if before else 0))
        yield _Question(Call(self._sql.slice_end, values), take_end)
        if witness is not None:
            values = (int4(number), witness.stream.encode(), int4(witness.version))
            yield _Question(Call(self._sql.digest, values), take_witness)

    def _about_stream(self, stream: str, number: int, moved: dict[str, int]) -> _Question:
        slice_end, slices = self._memory.slice_ends[number], self._memory.slices

        def take_end(rows: Rows) -> None:
            slices.pop(stream, None)
            for place, key, version, digest in rows:
                # The slices of other applications have their own numbers.
                whole(f"the slice of {stream}", place, INT_MAX)
                whole(f"the key of {stream}", key, INT_MAX)
                if place != number:
                    moved[stream] = place
                    continue
                slices[stream] = number
                tip = slice_end.tips.setdefault(stream, StreamTip(key))
                if version is None:
                    continue
                whole(f"the last version of {stream}", version, INT_MAX - 1)
                digest_of_row(f"event {stream}@{version}", digest)
                if (tip.version, tip.digest) != (version, digest):
                    slice_end.tips[stream] = StreamTip(tip.key, version, digest)

        return _Question(Call(self._sql.stream_end, (int4(number), stream.encode())), take_end)

    def _about_order(
        self, order: Order, guesses: dict[str, int], found: EarlierEvents, look_for_ids: bool
    ) -> Iterator[_Question]:
        event_id = order.first_id
        for part in order.request.parts:
            number = guesses[part.stream]
            yield from self._about_part(part, number, found)
            if look_for_ids:
                for one in range(event_id, event_id + len(part.drafts)):
                    yield self._about_id(one, number, found)
                if self._blocks:
                    # Asked after the rows: an event that was sealed between the two questions is found.
                    yield self._about_blocks(self._blocks, part.stream, event_id, number, found)
            event_id += len(part.drafts)

    def _about_part(self, part: Part, number: int, found: EarlierEvents) -> Iterator[_Question]:
        slice_end = self._memory.slice_ends[number]
        if part.idempotency_key is not None:
            name = (part.stream, part.idempotency_key)
            values = (int4(number), part.stream.encode(), part.idempotency_key.encode())

            def take_known(rows: Rows) -> None:
                for span in rows:
                    what = f"the idempotency key {part.idempotency_key!r} of {part.stream}"
                    found.keys[name] = EarlierVersions(*[whole(what, version, INT_MAX) for version in span])

            yield _Question(Call(self._sql.known, values), take_known)
        for draft in part.drafts:
            for text in draft.texts:
                key_id = draft.meta.key_id or ""

                def take_blob(rows: Rows, name: tuple[bytes, str] = (text.digest, key_id)) -> None:
                    for (key,) in rows:
                        slice_end.blobs[name] = whole("the key of a large text", key)

                yield _Question(Call(self._sql.blob, (int4(number), text.digest, key_id.encode())), take_blob)

    def _about_id(self, event_id: int, number: int, found: EarlierEvents) -> _Question:
        def take(rows: Rows) -> None:
            for version, position, recorded_at, digest in rows:
                found.recorded[event_id] = AssignedPlace(version, number, position, recorded_at, digest)

        return _Question(Call(self._sql.recorded, (int4(number), event_id.to_bytes(16, "big"))), take)

    def _about_blocks(self, blocks: Blocks, stream: str, event_id: int, number: int, found: EarlierEvents) -> _Question:
        def take(rows: Rows) -> None:
            for block in rows:
                for one, (_, _, version, position, recorded_at, *_, digest) in blocks.ids(block):
                    found.recorded[one] = AssignedPlace(version, number, position, recorded_at, digest)

        # An id begins with the time in milliseconds at which it was drawn; a clock may have been set back since.
        since = max(0, (event_id >> 80) * 1000 - CLOCK_SET_BACK_MAX)
        return _Question(Call(BLOCKS_SINCE, (int4(number), stream.encode(), int8(since))), take)


def _requires_row(number: int) -> Callable[[Rows], None]:
    def take(rows: Rows) -> None:
        if not rows:
            raise DamagedError(f"slice_lock {number}", "its row is missing")

    return take
