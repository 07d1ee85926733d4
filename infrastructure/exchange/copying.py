"""
Copying a store into another database, event by event: between SQLite, PostgreSQL and Citus.

An event keeps its stream, version, time, envelope and bytes, also those of an older shape. It gets a position by the
rules of its new log; since digests cover positions, they are computed anew. The order within each slice stays, so
between databases of one kind positions and digests stay as well.

The target itself says how far a copy got: each page is a transaction. A copy that goes on reads what is there on both
sides once more, and requires that it is equal. At the end everything new is read back and compared.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from ...domain.clock import REAL_SYSTEM
from ...domain.concurrency.known_types import known
from ...domain.erasure.events import STREAM as ERASURES
from ...domain.erasure.events import StoreErased, decoded, require_unarchived
from ...domain.errors import DamagedError, InvalidInputError
from ...domain.log.envelope import Meta, RecordedEvent
from ...domain.log.ports import KeyRow, LiveLog, NewEvents
from ...domain.moments import ORDER_EVENTS_MAX, STREAM, MomentNamed, StoreCopied, order_of
from ...domain.positions import BEGINNING, Moment, moment_of
from ..databases import Database, open_database, ring_of, tables_of
from ..log.codec import CODEC, Codec
from ..log.compression import erased_form
from ..log.records import Part
from ..log.row_faults import RETIRED
from ..projecting.store import ProjectionStore, kept_by
from ..trust.tables import ADD_KEY, Statement, keys_in
from .event_files import Progress, is_same_file, pages_up_to
from .tally import Tally

if TYPE_CHECKING:
    from ..trust.keys import Keys
    from ..trust.sealed_log import SealedLog

READ_EVENTS = 4_096
PAGE_EVENTS = 1_024
PAGE_BYTES_MAX = 4 << 20
# Writers of a log with slices give events their time before they commit, and their clocks differ. So a copy into one
# sequence leaves out the newest events until the writers are stopped.
LAG_SECONDS = 60.0
SLICES_KEPT_MAX = 100_000
SUBSCRIPTIONS = "subscription/"
_encode = msgspec.msgpack.Encoder().encode


class _Tagged(msgspec.Struct):
    t: str


_tagged = msgspec.msgpack.Decoder(known(_Tagged))


# Leaves events as they are stored: old shapes stay old.
BYTES = Codec(msgspec.Raw)


class CopyClock:
    """The clock of a target. It stands still while copied events come in, which have their own times."""

    is_copying = True

    def now(self) -> float:
        return 0.0 if self.is_copying else REAL_SYSTEM.now()

    def new_id(self, prefix: str) -> str:
        return REAL_SYSTEM.new_id(prefix)


class CopyReport(msgspec.Struct, frozen=True, kw_only=True):
    """
    The result of a copy: all events in the target, and how many of them are new.

    `root` is a hash of all digests of the source up to `moment`, which is `target_moment` in the target. `inexact` are
    the names of moments that lie between two events of the target, each with the moment that it has there now.
    """

    source: str
    target: str
    events: int
    copied: int
    moment: str
    target_moment: str
    root: str
    is_moved: bool
    inexact: Mapping[str, str]


class Incoming:
    """Events on their way into a log of a database, page by page; they keep their times, keys and bytes."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._parts: list[Part] = []
        self._size = 0
        self._count = 0

    def add(self, one: RecordedEvent, payload: bytes, number: int, *, is_erased: bool = False) -> None:
        """
        Add an event of a stream in the slice `number`, with its payload. If the event `is_erased`, the payload is what
        is left of it, and its digest stays.
        """
        draft = self._log.draft(_tagged.decode(payload).t, one.meta, payload)
        if is_erased:
            draft = draft._replace(stored=erased_form(payload), plain=None, texts=(), digest=one.digest)
        last, key = self._parts[-1] if self._parts else None, one.meta.idempotency_key
        continues = last is not None and (last.stream, last.idempotency_key) == (one.stream, key)
        if last is not None and continues and last.recorded_at == one.recorded_at:
            last.drafts.append(draft)  # type: ignore[attr-defined]  # made as a list below
        else:
            # Events under one key are one part, so a page ends before the first of them or after the last.
            if self._count >= PAGE_EVENTS or self._size >= PAGE_BYTES_MAX:
                self.write()
            part = Part(one.stream, one.version, [draft], number, idempotency_key=key)
            self._parts.append(part._replace(recorded_at=one.recorded_at))
        self._count, self._size = self._count + 1, self._size + len(payload)

    def write(self) -> None:
        """Write what was added since the last page, as one transaction."""
        if self._parts:
            self._log.copy_in(self._parts)
        self._parts, self._count, self._size = [], 0, 0


