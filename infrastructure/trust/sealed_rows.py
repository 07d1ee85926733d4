"""
Rows of projections in an encrypted store: in the memory of each process, and sealed in the database.

A database can order and search only what it can read. So rows are kept in memory, where every question is answered, and
each change of them is a page of the table `sealed_page`, encrypted with the key of the store. Every process applies the
pages of the others in their order. A change is based on the pages before it: of two processes that add the next one,
the second applies the first one's page and decides anew. Once the pages since the last whole one are as long as that,
a new page has all rows, and those before it are deleted.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag

from ...domain.concurrency.known_types import known
from ...domain.concurrency.locks import synchronized
from ...domain.erasure.events import STREAM as ERASURES
from ...domain.errors import DamagedError, LogWentBackError
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import LiveLog, StreamEnd, require_known
from ...domain.positions import Moment
from ...projections.contract import Projection
from ..log.compression import PLAIN_MARK, Compression, no_dictionary
from ..log.row_faults import NO_NOTE, REBUILD
from ..projecting.store import (
    Checkpoint,
    MemoryProjectionStore,
    Plan,
    ProjectionStore,
    Save,
    SetAside,
    Table,
    column_texts,
    duplicate_key_error,
    is_replaceable,
    rows_of,
)
from ..store_id import LINEAGE_ID
from ..store_id import NOTE as LINEAGE
from .key_ring import KeyRing
from .keys import NONCE_BYTES
from .tables import ADD_PAGE, DROP_LATE_PAGE, DROP_PAGES, PAGES, Statement, Tables

T = TypeVar("T")
# Few pages are not worth a whole one.
PAGES_MIN = 64
# Larger data could not be expanded again.
COMPRESSED_MAX = 64 << 20
# SQLite stores up to 1,000,000,000 bytes in a value.
PAGE_BYTES_MAX = 900 << 20
WHAT = "the sealed rows of projections"


class StoredRows(msgspec.Struct, array_like=True, frozen=True):
    """
    Rows of a version of a projection, in a page: all that it has, or those that changed.

    `columns` has the types of their fields by name; None in pages of earlier releases.
    """

    name: str
    version: int
    moment: str
    save: str
    rows: list[tuple[Any, ...]]
    aside: list[SetAside]
    columns: dict[str, str] | None = None


class Page(msgspec.Struct, array_like=True, frozen=True):
    """
    A change of rows: projections that are dropped or renamed, new rows, and notes that were saved with them. A page
    that `is_whole` replaces everything before it.
    """

    dropped: list[str] = []
    renamed: list[tuple[str, str]] = []
    rows: list[StoredRows] = []
    notes: dict[str, str | None] = {}
    is_whole: bool = False


_ENCODER, _DECODER = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(known(Page))
# Decides on the rows as they are; returns the page that changes them, None for no change, and the result of the call.
Decide = Callable[[], tuple[Page | None, T]]


class _Unread(Table):
    """A table whose rows are values, as pages have them; their class is known when a projection asks for them."""

    def __init__(self, version: int, columns: dict[str, str] | None) -> None:
        super().__init__(version, msgspec.Struct)
        self.columns = columns

    def read(self, row: type[msgspec.Struct]) -> Table:
        """Return the table with rows of a class."""
        table = Table(self.version, row)
        rows = rows_of(row, self.rows.values())
        table.update(dict(zip(self.rows, rows, strict=True)), self.checkpoint, self.aside)
        return table


class SealedProjectionStore(MemoryProjectionStore):
    """
    Rows in memory and in sealed pages; `notes` stores other notes, whose values are sealed, too.

    Raises:
        DamagedError: a page was changed, or one is missing.
    """

    def __init__(self, log: LiveLog, tables: Tables, ring: KeyRing, notes: ProjectionStore) -> None:
        super().__init__()
        self._log, self._pages, self._ring, self._noted = log, tables, ring, notes
        self._compression = Compression(no_dictionary())
        self._number = 0
        # The bytes of the last whole page, of the pages since, and how many those are.
        self._whole_bytes = self._bytes = self._count = 0

    # Pages

    def _catch_up(self) -> None:
        """Apply the pages that other processes added."""
        while found := self._pages.ask(PAGES, self._number):
            for number, body in found:
                page = self._opened(number, body)
                # Pages are only deleted behind a whole one, with which everybody goes on.
                if number != self._number + 1 and not page.is_whole:
                    raise DamagedError(WHAT, f"page {self._number + 1} is missing", remedy=REBUILD)
                self._apply(number, page, len(body))

    def _changed(self, decide: Decide[T]) -> T:
        """Carry out a change, and return its result; decide anew where another process came first."""
        while True:
            self._catch_up()
            page, result = decide()
            if page is None:
                return result
            number = self._number + 1
            body = self._sealed(number, page)
            if self._add(number, page, body):
                self._apply(number, page, len(body))
                self._put_together()
                return result

    def _add(self, number: int, page: Page, body: bytes) -> bool:
        """
        Add the next page, and delete those before it if it is a whole one.

        Return False where another process was faster, also if its page is deleted already.
        """
        # The number may be free again because a whole page follows, which the second statement sees.
        # The nonce tells the page from that of another process.
        late = Statement(DROP_LATE_PAGE, (number, body[:NONCE_BYTES], number))
        added, dropped = self._pages.change(Statement(ADD_PAGE, (number, body)), late)
        if not added or dropped:
            return False
        if page.is_whole:
            self._pages.change(Statement(DROP_PAGES, (number,)))
        return True

    def _put_together(self) -> None:
        """Write a whole page, if the pages since the last one are as long."""
        if self._count < PAGES_MIN or self._bytes < self._whole_bytes:
            return
        number, page = self._number + 1, Page(rows=[*self._stored()], notes=dict(self._notes), is_whole=True)
        body = self._sealed(number, page)
        if len(body) > PAGE_BYTES_MAX:
            self._count = 0
            return
        # Another process may be faster. Then it is left to do this, and its page needs those before it.
        if self._add(number, page, body):
            self._number, self._whole_bytes, self._bytes, self._count = number, len(body), 0, 0

    def _stored(self) -> Iterator[StoredRows]:
        for name, table in self._tables.items():
            table.finish()
            rows = [*table.rows.values()]
            values = rows if isinstance(table, _Unread) else [*map(msgspec.structs.astuple, rows)]
            columns = table.columns if isinstance(table, _Unread) else column_texts(table.row)
            yield _stored_rows(name, table.version, table.checkpoint, values, table.aside, columns)

    def _apply(self, number: int, page: Page, size: int) -> None:
        """Apply a page; after an interrupt it is applied once more, which is harmless."""
        if page.is_whole:
            self._tables, self._notes = {}, {}
            self._whole_bytes = self._bytes = self._count = 0
        for name in page.dropped:
            self._tables.pop(name, None)
        for before, after in page.renamed:
            if before in self._tables:
                self._tables[after] = self._tables.pop(before)
        for stored in page.rows:
            self._put(stored)
        for name, value in page.notes.items():
            if value is None:
                self._notes.pop(name, None)
            else:
                self._notes[name] = value
        self._number = number
        if page.is_whole:
            self._whole_bytes = size
        else:
            self._bytes, self._count = self._bytes + size, self._count + 1

    def _put(self, stored: StoredRows) -> None:
        table = self._tables.get(stored.name)
        if table is None or table.version != stored.version:
            table = self._tables[stored.name] = _Unread(stored.version, stored.columns)
        values = stored.rows if isinstance(table, _Unread) else rows_of(table.row, stored.rows)
        keys = (row[0] for row in stored.rows)
        table.aside = []
        table.update(dict(zip(keys, values, strict=True)), Checkpoint(Moment.parse(stored.moment), stored.save))
        table.aside = stored.aside

    def _sealed(self, number: int, page: Page) -> bytes:
        encoded = _ENCODER.encode(page)
        plain = self._compression.shrink(encoded) if len(encoded) <= COMPRESSED_MAX else PLAIN_MARK + encoded
        return self._ring.store.sealed(plain, _place_of(number))

    def _opened(self, number: int, body: Any) -> Page:
        # SQLite stores a value of any type in each column.
        if not isinstance(body, bytes | memoryview):
            raise DamagedError(WHAT, f"page {number} is {body!r}", remedy=REBUILD)
        body = bytes(body)
        try:
            plain = self._ring.store.opened(body, _place_of(number))
            return _DECODER.decode(self._compression.expand(plain, WHAT))
        except (InvalidTag, ValueError) as error:
            raise DamagedError(
                WHAT, f"page {number} does not open with the key of the store", remedy=REBUILD
            ) from error

    def _erased(self) -> str:
        # Rows are dropped by a page after the log has the erasure: a page that comes first is dropped as well.
        return str(self._log.head(ERASURES) or "")

    def _table(self, projection: Projection) -> Table:
        table = self._tables.get(projection.name)
        if isinstance(table, _Unread) and table.version == projection.version:
            self._tables[projection.name] = table.read(projection.row)
        return super()._table(projection)

    # Reading: as in memory, after the pages of other processes

    @synchronized
    def _look(self) -> None:
        self._catch_up()

    @synchronized
    def columns(self, projection: Projection) -> dict[str, str] | None:
        self._catch_up()
        table = self._tables.get(projection.name)
        if isinstance(table, _Unread) and table.version == projection.version:
            return table.columns
        return super().columns(projection)

    # Changing

    @synchronized
    def save(self, *saves: Save, seen: Sequence[RecordedEvent] = ()) -> list[Checkpoint | None]:
        def decide() -> tuple[Page | None, list[Checkpoint | None]]:
            if not self._has_all(seen):
                return None, [None] * len(saves)
            results: list[Checkpoint | None] = []
            rows: list[StoredRows] = []
            notes: dict[str, str | None] = {}
            for save in saves:
                table = self._table(save.projection)
                checkpoint = save.checkpoint() if table.checkpoint == save.before else None
                results.append(checkpoint)
                if checkpoint is not None:
                    values = [*map(msgspec.structs.astuple, save.rows.values())]
                    aside = [*table.aside, *save.aside]
                    name, columns = save.projection.name, column_texts(save.projection.row)
                    rows.append(_stored_rows(name, table.version, checkpoint, values, aside, columns))
                    notes.update(save.notes)
            return (Page(rows=rows, notes=notes) if rows else None), results

        return self._changed(decide)

    def _has_all(self, seen: Sequence[RecordedEvent]) -> bool:
        """Return whether the log still has some events, which an older copy of it may lack."""
        try:
            for one in seen:
                require_known(self._log, one.stream, StreamEnd(one.version, one.digest))
        except LogWentBackError:
            return False
        return True

    @synchronized
    def drop(self, projection: Projection) -> None:
        try:
            self._changed(lambda: (Page(dropped=[projection.name]), None))
        except DamagedError:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Replace all pages, one of which cannot be read, by a page without rows: rows are made again from events."""
        number, page = self._number, Page(is_whole=True)
        while found := self._pages.ask(PAGES, number):
            number = found[-1][0]
        body = self._sealed(number + 1, page)
        # Another process may be faster. Then it has begun anew, or finds the same damage and does so next.
        if self._add(number + 1, page, body):
            self._apply(number + 1, page, len(body))

    @synchronized
    def drop_others(self, *known: Projection) -> None:
        """Write what is left as one page; older pages, which still have dropped rows, are deleted."""
        kept = {(one.name, one.version) for one in known}

        def decide() -> tuple[Page, None]:
            rows = [one for one in self._stored() if (one.name, one.version) in kept]
            page = Page(rows=rows, notes=dict(self._notes), is_whole=True)
            # Rows that fit into no page are made anew when they are asked for.
            return (page if len(_ENCODER.encode(page)) <= PAGE_BYTES_MAX else Page(is_whole=True)), None

        self._changed(decide)

    @synchronized
    def replace(self, projection: Projection, shadow: Projection, *, before: Moment) -> bool:
        def decide() -> tuple[Page | None, bool]:
            live, built = (self._table(one).checkpoint.moment for one in (projection, shadow))
            if not is_replaceable(live, built, before):
                return None, False
            return Page(dropped=[projection.name], renamed=[(shadow.name, projection.name)]), True

        return self._changed(decide)

    @synchronized
    def gather(self, shadow: Projection, parts: Sequence[Projection], *, moment: Moment, plan: Plan) -> bool:
        name, value = plan

        def decide() -> tuple[Page | None, bool]:
            if self.note(name) != value:
                return None, False
            tables = [self._table(part) for part in parts]
            rows = {key: row for table in tables for key, row in table.rows.items()}
            if len(rows) < sum(len(table.rows) for table in tables):
                raise duplicate_key_error(shadow)
            aside = [one for table in tables for one in table.aside]
            values = [*map(msgspec.structs.astuple, rows.values())]
            columns = column_texts(shadow.row)
            stored = _stored_rows(shadow.name, shadow.version, Checkpoint(moment), values, aside, columns)
            return Page(dropped=[shadow.name, *(part.name for part in parts)], rows=[stored]), True

        return self._changed(decide)

    def note_erasure(self) -> None:
        """Do nothing: the log has noted it."""

    # Notes

    @synchronized
    def note(self, name: str) -> str | None:
        # A rebuild reads and writes its notes before it drops pages that cannot be read.
        with suppress(DamagedError):
            self._catch_up()
        return self._notes.get(name) or self._opened_note(name, self._noted.note(name))

    def notes(self, prefix: str) -> dict[str, str]:
        self._look()
        found = {name: self._opened_note(name, value) for name, value in self._noted.notes(prefix).items()}
        read = {name: value for name, value in found.items() if value is not None}
        return dict(sorted({**read, **super().notes(prefix)}.items()))

    def set_note(self, name: str, *, before: str | None, after: str | None) -> bool:
        stored = self._noted.note(name)
        if self._opened_note(name, stored) != before:
            return False
        sealed = None if after is None else self._sealed_note(name, after)
        return self._noted.set_note(name, before=stored, after=sealed)

    def _sealed_note(self, name: str, value: str) -> str:
        if name == LINEAGE:
            # Backups read and write it without a key.
            return value
        return base64.b64encode(self._ring.store.sealed(value.encode(), name.encode())).decode()

    def _opened_note(self, name: str, stored: str | None) -> str | None:
        if stored is None or (name == LINEAGE and LINEAGE_ID.fullmatch(stored)):
            return stored
        try:
            plain = self._ring.store.opened(base64.b64decode(stored, validate=True), name.encode())
        except (InvalidTag, ValueError) as error:
            reason = "it does not open with the key of the store"
            raise DamagedError(f"the note {name}", reason, remedy=NO_NOTE) from error
        return plain.decode()


def _stored_rows(
    name: str,
    version: int,
    checkpoint: Checkpoint,
    values: list[Any],
    aside: list[SetAside],
    columns: dict[str, str] | None,
) -> StoredRows:
    return StoredRows(name, version, str(checkpoint.moment), checkpoint.save, values, aside, columns)


def _place_of(number: int) -> bytes:
    return f"page {number}".encode()
