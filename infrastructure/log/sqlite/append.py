"""
Appending on SQLite: the cached append of small events, and the locked append of all others.

The cached append makes its rows before it uses the database, and inserts them only if the log still ends as remembered:
at the event with this digest. Rows of existing streams take one INSERT. New streams, which have their own table, and
many rows take a short transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from ....domain.clock import System
from ....domain.concurrency.locks import locked
from ....domain.errors import ConcurrencyError, LimitExceededError
from ....domain.ids import slice_of
from ....domain.log.admission import admitted
from ....domain.log.envelope import NO_DIGEST, UNKEYED, Chain, Event, RecordedEvent
from ....domain.log.ports import ANY_VERSION, NewEvents, Receipt
from ....domain.positions import ONE_SEQUENCE, Position
from ..codec import encode_meta, tag_of
from ..compression import Compression, mark_references
from ..evidence import SEGMENT
from ..large_texts import LARGE_TEXT_BYTES, LargeText, insert_references
from ..records import Appended, AssignedPlace, Draft, EarlierVersions, Head, Part, Request
from ..row_faults import digest_of_row, incomplete_insert_error, whole
from .connection import SqliteDatabase, in_transaction, translate

# Up to this many rows are inserted by one statement, which saves BEGIN, a SELECT and COMMIT.
ROWS_IN_ONE_MAX = 16
COLUMNS = ("position", "stream", "version", "recorded_at", "tag", "meta", "payload", "digest")
# A digest, not a position: a log that was restored from an older copy may have reached the same position again.
END = "SELECT digest FROM {p}event ORDER BY position DESC LIMIT 1"
# The n-th new stream has no key before it is inserted; until then its key in the rows is -n.
Row = tuple[int, int, int, int, int, bytes | None, bytes, bytes]
# The id and the slice of a stream.
NewStream = tuple[str, int]
HEADS_MAX = 10_000
# How many opened streams are remembered: an append usually follows soon.
OPENED_MAX = 256


def _add_behind(prefix: str, count: int) -> str:
    """
    Return the INSERT of `count` rows that fails if the log does not end at the digest in its second parameter.

    In that case the stream of the first row is NULL, which is refused, and no row is added.
    """
    rows = [["?"] * len(COLUMNS) for _ in range(count)]
    if rows:
        rows[0][1] = f"iif(({END.format(p=prefix)}) = ?, ?, NULL)"
    return f"INSERT INTO {prefix}event VALUES " + ", ".join(f"({', '.join(row)})" for row in rows)


Answer = Appended | ConcurrencyError


class _Statements(NamedTuple):
    end: str = END
    last: str = "SELECT position, recorded_at, digest FROM {p}event ORDER BY position DESC LIMIT 1"
    stream: str = "SELECT key FROM {p}stream WHERE id = ?"
    head: str = "SELECT version, digest FROM {p}event WHERE stream = ? ORDER BY version DESC LIMIT 1"
    sealed_head: str = (
        "SELECT last_version, substr(digests, 32 * (start + last_version - first_version) + 1, 32)"
        " FROM {p}part JOIN {p}block ON {p}block.key = {p}part.block"
        " WHERE stream = ? ORDER BY last_version DESC LIMIT 1"
    )
    add: str = f"INSERT INTO {{p}}event VALUES ({', '.join('?' * len(COLUMNS))})"
    add_stream: str = "INSERT INTO {p}stream (id, slice) VALUES (?, ?)"
    # Adds nothing if the log does not end at its first parameter, a digest: then the id is NULL, which is refused.
    add_stream_behind: str = f"INSERT INTO {{p}}stream (id, slice) VALUES (iif(({END}) = ?, ?, NULL), ?)"
    tag: str = "SELECT key FROM {p}tag WHERE name = ?"
    add_tag: str = "INSERT INTO {p}tag (name) VALUES (?)"
    blob: str = "SELECT key FROM {p}blob WHERE hash = ? AND key_id = ?"
    add_blob: str = "INSERT INTO {p}blob (hash, key_id, data) VALUES (?, ?, ?)"
    known_key: str = "SELECT first_version, last_version FROM {p}idempotency WHERE stream = ? AND key = ?"
    add_key: str = "INSERT INTO {p}idempotency VALUES (?, ?, ?, ?)"


# The end of the log: its last position, the time and the digest of the event there.
Last = tuple[int, int, bytes]
EMPTY: Last = (0, 0, NO_DIGEST)
# Takes an event and its stream; returns its tag, the bytes that its digest covers, and their stored form.
Encode = Callable[[Any, str], tuple[str, bytes, bytes]]
# Takes the rows of a batch that completes a segment, stores some of them as blocks, and returns the others.
Pack = Callable[[sqlite3.Connection, Sequence[Row]], Sequence[Row]]


def encoded(event: Event, stream: str) -> tuple[str, bytes, bytes]:
    """Return a small event of Refold's own for the cached append: not compressed, because blocks compress it later."""
    payload = admitted(event, stream)
    return tag_of(event), payload, b"\x00" + payload