class _Side:
    """One of the two databases."""

    def __init__(self, database: Database, sealed: SealedLog | None = None) -> None:
        self.sealed = sealed
        # The two logs of databases have methods for copies that the port of all logs does not have.
        self.log: Any = database[0]
        self.rows: ProjectionStore = database[1]
        self.tally = Tally()
        self._slices: dict[str, int] = {}

    @property
    def where(self) -> str:
        """The path, or the URL without its password."""
        return str(self.log.database.where)

    @property
    def moment(self) -> Moment:
        """The moment up to which its events are in the tally."""
        if self.log.has_slices:
            return Moment.of(dict(self.tally.counts))
        return moment_of(self.tally.events)

    def pages(self, until: Moment) -> Iterator[list[RecordedEvent]]:
        """Yield the events after those in the tally, up to a moment."""
        return pages_up_to(self.log, limit=READ_EVENTS, after=self.moment, until=until)

    def read_on(self) -> None:
        """Add the events after those in the tally to it."""
        for page in self.pages(self.log.now()):
            for recorded in page:
                self.tally.add(self.slice_of(recorded), recorded, bytes(recorded.event))

    def event_of(self, recorded: RecordedEvent) -> Any:
        """Return an event that was read, decoded."""
        payload, reference = bytes(recorded.event), recorded.reference
        return self.sealed.event_in(payload, reference) if self.sealed else CODEC.decode(payload, f"event {reference}")

    def slice_of(self, recorded: RecordedEvent) -> int:
        """Return the slice of an event's stream."""
        if self.log.has_slices:
            return recorded.position.slice
        if (number := self._slices.get(recorded.stream)) is None:
            if len(self._slices) >= SLICES_KEPT_MAX:
                self._slices.clear()
            number = self._slices[recorded.stream] = self.log.slice_of_stream(recorded.stream)
        return number


