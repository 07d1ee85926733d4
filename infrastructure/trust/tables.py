"""
The tables of a store with keys: its wrapped data keys, and the sealed pages of its projections (see `sealed_rows.py`).

They are made when a new store is opened with keys; a database without them has neither encrypted events nor keyed
digests. The row of the store's own key says which of the two its keys are for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ...domain.concurrency.locks import fork_safe_lock, synchronized
from ...domain.errors import DamagedError
from ..log.row_faults import KEY_DESTROYED, key_closed
from .keys import NONCE_BYTES

if TYPE_CHECKING:
    import sqlite3

    from ...domain.log.memory_log import MemoryLog
    from ..log.postgres.log import PostgresLog
    from ..log.sqlite.log import SqliteLog

MAKE = (
    "CREATE TABLE IF NOT EXISTS data_key (id {text} PRIMARY KEY, subject {text} NOT NULL, made_at {number} NOT NULL,"
    " master {text} NOT NULL, wrapped {bytes} NOT NULL)",
    "CREATE INDEX IF NOT EXISTS data_key_subject ON data_key (subject)",
    "CREATE TABLE IF NOT EXISTS sealed_page (number {number} PRIMARY KEY, body {bytes} NOT NULL)",
)
BOTH = ("data_key", "sealed_page")
# Placeholders are in the order of their numbers, each once: SQLite gets them without numbers.
COLUMNS = "id, subject, made_at, master, wrapped"
ADD_KEY = f"INSERT INTO data_key ({COLUMNS}) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING id"
KEY = f"SELECT {COLUMNS} FROM data_key WHERE id = $1"
NEWEST_KEY = f"SELECT {COLUMNS} FROM data_key WHERE subject = $1 ORDER BY made_at DESC, id DESC LIMIT 1"
KEYS_AFTER = f"SELECT {COLUMNS} FROM data_key WHERE id > $1 ORDER BY id LIMIT 1000"
WRAP_AGAIN = "UPDATE data_key SET master = $1, wrapped = $2 WHERE id = $3 AND wrapped = $4"
RETIRE = "UPDATE data_key SET subject = $1 WHERE subject = $2 AND id <> $3 RETURNING id"
DESTROY = "UPDATE data_key SET master = '', wrapped = $1 WHERE id = $2"
CLOSE = "UPDATE data_key SET subject = $1 WHERE subject = $2 AND id = $3"
# A process may be stopped for any time between the encryption of an event and its commit. So the transaction that
# records an event looks whether its key may still be used; SQLite does so itself. The bytes of an event have the id of
# its key at this place.
REFUSE_CLOSED = [
    f"DROP TRIGGER IF EXISTS {KEY_DESTROYED}",
    *(
        f"CREATE TRIGGER IF NOT EXISTS {KEY_DESTROYED}_{name} BEFORE {change} ON event WHEN EXISTS"
        " (SELECT 1 FROM data_key WHERE id = CAST(substr(NEW.payload, 18, 12) AS TEXT)"
        " AND (length(wrapped) = 0 OR subject LIKE 'closed:%'))"
        f" BEGIN SELECT RAISE(ABORT, '{KEY_DESTROYED}'); END"
        for name, change in (("insert", "INSERT"), ("update", "UPDATE OF payload"))
    ),
]
# An error if a key may be used no more; the cast is computed for such a row alone.
REQUIRE_OPEN = (
    f"SELECT ('{KEY_DESTROYED} ' || id)::int FROM data_key"
    " WHERE id = {key} AND (octet_length(wrapped) = 0 OR starts_with(subject, 'closed:'))"
)
PAGES = "SELECT number, body FROM sealed_page WHERE number > $1 ORDER BY number LIMIT 64"
# The newest page alone may be followed: of two processes that add one, the second gets no row.
ADD_PAGE = "INSERT INTO sealed_page (number, body) VALUES ($1, $2) ON CONFLICT DO NOTHING RETURNING number"
DROP_LATE_PAGE = f"""
DELETE FROM sealed_page WHERE number = $1 AND substr(body, 1, {NONCE_BYTES}) = $2
  AND EXISTS (SELECT 1 FROM sealed_page WHERE number > $3) RETURNING number
