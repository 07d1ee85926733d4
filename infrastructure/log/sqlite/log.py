"""
The log on SQLite: Refold's embedded default.

One file, any number of processes. Each process has one writer, which commits in groups; readers never wait for it.
"""

from __future__ import annotations

import bisect
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from ....domain.clock import REAL_SYSTEM, System
from ....domain.concurrency.promises import Settled
from ....domain.errors import ConcurrencyError, DamagedError, InvalidInputError, Lost
from ....domain.log.admission import require_names
from ....domain.log.envelope import Event, RecordedEvent
from ....domain.log.ports import NewEvents, Page, Pending, Range, Receipt, Remnant, StreamEnd
from ....domain.positions import ONE_SEQUENCE, Moment, Partition, moment_of, require_kind
from ..background import ERASURE_WATCH, BackgroundWork, LogSnapshots
from ..block_body import OvertakenError
from ..codec import CODEC, Codec
from ..compression import Compression, Plain, no_dictionary
from ..database_log import NO_LIMIT, Answer, Batch, MissingDatabase, joined
from ..evidence import SEGMENT, require_ends, require_version, segment_of
from ..records import Appended, Part, Request, part_of
from ..row_faults import RETIRED, new_mark, whole
from .append import END, Appender
from .connection import SqliteDatabase, first_value
from .erase import Eraser
from .read import INDEX_OF_BLOCKS, KEY_OF_STREAM, Column, CurrentFile, Reader, stored_digest, version_at
from .schema import RETIRES, prepare_schema, refuse_foreign_file
from .seal import SealedSlice, Sealer
from .side_tables import Segments, Snapshots
from .verify import CheckedLog

# Reading a row takes 7 us more than reading an event of a block, so this many rows slow down a view by 30 ms.
BACKLOG_EVENTS_MAX = 4_096
# A trigger costs an append nothing while it is not there, and it also stops processes that have the file open already.
RETIRE = f"CREATE TRIGGER IF NOT EXISTS {{}}{RETIRES}"
REOPEN = "DROP TRIGGER IF EXISTS {}"
MARKS = f"SELECT name FROM sqlite_schema WHERE type = 'trigger' AND name GLOB '{RETIRED}*'"
PLAIN = Plain()
POLL_SECONDS = 0.02
STREAMS_MAX = 100_000
WINDOW_MAX = 1 << 14
T = TypeVar("T")