class _Copy:
    """A copy from one database into another."""

    def __init__(self, source: _Side, target: _Side, give_keys: Callable[[], None], progress: Progress | None) -> None:
        self._source, self._target, self._give_keys, self._progress = source, target, give_keys, progress
        self._orders: list[bytes] = []
        self._slices = array("H")
        self._last_time = 0
        self._incoming = Incoming(target.log)
        self._erased = source.log.head(ERASURES)
        self.inexact: dict[str, str] = {}
        self.is_finished = False

    @property
    def _keeps_order(self) -> bool:
        return self._target.log.has_slices and not self._source.log.has_slices

    def is_recorded(self) -> bool:
        """Return whether the target records that it has the whole source, as after a move that was killed late."""
        source, target = self._source, self._target
        said = [target.event_of(recorded) for recorded in target.log.read(STREAM)][-1:]
        if not said or not isinstance(said[0], StoreCopied) or said[0].moment != str(source.log.now()):
            return False
        source.read_on()
        target.tally = source.tally
        return source.tally.root() == said[0].root

    def require_begun(self) -> None:
        """
        Require that the target is empty, or that its events are the first ones of the source.

        Raises:
            InvalidInputError: it has other events.
        """
        target = self._target
        target.read_on()
        if not target.tally.events:
            return
        until = Moment.of(dict(target.tally.counts)) if self._source.log.has_slices else moment_of(target.tally.events)
        if self._source.log.now().includes(until):
            for page in self._source.pages(until):
                for recorded in page:
                    self._noted(recorded)
        if self._source.tally.differs(target.tally) is not None:
            raise self._no_copy()

    def _no_copy(self) -> InvalidInputError:
        return InvalidInputError(
            f"{self._target.where} has events that {self._source.where} does not begin with, or texts that were erased"
            " there since: copy into a new database"
        )

    def copy(self, until: Moment, horizon: int | None) -> None:
        """Copy the events up to a moment; those recorded after `horizon` are left for later."""
        total = until.events
        for page in self._source.pages(until):
            for recorded in page:
                if horizon is not None and recorded.recorded_at > horizon:
                    self._incoming.write()
                    return
                self._add(recorded)
            if self._progress is not None:
                self._progress(self._source.tally.events, total)
        self._incoming.write()

    def verify(self) -> None:
        """
        Read back the events that were written, and compare them with the source's.

        Raises:
            DamagedError: they are not equal.
        """
        # The events of other writers may have keys that were made meanwhile.
        self._give_keys()
        target = self._target
        target.read_on()
        if (number := self._source.tally.differs(target.tally)) is not None:
            raise DamagedError(f"slice {number} of {target.where}", "it is not equal to the source's: copy again")

    def _noted(self, recorded: RecordedEvent) -> tuple[int, bytes]:
        """Take note of an event of the source; return its slice, and its payload in the target."""
        number, payload = self._source.slice_of(recorded), bytes(recorded.event)
        if recorded.stream == STREAM:
            payload = self._renamed(recorded, payload)
        self._source.tally.add(number, recorded, payload)
        self._last_time = recorded.recorded_at
        if self._keeps_order:
            self._slices.append(number)
            if len(self._slices) == ORDER_EVENTS_MAX:
                self._orders.append(order_of(self._slices))
                self._slices = array("H")
        return number, payload

    def _add(self, recorded: RecordedEvent) -> None:
        before = self._last_time
        if not self._target.log.has_slices and recorded.recorded_at < before:
            raise InvalidInputError(
                f"{recorded.reference} was recorded before an event that is copied already: the clocks of its writers"
                " are further apart than --lag: copy into a new file with a longer one"
            )
        is_new_erasure = recorded.stream == ERASURES and recorded.version > self._erased
        if is_new_erasure and isinstance(decoded(recorded.event), StoreErased):
            # Its texts may be among the events that are copied already, and nothing would erase them there.
            raise self._no_copy()
        number, payload = self._noted(recorded)
        self._incoming.add(recorded, payload, number)

    # Moments

    def _renamed(self, recorded: RecordedEvent, payload: bytes) -> bytes:
        """Return the event that named a moment with the same moment of the target."""
        event, sealed = self._source.event_of(recorded), self._source.sealed
        if not isinstance(event, MomentNamed):
            return payload
        there = self.moment_there(moment := Moment.parse(event.moment))
        if there.events != moment.events:
            self.inexact[event.name] = str(there)
        if str(there) == event.moment:
            return payload
        renamed = msgspec.structs.replace(event, moment=str(there))
        return _encode(renamed) if sealed is None else sealed.payload_with(renamed, payload, recorded.reference)

    def moment_there(self, moment: Moment) -> Moment:
        """
        Return a moment of the source as one of the target; at most the end of what is copied so far.

        In one sequence there may be no such cut. Then it is the last position before the first event that the moment
        does not include: whoever goes on from there misses nothing.
        """
        source, seen = self._source, self._source.moment
        moment = Moment.of({lane: min(head, seen.head(lane)) for lane, head in moment.heads})
        if source.log.has_slices == self._target.log.has_slices:
            return moment
        # The events that were copied since the moment, which are few as a rule, are subtracted.
        limit = READ_EVENTS if self._target.log.has_slices else 1
        behind = (one for page in pages_up_to(source.log, limit=limit, after=moment, until=seen) for one in page)
        if self._target.log.has_slices:
            counts = dict(source.tally.counts)
            for one in behind:
                counts[source.slice_of(one)] -= 1
            return Moment.of({number: count for number, count in counts.items() if count})
        if (first := next(behind, None)) is None:
            return moment_of(source.tally.events)
        self._incoming.write()
        (there,) = self._target.log.read(first.stream, after=first.version - 1, until=first.version)
        return moment_of(there.position.number - 1)

    # The end

    def require_keys(self) -> None:
        """
        Require that both sides have the same idempotency keys; the source takes no events meanwhile.

        Raises:
            DamagedError: they have not.
        """
        sums = [sum(_hash_of(row) for row in side.log.idempotency_keys()) for side in (self._source, self._target)]
        if sums[0] != sums[1]:
            raise DamagedError(f"the idempotency keys of {self._target.where}", "they are not equal to the source's")

    def finish(self, clock: CopyClock) -> None:
        """Move the acknowledged places of subscriptions, and record in the target what it was copied from."""
        for name, text in self._source.rows.notes(SUBSCRIPTIONS).items():
            there = str(self.moment_there(Moment.parse(text)))
            self._target.rows.set_note(name, before=self._target.rows.note(name), after=there)
        if self._slices:
            self._orders.append(order_of(self._slices))
        copied = StoreCopied(
            source=self._source.where,
            moment=str(self._source.moment),
            events=self._source.tally.events,
            root=self._source.tally.root(),
        )
        orders = enumerate(self._orders or [b""])
        events = tuple(
            msgspec.structs.replace(copied, first=place * ORDER_EVENTS_MAX + 1, order=order) for place, order in orders
        )
        clock.is_copying, self.is_finished = False, True
        log = self._target.log
        version, metas = log.head(STREAM), (Meta(actor="refold copy"),) * len(events)
        log.append([NewEvents(stream=STREAM, expected_version=version, events=events, metas=metas)]).result()

    def report(self, copied: int, *, is_moved: bool) -> CopyReport:
        return CopyReport(
            source=self._source.where,
            target=self._target.where,
            events=self._source.tally.events,
            copied=copied,
            moment=str(self._source.moment),
            target_moment=str(self._target.moment),
            root=self._source.tally.root().hex(),
            is_moved=is_moved,
            inexact=self.inexact,
        )