class _Work:
    """The plan of a group so far: rows to insert, and the ends of the log and of its streams."""

    def __init__(self, last: Last, now: int) -> None:
        self.rows: list[Row] = []
        self.number = last[0]
        self.recorded_at = max(now, last[1])
        self.digest = last[2]
        self.heads: dict[str, Head] = {}


class Appender:
    """
    Appends to one log; not thread safe: its owner makes sure that one thread at a time uses it.

    The cached append uses `encode` to encode an event of a stream. Without `pack`, all events become rows.
    """

    def __init__(
        self,
        database: SqliteDatabase,
        prefix: str,
        system: System,
        compression: Compression,
        encode: Encode = encoded,
        chain: Chain = UNKEYED,
        pack: Pack | None = None,
    ) -> None:
        self._chain, self._pack = chain, pack
        self._database = database
        self._system = system
        self._compression = compression
        self._encode = encode
        self._sql = _Statements(*[statement.format(p=prefix) for statement in _Statements()])
        self._add_behind = [_add_behind(prefix, count) for count in range(ROWS_IN_ONE_MAX + 1)]
        self._last: Last | None = None
        # The end of the log after this process's last append, and its position before the first one. If others write
        # too, the cached append would mostly be wasted.
        self._left_at, self.began_at = NO_DIGEST, 0
        self._is_alone = True
        self._heads: dict[str, Head] = {}
        self._tags: dict[str, int] = {}
        # The ends of streams that were opened: each with the digest at the end of the log at that moment.
        self._opened: dict[str, tuple[Head, bytes]] = {}
        # True from the beginning of a transaction until it is known to be committed.
        self._is_at_stake = False

    @property
    def position(self) -> int:
        """The number of the last event; 0 if it is not remembered."""
        return self._last[0] if self._last else 0

    def append_cached(self, batch: Sequence[NewEvents]) -> list[Receipt] | None:
        """
        Append small events to streams that are new or whose ends are remembered; None if that does not suffice.

        It makes the rows that the locked append would make, in few steps: after each wait for the disk the processor's
        caches hold other data, so a step costs several times as much as in a loop. An append of 50 us of processor time
        saves 20 us.
        """
        connection = self._database.warm_writer()
        if connection is None:
            return None
        try:
            receipts = locked(self._database.memory_lock, self._append_behind, connection, batch)
        except sqlite3.Error as error:
            self._forget()
            raise translate(error, self._database.where) from error
        if receipts is not None:
            self._database.require_files()
        return receipts

    def _append_behind(self, connection: sqlite3.Connection, batch: Sequence[NewEvents]) -> list[Receipt] | None:
        """Append after the remembered end of the log, if it still ends there."""
        last = self._last
        if last is None or not self._is_alone or not batch or self._is_at_stake:
            return None
        number, recorded_at = last[0], max(self._now(), last[1])
        heads: dict[str, Head] = {}
        opened: list[NewStream] = []
        rows: list[Row] = []
        receipts: list[Receipt] = []
        try:
            for new in batch:
                head = heads.get(new.stream) or self._heads.get(new.stream) or self._opened_head(new.stream, last)
                if head is None or not head.key:
                    head = _beginning(new, opened)
                if head is None or head.version is None or new.idempotency_key is not None:
                    return None
                if new.expected_version not in (head.version, ANY_VERSION):
                    return None
                if new.expected_digest and new.expected_digest != head.digest:
                    return None
                recorded = self._recorded(new, head, (number, recorded_at), rows)
                if not recorded:
                    return None
                number = rows[-1][0]
                heads[new.stream] = Head(head.key, rows[-1][2], rows[-1][7])
                receipts.append(Receipt(tuple(recorded)))
        except (ValueError, TypeError, OverflowError, LimitExceededError):
            # The locked append refuses an event that cannot be encoded, with an error that names it.
            return None
        if not self._insert_behind(connection, last[2], rows, opened, heads):
            self._is_alone = False
            return None
        self._remember((number, recorded_at, rows[-1][7]), heads)
        return receipts

    def note_opened(self, stream: str, head: Head, log_end: bytes) -> None:
        """Note the end of a stream, for an append before the log goes on. Any thread may call this."""
        if len(self._opened) >= OPENED_MAX:
            self._opened = {}
        self._opened[stream] = head, log_end

    def _opened_head(self, stream: str, last: Last) -> Head | None:
        head, log_end = self._opened.get(stream, (None, b""))
        return head if log_end == last[2] else None

    def _insert_behind(
        self,
        connection: sqlite3.Connection,
        last: bytes,
        rows: list[Row],
        opened: list[NewStream],
        heads: dict[str, Head],
    ) -> bool:
        """Insert rows, with their new streams, if the log still ends at `last`; return whether it does."""

        def insert(connection: sqlite3.Connection) -> bool:
            if not opened and connection.execute(self._sql.end).fetchone() != (last,):
                return False
            keys = [self._add_stream(connection, self._sql.add_stream_behind, (last, *stream)) for stream in opened]
            for (stream, _), key in zip(opened, keys, strict=True):
                heads[stream] = heads[stream]._replace(key=key)
            self._add(connection, [(row[0], keys[-row[1] - 1], *row[2:]) if row[1] < 0 else row for row in rows])
            return True

        try:
            if opened or len(rows) > ROWS_IN_ONE_MAX:
                return in_transaction(connection, insert)
            values = rows[0] if len(rows) == 1 else tuple(chain.from_iterable(rows))
            # One statement is its own transaction: all of its rows, or none.
            done = connection.execute(self._add_behind[len(rows)], (values[0], last, *values[1:]))
            _require_taken(done, len(rows))
        except sqlite3.IntegrityError:
            return False
        return True

    def _add(self, connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
        if self._pack is not None and len(rows) > SEGMENT:
            rows = self._pack(connection, rows)
        add = self._sql.add
        done = connection.execute(add, rows[0]) if len(rows) == 1 else connection.executemany(add, rows)
        _require_taken(done, len(rows))

    def _add_stream(self, connection: sqlite3.Connection, statement: str, values: Sequence[object]) -> int:
        """Insert a stream, and return its key."""
        return int(connection.execute(statement, values).lastrowid or 0)

    def _recorded(
        self, new: NewEvents, head: Head, place: tuple[int, int], rows: list[Row]
    ) -> list[RecordedEvent] | None:
        """Add a row for each event and return the recorded events; None if one is not small or its tag is new."""
        stream, tags, encode, (number, recorded_at) = new.stream, self._tags, self._encode, place
        key, version, digest = head.key, head.version or 0, head.digest
        recorded: list[RecordedEvent] = []
        for event, meta in zip(new.events, new.metas, strict=True):
            name, payload, stored = encode(event, stream)
            tag = tags.get(name)
            if tag is None or len(payload) >= LARGE_TEXT_BYTES:
                return None
            number += 1
            version += 1
            position = Position(ONE_SEQUENCE, number)
            digest = self._chain.digest(digest, stream, version, position, recorded_at, meta, payload)
            rows.append((number, key, version, recorded_at, tag, encode_meta(meta), stored, digest))
            recorded.append(RecordedEvent(stream, version, position, recorded_at, event, meta, digest))
        return recorded

    def append_locked(
        self, requests: Sequence[Request], look: Callable[[sqlite3.Connection], object] | None = None
    ) -> list[Answer]:
        """
        Append requests in one transaction that holds the write lock; a refused request writes nothing.

        `look` is called first if the log does not end where this process left it. A request with `also` must come
        alone, because a failure of `also` ends the transaction.
        """

        def append(connection: sqlite3.Connection) -> list[Answer]:
            self._begin(connection)
            if look is not None and not self._is_alone:
                look(connection)
            return [self._appended_or_refused(connection, request) for request in requests]

        answers = self._database.write(append)
        # The transaction is committed, so what was read in it is true.
        self._is_at_stake = False
        return answers

    def _appended_or_refused(self, connection: sqlite3.Connection, request: Request) -> Answer:
        try:
            answer = self._append(connection, request)
        except ConcurrencyError as error:
            return error
        if request.also is not None:
            request.also(connection)
        return answer

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Begin the locked append, in a transaction that holds the write lock: read the end of the log again."""
        if self._is_at_stake:
            # The last transaction was rolled back.
            self._forget()
        number, recorded_at, digest = connection.execute(self._sql.last).fetchone() or EMPTY
        what = f"the last position of the log, {number}"
        # The next events are counted on from these values: a wrong one would go into every later event.
        self._last = whole(what, number), whole(f"the time of event {number}", recorded_at), digest_of_row(what, digest)
        # Before its first append, this process knows of no other writer.
        self._is_alone = self._left_at in (NO_DIGEST, self._last[2])
        self.began_at = number if self._left_at == NO_DIGEST else self.began_at
        # Refused and repeated requests look streams up, too.
        if self._left_at != self._last[2] or len(self._heads) > HEADS_MAX:
            # Another writer may have moved the ends of streams, or this is an older copy of the log, without some tags.
            self._heads.clear()
            self._tags.clear()
        self._is_at_stake = True

    def _forget(self) -> None:
        """Forget everything: the transaction was rolled back, or others wrote."""
        self._last = None
        self._heads.clear()
        self._tags.clear()

    def _append(self, connection: sqlite3.Connection, request: Request) -> Appended:
        """
        Write the parts of a request and return the place of each draft.

        A part whose idempotency key is known gives `EarlierVersions`. Then nothing of the request is written, and the
        parts without a known key give None.

        Raises:
            ConcurrencyError: a stream has another head than expected; nothing was written.
        """
        repeated = [self._versions_under(connection, part) for part in request.parts]
        if any(repeated):
            return list(repeated)
        self._check(connection, request.parts)
        work = _Work(self._last or EMPTY, self._now())
        answer: Appended = []
        for part in request.parts:
            self._make_ready(connection, part, work)
            answer.append(self._place(connection, part, work))
        self._add(connection, work.rows)
        self._remember((work.number, work.recorded_at, work.digest), work.heads)
        return answer

    def _now(self) -> int:
        return int(self._system.now() * 1_000_000)

    def _remember(self, last: Last, heads: dict[str, Head]) -> None:
        self._last, self._left_at = last, last[2]
        if len(self._heads) > HEADS_MAX:
            self._heads.clear()
        self._heads.update(heads)

    def _versions_under(self, connection: sqlite3.Connection, part: Part) -> EarlierVersions | None:
        if part.idempotency_key is None:
            return None
        key = self._head(connection, part.stream).key
        found = connection.execute(self._sql.known_key, (key, part.idempotency_key)).fetchone()
        what = f"the idempotency key {part.idempotency_key!r} of {part.stream}"
        return EarlierVersions(*[whole(what, version) for version in found]) if found else None

    def _check(self, connection: sqlite3.Connection, parts: Sequence[Part]) -> None:
        """Refuse before anything is written; a stream may come up several times in the request."""
        ends: dict[str, int | None] = {}
        for part in parts:
            if part.stream not in ends:
                head = self._head(connection, part.stream)
                if part.expected_digest not in (b"", head.digest) and part.first_version == (head.version or 0) + 1:
                    raise ConcurrencyError(part.stream, expected=part.first_version - 1, actual=head.version or 0)
                ends[part.stream] = head.version
            end = ends[part.stream]
            if not part.fits(end):
                raise ConcurrencyError(part.stream, expected=part.first_version - 1, actual=end or 0)
            ends[part.stream] = part.first_after(end) + len(part.drafts) - 1

    def _make_ready(self, connection: sqlite3.Connection, part: Part, work: _Work) -> None:
        """Insert the rows of the stream, its tags and its idempotency key."""
        head = work.heads.get(part.stream) or self._head(connection, part.stream)
        if not head.key and part.drafts:
            lane = slice_of(part.root) if part.root else part.slice
            head = head._replace(key=self._add_stream(connection, self._sql.add_stream, (part.stream, lane)))
        work.heads[part.stream] = head
        for tag in dict.fromkeys(draft.tag for draft in part.drafts):
            self._add_tag(connection, tag)
        if part.idempotency_key is not None and part.drafts:
            first = part.first_after(head.version)
            span = (first, first + len(part.drafts) - 1)
            connection.execute(self._sql.add_key, (head.key, part.idempotency_key, *span))

    def _place(self, connection: sqlite3.Connection, part: Part, work: _Work) -> list[AssignedPlace]:
        """Make the rows of a part."""
        head = work.heads[part.stream]
        version = part.first_after(head.version)
        number, digest, placed = work.number, head.digest, []
        recorded_at = work.recorded_at = max(work.recorded_at, part.recorded_at)
        for draft in part.drafts:
            number += 1
            position = Position(ONE_SEQUENCE, number)
            meta, payload = draft.meta, draft.payload
            digest = draft.digest or self._chain.digest(
                digest, part.stream, version, position, recorded_at, meta, payload
            )
            stored = self._refer(connection, draft) if draft.texts else draft.stored
            tag = self._tags[draft.tag]
            work.rows.append((number, head.key, version, recorded_at, tag, encode_meta(meta), stored, digest))
            placed.append(AssignedPlace(version, ONE_SEQUENCE, number, recorded_at, digest))
            version += 1
        if placed:
            work.number, work.digest = number, digest
            work.heads[part.stream] = Head(head.key, version - 1, digest)
        return placed

    def _head(self, connection: sqlite3.Connection, stream: str) -> Head:
        head = self._heads.get(stream)
        if head is None:
            head = self._heads[stream] = self.stored_head(connection, stream)
        return head

    def stored_head(self, connection: sqlite3.Connection, stream: str) -> Head:
        """Return the end of a stream as it is stored; its key is 0 if there is no such stream."""
        found = connection.execute(self._sql.stream, (stream,)).fetchone()
        last = found and (
            connection.execute(self._sql.head, found).fetchone()
            or connection.execute(self._sql.sealed_head, found).fetchone()
        )
        if not last:
            return Head(found[0] if found else 0, None, NO_DIGEST)
        version = whole(f"the last version of {stream}", last[0])
        return Head(found[0], version, digest_of_row(f"event {stream}@{version}", last[1]))

    def _add_tag(self, connection: sqlite3.Connection, name: str) -> None:
        if name not in self._tags:
            found = connection.execute(self._sql.tag, (name,)).fetchone()
            key = found[0] if found else connection.execute(self._sql.add_tag, (name,)).lastrowid
            self._tags[name] = int(key or 0)

    def _refer(self, connection: sqlite3.Connection, draft: Draft) -> bytes:
        keys = [self._blob(connection, text, draft.meta.key_id or "") for text in draft.texts]
        return mark_references(self._compression.shrink(insert_references(draft.plain, keys)))

    def _blob(self, connection: sqlite3.Connection, text: LargeText, key_id: str) -> int:
        found = connection.execute(self._sql.blob, (text.digest, key_id)).fetchone()
        if found:
            return whole("the key of a large text", found[0])
        data = self._compression.shrink_block(text.data)
        return int(connection.execute(self._sql.add_blob, (text.digest, key_id, data)).lastrowid or 0)


def _require_taken(done: sqlite3.Cursor, count: int) -> None:
    """
    Require that an INSERT has written as many rows as it had.

    Raises:
        DamagedError: it has not, as with a trigger of another program.
    """
    if count and done.rowcount != count:
        raise incomplete_insert_error("event", done.rowcount, count)


def _beginning(new: NewEvents, opened: list[NewStream]) -> Head | None:
    """
    Return the end of a stream that is to be new, and add it to `opened`; None if it may already exist.

    It gets its key when it is inserted. Until then its key is its place in `opened`, as a negative number.
    """
    if new.expected_version != 0:
        return None
    opened.append((new.stream, slice_of(new.root or new.stream)))
    return Head(-len(opened), 0, NO_DIGEST)