"""
DROP_PAGES = "DELETE FROM sealed_page WHERE number < $1"
# The id of the store's own key, and its subject where it also encrypts what belongs to no subject: rows of projections,
# names of moments.
STORE = "store"
# Its subject where nothing is encrypted, and only the key of the digests is derived from it.
CHAIN = "chain"
# Stands before the subject of keys that encrypt nothing any more: the subject was erased.
RETIRED = "retired:"
# The same of keys with which nothing is recorded any more, not even what was encrypted before: they are destroyed next.
CLOSED = "closed:"
KEY_TYPES = {"id": str, "subject": str, "made_at": int, "master": str, "wrapped": bytes}
Values = Sequence[Any]


class KeyRow(NamedTuple):
    """A data key as it is stored; `wrapped` is empty once it was destroyed. `made_at` is in microseconds since 1970."""

    id: str
    subject: str
    made_at: int
    master: str
    wrapped: bytes


def key_row(found: Sequence[Any]) -> KeyRow:
    """
    Return a stored row of a key; SQLite stores a value of any type in each column.

    Raises:
        DamagedError: a value has another type.
    """
    row = KeyRow(*found)
    if isinstance(row.wrapped, memoryview):
        row = row._replace(wrapped=bytes(row.wrapped))
    for value, (name, kind) in zip(row, KEY_TYPES.items(), strict=True):
        if type(value) is not kind:
            raise DamagedError(row_name(row.id), f"its {name} is {value!r}")
    return row


def row_name(key_id: object) -> str:
    """Return how errors name the row of a key."""
    return f"the row of the key {key_id!r} in data_key"


class Statement(NamedTuple):
    """A statement, and the values of its placeholders in order."""

    sql: str
    values: Values = ()


class Tables(Protocol):
    """The tables in one database."""

    def names(self) -> list[str]:
        """Return the names of the tables that exist: both once they were made, unless somebody dropped one."""

    def make(self) -> None:
        """Make them, if they do not exist."""

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a statement that changes nothing."""

    def change(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        """Run statements in one transaction, and return the rows of each."""

    def close(self, keys: Sequence[KeyRow]) -> None:
        """
        Close retired keys: when this returns, no event that is encrypted with one can be recorded any more.

        Raises:
            StorageBusyError: an append that has begun before takes too long.
        """


def keys_in(tables: Tables, faults: list[DamagedError] | None = None) -> Iterator[KeyRow]:
    """
    Yield the stored rows of all keys. With `faults`, which gets their errors, rows that cannot be read are left out.

    Raises:
        DamagedError: a row cannot be read, and there are no `faults`.
    """
    after: Any = ""
    while found := tables.ask(KEYS_AFTER, after):
        for row in found:
            try:
                yield key_row(row)
            except DamagedError as error:
                if faults is None:
                    raise
                faults.append(error)
        after = found[-1][0]


def subject_in(row: KeyRow) -> str:
    """Return the subject of a key, which may be retired or closed."""
    return row.subject.removeprefix(RETIRED).removeprefix(CLOSED)


def _closing(row: KeyRow) -> Statement:
    return Statement(CLOSE, (CLOSED + subject_in(row), row.subject, row.id))


def _unnumbered(sql: str) -> str:
    return re.sub(r"\$[0-9]+", "?", sql)


def _making(text: str, number: str, data: str) -> list[str]:
    return [statement.format(text=text, number=number, bytes=data) for statement in MAKE]


IN_SQLITE, IN_POSTGRES = _making("TEXT", "INTEGER", "BLOB"), _making('text COLLATE "C"', "bigint", "bytea")


class SqliteTables:
    """The tables in the file of a log."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log

    def names(self) -> list[str]:
        return [name for (name,) in self.ask("SELECT name FROM sqlite_schema WHERE name IN ($1, $2)", *BOTH)]

    def make(self) -> None:
        self._log.write(lambda connection: [connection.execute(sql) for sql in IN_SQLITE])

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._log.database.reading() as connection:
            return connection.execute(_unnumbered(sql), values).fetchall()

    def change(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        return self._log.write(lambda connection: _changed(connection, statements))

    def close(self, keys: Sequence[KeyRow]) -> None:
        # Every writer of an event takes the same lock.
        self.change(*map(Statement, REFUSE_CLOSED), *map(_closing, keys))


def _changed(connection: sqlite3.Connection, statements: Sequence[Statement]) -> list[list[tuple[Any, ...]]]:
    return [connection.execute(_unnumbered(sql), values).fetchall() for sql, values in statements]


class PostgresTables:
    """The tables in the database of a log; on a cluster every server has a copy of them."""

    def __init__(self, log: PostgresLog) -> None:
        self._log = log

    def names(self) -> list[str]:
        (found,) = self.ask("SELECT to_regclass($1)::text, to_regclass($2)::text", *BOTH)
        return [name for name, there in zip(BOTH, found, strict=True) if there is not None]

    def make(self) -> None:
        from ..log.postgres.schema import copied_everywhere, run_making
        from ..log.postgres.wire import BEGIN, COMMIT, Call

        copies = map(copied_everywhere, BOTH if self._log.is_distributed else ())
        calls = [*map(Call, IN_POSTGRES), *copies]
        self._log.database.transacting(lambda wire: run_making(wire, BEGIN, *calls, COMMIT))

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        from ..log.postgres.wire import Call

        return self._log.database.ask(Call(sql, [*map(_binary, values)]))[0]

    def change(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        from ..log.postgres.wire import BEGIN, COMMIT, Call

        calls = [Call(sql, [*map(_binary, values)]) for sql, values in statements]
        found = self._log.database.transacting(lambda wire: wire.run(BEGIN, *calls, COMMIT))
        return [*found[1:-1]]

    def close(self, keys: Sequence[KeyRow]) -> None:
        self.change(*map(_closing, keys))
        self._log.await_appends()


def _binary(value: Any) -> bytes:
    if isinstance(value, int):
        return value.to_bytes(8, "big", signed=True)
    return value.encode() if isinstance(value, str) else bytes(value)


class MemoryTables:
    """The tables of a store in memory, in a database of SQLite that is in memory, too."""

    def __init__(self, log: MemoryLog | None = None) -> None:
        self._log, self._closed = log, set[str]()
        # Most programs have no encrypted store in memory, and `refold --help` no store at all.
        import sqlite3

        self._lock = fork_safe_lock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)

    def names(self) -> list[str]:
        return [name for (name,) in self.ask("SELECT name FROM sqlite_schema WHERE name IN ($1, $2)", *BOTH)]

    def make(self) -> None:
        self.change(*map(Statement, IN_SQLITE))

    @synchronized
    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(_unnumbered(sql), values).fetchall()

    @synchronized
    def change(self, *statements: Statement) -> list[list[tuple[Any, ...]]]:
        with self._connection:
            self._connection.execute("BEGIN")
            return _changed(self._connection, statements)

    def close(self, keys: Sequence[KeyRow]) -> None:
        self.change(*map(_closing, keys))
        if self._log is not None:
            self._closed.update(row.id for row in keys)
            self._log.guard_by(self._require_open)

    def _require_open(self, events: Iterable[Any]) -> None:
        if any(getattr(event, "k", None) in self._closed for event in events):
            raise key_closed("the log in memory")