def copy_store(
    source: str,
    target: str,
    *,
    move: bool = False,
    lag_seconds: float = LAG_SECONDS,
    keys: Keys | None = None,
    progress: Progress | None = None,
) -> CopyReport:
    """
    Copy all events of the database `source` into `target`, which is new or holds an earlier copy; compare them.

    The copy of a store with keys, which needs its `keys`, has the same data keys. While others write to the source,
    the copy is of the moment at which it began; another call goes on from there. With `move` the source takes no events
    once nearly all are copied; the last ones are copied and compared. If that fails, it takes events again, unless
    another move closed it, too.

    Raises:
        InvalidInputError: the target has other events, or is in memory; or a context of the source is archived.
        ConcurrencyError: another process writes to the target.
        DamagedError: the source is damaged, or the copy is not equal to it.
        KeyUnavailableError: the source was made with keys, and they were not given.
    """
    clock = CopyClock()
    if ":memory:" in (source, target):
        raise InvalidInputError("a store in memory cannot be copied: name a file or postgresql://...")
    there = _side_at(source, keys, create=False, read_only=not move)
    try:
        require_unarchived(there.log)
        give_keys: Callable[[], None] = (
            partial(_give_keys, there.log, target, clock) if keys is not None else lambda: None
        )
        give_keys()
        here = _side_at(target, keys, system=clock)
        try:
            return _run_copy(_Copy(there, here, give_keys, progress), there, here, clock, move, lag_seconds)
        finally:
            here.log.close()
    finally:
        there.log.close()


def _side_at(location: str, keys: Keys | None, **options: Any) -> _Side:
    """Open one of the two databases; an encrypted one gives its events as they are stored."""
    log, rows = open_database(location, codec=BYTES, keys=keys, is_raw=keys is not None, **options)
    if keys is None or not (ring := ring_of(log)).encrypts:
        return _Side((log, rows))
    from ..trust.sealed_log import SealedLog
    from ..trust.sealed_rows import SealedProjectionStore

    # The places of subscriptions are sealed notes.
    return _Side((log, SealedProjectionStore(log, tables_of(log), ring, kept_by(rows))), SealedLog(log, ring))


def _give_keys(source: LiveLog, target: str, clock: CopyClock) -> None:
    """Give the target the data keys of the source, unless it has them, or events without keys."""
    log: Any = open_database(target, codec=BYTES, system=clock, is_raw=True)[0]
    with closing(log):
        tables = tables_of(log)
        if not tables.names() and log.now() != BEGINNING:
            raise InvalidInputError(f"{log.database.where} has events without keys: copy into a new database")
        tables.make()
        tables.change(*(Statement(ADD_KEY, row) for row in keys_in(tables_of(source))))


def _run_copy(
    copy: _Copy, source: _Side, target: _Side, clock: CopyClock, move: bool, lag_seconds: float
) -> CopyReport:
    if source.where == target.where or any(map(is_same_file, source.log.files()[:1], target.log.files()[:1])):
        raise InvalidInputError(f"{source.where} cannot be copied onto itself: name another database")
    if move and copy.is_recorded():
        source.log.retire(RETIRED)
        return copy.report(0, is_moved=True)
    copy.require_begun()
    begun, is_woven = source.tally.events, source.log.has_slices and not target.log.has_slices
    horizon = int((REAL_SYSTEM.now() - lag_seconds) * 1_000_000) if is_woven else None
    copy.copy(source.log.now(), horizon)
    copy.verify()
    if move:
        mark = source.log.retire()
        try:
            copy.copy(source.log.now(), None)
            copy.verify()
            copy.require_keys()
            copy.finish(clock)
        except BaseException:
            # The marks of other moves stay and keep the store closed: by now programs write to another store.
            if not copy.is_finished:
                source.log.reopen(mark)
            raise
    return copy.report(source.tally.events - begun, is_moved=move)


def _hash_of(row: KeyRow) -> int:
    return int.from_bytes(hashlib.blake2b(_encode(row)).digest())