class SqliteLog(CheckedLog):
    """
    A log in an SQLite file; see `refold.domain.log.ports.LiveLog` for what its methods promise.

    Raises:
        StorageUnavailableError: the file cannot be opened, is not a database, or belongs to another program.
    """

    has_slices = False
    _reader: Reader

    def __init__(
        self,
        path: str | Path,
        *,
        create: bool = True,
        read_only: bool = False,
        synchronous: str = "FULL",
        codec: Codec = CODEC,
        system: System = REAL_SYSTEM,
    ) -> None:
        refuse_foreign_file(path)
        self.database = SqliteDatabase(path, create=create, read_only=read_only, synchronous=synchronous)
        super().__init__(codec, PLAIN, self.database)
        self._compression = Compression(no_dictionary("there are none in a log on SQLite"))
        self._reader = Reader(codec, self._compression, self.chain)
        self._marking_reader = Reader(codec.marking(), self._compression, self.chain)
        self._readers = (self._reader, self._marking_reader)
        self._sealer = Sealer(self._compression, self._reader)
        self._appender = Appender(
            self.database, "", system, self._compression, chain=self.chain, pack=self._sealer.pack
        )
        self._wake_behind = SEGMENT
        self._sealed_to = 0
        self._sealing = BackgroundWork(
            self._seal_block,
            f"sealing segments of {path}",
            pulse=lambda: self._appender.position,
            is_pressing=self._is_sealing_pressing,
        )
        table = Snapshots(self.database, self.write, self._key_of)
        self._snapshots = LogSnapshots(
            table, self.chain, str(path), lambda: self._appender.position, read_only=read_only
        )
        self._keys: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self.database.lost = self._lost_with_file
        try:
            prepare_schema(self.database)
        except BaseException:
            self.database.close()
            raise
        ERASURE_WATCH.add(self)

    # Writing

    def append(self, batch: Batch, *, wait: bool = True) -> Pending[list[Receipt]]:
        try:
            for new in batch:
                require_names(new)
        except InvalidInputError as error:
            return Settled(None, error)
        return super().append(batch, wait=wait)

    def _commit(self, batches: Sequence[Batch]) -> Sequence[Answer]:
        receipts = self._appender.append_cached(joined(batches))
        if receipts is not None:
            answers = self._shared_out(batches, receipts)
        else:
            drafted = [self._drafted(batch) for batch in batches]
            requests = [one for one in drafted if isinstance(one, Request)]
            answers = [*self._answered(batches, drafted, self._append_locked(requests) if requests else ())]
        self._announce()
        return answers

    def _append_locked(self, requests: list[Request]) -> list[Appended | ConcurrencyError]:
        return self._appender.append_locked(requests, self._require_acknowledged)

    def segment_table(self) -> Segments:
        """Return the table for what the evidence keeps of segments."""
        return Segments(self.database, self.write)

    def _announce(self) -> None:
        """
        Wake callers that wait for news; wake the sealing thread if a segment is complete, since it is on disk now.
        """
        self.news.announce()
        position = self._appender.position
        if position > self._wake_behind:
            self._wake_behind = (segment_of(position) + 1) * SEGMENT
            self._sealing.wake()

    def _is_sealing_pressing(self) -> bool:
        # Rows that this process found may stay until it pauses: an edit would wait for each block of them.
        return self._appender.position - max(self._sealed_to, self._appender.began_at) >= BACKLOG_EVENTS_MAX

    def _seal_block(self) -> bool:
        """Make a block of rows of a complete segment; return whether there may be more to do."""
        with self.database.reading() as connection:
            sealed = self._sealer.next_slice(connection)
        if sealed is None:
            self._sealed_to = self._appender.position
            return False
        self._sealed_to = sealed.block.segment * SEGMENT
        self._committer.exclusively(lambda: self._store_block(sealed))
        return True

    def _store_block(self, sealed: SealedSlice) -> None:
        with suppress(OvertakenError):
            self.database.write(lambda connection: self._sealer.store(connection, sealed))

    def _part(self, new: NewEvents) -> Part:
        return part_of(new, PLAIN, root=new.root or new.stream)

    def copy_in(self, parts: Sequence[Part]) -> None:
        """
        Append events of another log, all or none, with the times that their parts give.

        Raises:
            ConcurrencyError: another process appends to this log, too.
        """
        (answer,) = self._committer.exclusively(lambda: self._append_locked([Request(parts)]))
        if isinstance(answer, ConcurrencyError):
            raise answer
        self._announce()

    def erase(self, remnants: Sequence[Remnant], new: Sequence[NewEvents]) -> list[Receipt]:
        request = Request(
            [self._part(one) for one in new],
            lambda connection: Eraser(self._compression, connection).erase(remnants),
        )
        (answer,) = self._committer.exclusively(lambda: self._append_locked([request]))
        receipts = self._receipts(new, answer)
        self._announce()
        return receipts

    def scrub(self) -> list[str]:
        self.forget()
        is_clean = self._committer.exclusively(self.database.scrub)
        return [] if is_clean else [f"the WAL of {self.database.where}, while a reader holds it"]

    def forget(self) -> None:
        self._reader.forget()
        self._marking_reader.forget()
        super().forget()

    def slice_of_stream(self, stream: str) -> int:
        """Return the slice that was stored when a stream was opened."""
        with self.database.reading() as connection:
            return int(first_value(connection, "SELECT slice FROM stream WHERE id = ?", stream))

    def retire(self, mark: str | None = None) -> str:
        """Refuse events from now on, from every process; return the mark that says so, by default a new one."""
        mark = mark or new_mark()
        self.write(lambda connection: connection.execute(RETIRE.format(mark)))
        return mark

    def reopen(self, mark: str | None = None) -> None:
        """Take away a mark of `retire`, by default all of them; without any, the log takes events again."""

        def reopening(connection: sqlite3.Connection) -> None:
            for one in [mark] if mark else [name for (name,) in connection.execute(MARKS).fetchall()]:
                connection.execute(REOPEN.format(one))

        self.write(reopening)

    # When the log went back

    def _require_acknowledged(self, connection: sqlite3.Connection) -> None:
        """Raise LogWentBackError if the log lacks the last event that was acknowledged to this process."""
        witness = self._acknowledged.witness(ONE_SEQUENCE)
        if witness is not None:
            self._require_known(connection, witness.stream, StreamEnd(witness.version, witness.digest))

    def _lost_with_file(self) -> list[Lost]:
        """Return the events that were acknowledged and are not in the file that is at the path now, if there is one."""
        try:
            with closing(self.database.connection_to_path()) as connection:
                return self._acknowledged.lost(self._present(connection))
        except sqlite3.Error:
            return self._acknowledged.lost(MissingDatabase())

    def _require_known(self, connection: sqlite3.Connection, stream: str, known: StreamEnd) -> None:
        """Raise LogWentBackError if the log lacks the known end of a stream."""
        if known.version < 1:
            return
        digest = stored_digest(connection, stream, known.version)
        if digest is not None and known.digest in (b"", digest):
            return
        # A key may belong to another stream now. `_present` clears the keys, too.
        self._names.clear()
        raise self._acknowledged.went_back(self.database.where, self._present(connection), stream, known)

    def _present(self, connection: sqlite3.Connection) -> CurrentFile:
        self._keys.clear()
        return CurrentFile(connection, lambda stream: self._head(connection, self._key_of(connection, stream)))

    # Reading

    def _read(self, read: Callable[..., list[T]], wanted: Range, known: StreamEnd | None) -> list[T]:
        is_empty = min(wanted.until, NO_LIMIT) <= max(wanted.after, 0)
        if is_empty and known is None:
            return []

        def found(wanted: Range, known: StreamEnd | None) -> list[T]:
            with self.database.reading() as connection:
                if known is not None:
                    self._require_known(connection, wanted.stream, known)
                key = None if is_empty else self._key_of(connection, wanted.stream)
                return [] if key is None else read(connection, key, wanted)

        return super()._read(found, wanted, known)

    def _reached(self, stream: str) -> int:
        return 0 if self.evidence is None else self.evidence.last_version(stream, ONE_SEQUENCE)

    def _read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        with self.database.reading() as connection:
            return self._reader.read_ranges(connection, lambda stream: self._key_of(connection, stream), ranges)

    def recorded_under(self, stream: str, key: str) -> list[RecordedEvent]:
        with self.database.reading() as connection:
            name = self._key_of(connection, stream)
            return [] if name is None else self._reader.read_under(connection, name, stream, key)

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = False) -> Page:
        start = min(require_kind(after, has_slices=False).head(ONE_SEQUENCE), NO_LIMIT)
        if until is not None:
            limit = min(limit, max(0, until.head(ONE_SEQUENCE) - start))
        reader = self._marking_reader if undecodable else self._reader
        known = {} if self.evidence is None else self.evidence.ends()
        with self.database.reading() as connection:
            self._require_acknowledged(connection)
            events = reader.read_between(
                connection, partial(self._name_of, connection), after=start, until=min(start + limit, NO_LIMIT)
            )
            end = start + len(events)
            if len(events) < limit:
                last = self._last(connection)
                # A hole as wide as the page must not look like the end.
                if last > end:
                    raise DamagedError(f"position {end + 1}", "there is no event at it")
                end = end if events else last
                if known:
                    require_ends({ONE_SEQUENCE: max(last, end)}, known)
        return Page(events, moment_of(end) if events or end < start else after)

    @property
    def location(self) -> str:
        return self.database.path

    def prepare_partitions(self) -> None:
        """Create an index, once for a file. Only reading in partitions looks up the streams of a block."""
        self.write(lambda connection: connection.execute(INDEX_OF_BLOCKS))

    def partition(self, partition: Partition) -> SqlitePartition:
        return SqlitePartition(partition, self)

    def read_partition(self, partition: Partition, after: int, until: int) -> list[RecordedEvent]:
        """Return the events of a partition after one position up to another."""
        with self.database.reading() as connection:
            names = partial(self._name_of, connection)
            return self._marking_reader.read_partition(connection, names, partition, after=after, until=until)

    def _last_version(self, stream: str) -> int:
        with self.database.reading() as connection:
            return self._head(connection, self._key_of(connection, stream))

    def _head(self, connection: sqlite3.Connection, key: int | None) -> int:
        version = first_value(connection, "SELECT max(version) FROM event WHERE stream = ?", key)
        version = version or first_value(connection, "SELECT max(last_version) FROM part WHERE stream = ?", key) or 0
        return whole(f"the last version of stream {key}", version)

    def end(self, stream: str) -> StreamEnd:
        reached = self._reached(stream)
        with self.database.reading() as connection:
            # Since a restore, the remembered key may belong to another stream, and contexts are opened here.
            self._keys.pop(stream, None)
            head = self._appender.stored_head(connection, stream)
            if reached:
                require_version(stream, head.version or 0, reached)
            if head.version is None:
                return StreamEnd(0, b"")
            self._remember(stream, head.key)
            self._appender.note_opened(stream, head, first_value(connection, END.format(p="")))
            return StreamEnd(head.version, head.digest)

    def _version_at(self, stream: str, moment: Moment | int) -> int:
        column: Column = "recorded_at" if isinstance(moment, int) else "position"
        bound = min(moment if isinstance(moment, int) else moment.head(ONE_SEQUENCE), NO_LIMIT)
        with self.database.reading() as connection:
            key = self._key_of(connection, stream)
            if key is None:
                return 0
            version, first_of_part = version_at(connection, (key, stream), self._head(connection, key), column, bound)
            if not first_of_part:
                return version
            events = self._reader.read_stream(connection, key, Range(stream, first_of_part - 1, version))
        place = attrgetter("recorded_at" if isinstance(moment, int) else "position.number")
        return first_of_part - 1 + bisect.bisect_right(events, bound, key=place)

    def now(self) -> Moment:
        with self.database.reading() as connection:
            last = self._last(connection)
        return moment_of(last)

    def _last(self, connection: sqlite3.Connection) -> int:
        return int(first_value(connection, "SELECT max(position) FROM event") or 0)

    def wait_for_news(self, seen: Moment, *, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while True:
            count = self.news.count
            remaining = deadline - time.monotonic()
            if self.now().head(ONE_SEQUENCE) > seen.head(ONE_SEQUENCE) or remaining <= 0:
                return
            self.news.wait_past(count, timeout_seconds=min(POLL_SECONDS, remaining))

    def close(self) -> None:
        ERASURE_WATCH.discard(self)
        self._snapshots.close()
        self._committer.close()
        if self._sealing.close():
            self._committer.exclusively(self.database.give_back_space)
        self.database.close()

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `work` returns, run in one transaction while this process commits no events."""
        return self._committer.exclusively(lambda: self.database.write(work))

    # Names and keys

    def _key_of(self, connection: sqlite3.Connection, stream: str) -> int | None:
        known = self._keys.get(stream)
        if known is not None:
            return known
        key = first_value(connection, KEY_OF_STREAM, stream)
        if key is None:
            return None
        self._remember(stream, key)
        return int(key)

    def _name_of(self, connection: sqlite3.Connection, key: int) -> str:
        known = self._names.get(key)
        if known is not None:
            return known
        name = first_value(connection, "SELECT id FROM stream WHERE key = ?", key)
        if name is None:
            raise DamagedError(f"stream {key}", "its row is missing, and events belong to it")
        self._remember(name, key)
        return str(name)

    def _remember(self, stream: str, key: int) -> None:
        if len(self._keys) >= STREAMS_MAX:
            # New dicts instead of `clear()`: another thread may be about to look something up.
            self._keys, self._names = {}, {}
        self._keys[stream], self._names[key] = key, stream


class SqlitePartition:
    """A partition of a log, which is read by windows of positions."""

    def __init__(self, partition: Partition, log: SqliteLog) -> None:
        self._partition, self._log = partition, log
        # How many positions are read at a time: about as many as give a page.
        self._window = 0

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = True) -> Page:
        """
        Return `limit` events after `after`, or a few more; fewer at the end of the log. Also return the moment they end
        at.
        """
        start, end = after.head(ONE_SEQUENCE), (until or self.now()).head(ONE_SEQUENCE)
        self._window = self._window or limit
        events: list[RecordedEvent] = []
        while len(events) < limit and start < end:
            last = min(start + self._window, end)
            found = self._log.read_partition(self._partition, start, last)
            events, start = events + found, last
            self._window = _next_window(self._window, len(found), limit)
        return Page(events, moment_of(start) if start else after)

    def now(self) -> Moment:
        return self._log.now()


def _next_window(window: int, found: int, limit: int) -> int:
    if 2 * found < limit:
        return min(2 * window, max(WINDOW_MAX, limit))
    return max(window // 2, 1) if found > limit else window
