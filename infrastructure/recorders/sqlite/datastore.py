"""
One SQLite database of foreign applications: who writes, in which order, and how it is let go of.

Requests are committed in groups, as in Refold's own log; one that fails is undone alone. Whoever wants to
write rows of his own in a transaction takes turns with them.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from eventsourcing.persistence import InterfaceError

from ....domain.clock import REAL_SYSTEM
from ....domain.concurrency.locks import News, locked, pause_for_forks, renew_in_child, synchronized
from ...log.compression import Compression
from ...log.group_commit import GroupCommitter, Ticket
from ...log.records import Appended, Request
from ...log.sqlite.append import Appender
from ...log.sqlite.connection import BUSY_TIMEOUT_SECONDS, SqliteDatabase
from ..closing_guard import ClosingGuard
from ..stored_events import IdType, Stored, no_dictionary, opened_state, translated_for_eventsourcing


class _Job(NamedTuple):
    """A request, and the appender of the application it is for."""

    appender: Appender
    request: Request


class SqliteEngine:
    """The connections to one database and the queue of those who write to it."""

    def __init__(self, database: SqliteDatabase) -> None:
        self.news = News()
        self.compression = Compression(no_dictionary)
        self._database = database
        self._appenders: dict[str, Appender] = {}
        self._committer: GroupCommitter[_Job, Appended] = GroupCommitter(self._commit, self._commit_alone)
        self._is_paused = False
        self._after_fork()
        self._guard = ClosingGuard(database.where, self._close, is_single=database.in_memory)
        pause_for_forks(self)
        renew_in_child(self)

    def _before_fork(self, seconds: float) -> None:
        self._is_paused = self._writing.acquire(timeout=seconds)
        if self._is_paused:
            self._database.leave(seconds)

    def _fork_is_over(self) -> None:
        self._database.come_back()
        if self._is_paused:
            self._is_paused = False
            self._writing.release()

    def _after_fork(self) -> None:
        self._writing = threading.Lock()

    def append(self, prefix: str, request: Request) -> Appended:
        """
        Append to the log whose tables have this prefix, all or nothing, and return where everything lies.

        Raises:
            ConcurrencyError: a version is taken or would leave a hole.
        """
        with self._guard.at_work(writes=True):
            appender = self._appenders.get(prefix)
            if appender is None:
                appender = Appender(prefix, REAL_SYSTEM, self.compression)
                appender = self._appenders.setdefault(prefix, appender)
            return self._committer.submit(_Job(appender, request), wait=True).result()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Lend the writing connection for one transaction."""
        with self._guard.at_work(writes=True):
            with self._writing, self._database.writing() as connection:
                yield connection
            self.news.announce()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for one consistent view."""
        with self._guard.at_work(writes=False), self._database.reading() as connection:
            yield connection

    def close(self) -> None:
        """Take nothing more, wait for those at work, then close the connections; may be called twice."""
        self._guard.close()

    def _close(self) -> None:
        self._committer.close()
        locked(self._writing, locked, self._database.memory_lock, self._database.close)

    def _commit_alone(self, job: _Job) -> Appended:
        answer = self._answers([job])[0]
        self.news.announce()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _commit(self, group: list[Ticket[_Job, Appended]]) -> None:
        answers = self._answers([ticket.request for ticket in group])
        for ticket, answer in zip(group, answers, strict=True):
            if isinstance(answer, Exception):
                ticket.future.set_exception(answer)
            else:
                ticket.future.set_result(answer)
        self.news.announce()

    def _answers(self, jobs: Sequence[_Job]) -> Sequence[Appended | Exception]:
        appenders = {job.appender for job in jobs}
        try:
            return locked(self._writing, lambda: self._append_cached(jobs) or self._append_locked(jobs))
        except Exception:
            for appender in appenders:
                appender.forget()
            raise

    def _append_cached(self, jobs: Sequence[_Job]) -> Sequence[Appended] | None:
        """Append by what is remembered; None where there is more to do than that, or it is not enough."""
        appender = jobs[0].appender
        connection = self._database.warm_writer()
        if connection is None or any(job.appender is not appender or job.request.also for job in jobs):
            return None
        answers = locked(
            self._database.memory_lock, appender.append_batch_cached, connection, [job.request for job in jobs]
        )
        self._database.require_files()
        return answers

    def _append_locked(self, jobs: Sequence[_Job]) -> Sequence[Appended | Exception]:
        run = _run if len(jobs) == 1 else _run_apart
        appenders = {job.appender for job in jobs}

        def append(connection: sqlite3.Connection) -> list[Appended | Exception]:
            for appender in appenders:
                appender.begin(connection)
            return [run(connection, job) for job in jobs]

        answers = self._database.write(append)
        for appender in appenders:
            appender.confirm()
        return answers


def _run(connection: sqlite3.Connection, job: _Job) -> Appended | Exception:
    answer = job.appender.append(connection, job.request)
    if job.request.also is not None:
        job.request.also(connection)
    return answer


def _run_apart(connection: sqlite3.Connection, job: _Job) -> Appended | Exception:
    """Run one job of several: where it fails, what it did is undone, and the others go on."""
    connection.execute("SAVEPOINT job")
    try:
        answer = _run(connection, job)
    except Exception as error:
        # Some failures, like a full disk, take the whole transaction with them.
        if not connection.in_transaction:
            raise
        connection.execute("ROLLBACK TO job")
        answer = error
        # What it had added, tags too, is gone with it.
        job.appender.forget()
        job.appender.begin(connection)
    connection.execute("RELEASE job")
    return answer


FILE_MODES = ("ro", "rw", "rwc")


class SqliteDatastore:
    """
    A database for recorders; `db_name` is a path, a `file:` URI, or names a database in memory.

    Raises:
        InterfaceError: it cannot be opened.
    """

    def __init__(self, db_name: str, *, lock_timeout: int | None = None, originator_id_type: IdType = "uuid") -> None:
        self.originator_id_type = originator_id_type
        self._engine: SqliteEngine | None = None
        with translated_for_eventsourcing(sqlite3.Error):
            self._engine = _ENGINES.engine_of(db_name, lock_timeout or BUSY_TIMEOUT_SECONDS)
        # Subscriptions must be able to stop when the database is closed already.
        self.news: News = self._engine.news
        self._compression = self._engine.compression

    def append(self, prefix: str, request: Request) -> Appended:
        """
        Append to the log whose tables have this prefix, all or nothing.

        Raises:
            IntegrityError: a version is taken or would leave a hole, or `also` refused; nothing was written.
        """
        with translated_for_eventsourcing(sqlite3.Error):
            return self._open_engine().append(prefix, request)

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[sqlite3.Cursor]:
        """
        Lend a cursor for one transaction, whose rows can be read by column name.

        With `commit` it may write, alone, and is committed at the end, or rolled back on any error; without,
        it sees one moment of the database.
        """
        engine = self._open_engine()
        lent = engine.writing() if commit else engine.reading()
        with translated_for_eventsourcing(sqlite3.Error), lent as connection:
            cursor = connection.cursor()
            cursor.row_factory = sqlite3.Row
            yield cursor

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for one consistent view."""
        with translated_for_eventsourcing(sqlite3.Error), self._open_engine().reading() as connection:
            yield connection

    def shrink(self, state: bytes) -> bytes:
        return self._compression.shrink(state)

    def opened(self, rows: Sequence[Stored]) -> list[bytes]:
        """
        Return the states in rows, checked against their digests.

        Raises:
            DataError: one is damaged.
        """
        with translated_for_eventsourcing(sqlite3.Error):
            return [opened_state(row, self._compression.expand) for row in rows]

    def close(self) -> None:
        """Let go of the database, once nobody uses it; may be called twice."""
        engine, self._engine = self._engine, None
        if engine is not None:
            _ENGINES.release(engine)

    def __del__(self) -> None:
        self.close()

    def _open_engine(self) -> SqliteEngine:
        engine = self._engine
        if engine is None:
            raise InterfaceError("the datastore is closed: construct another")
        return engine


class _Engines:
    """Opens engines, and knows those of shared memory databases with the number of their users."""

    def __init__(self) -> None:
        self._shared: dict[str, SqliteEngine] = {}
        self._users: dict[SqliteEngine, int] = {}
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        # A finaliser may close a datastore while this thread opens one.
        self._lock = threading.RLock()

    def engine_of(self, db_name: str, timeout: float) -> SqliteEngine:
        if not _is_in_memory(db_name):
            return SqliteEngine(_opened_file(db_name, timeout))
        if "cache=shared" not in db_name:
            return SqliteEngine(SqliteDatabase(":memory:", busy_timeout_seconds=timeout))
        name = unquote(urlsplit(db_name).path)
        uri = db_name if "mode=memory" in db_name else f"{db_name}&mode=memory"
        return self._shared_engine(name, uri, timeout)

    @synchronized
    def _shared_engine(self, name: str, uri: str, timeout: float) -> SqliteEngine:
        if name not in self._shared:
            self._shared[name] = SqliteEngine(SqliteDatabase(uri, busy_timeout_seconds=timeout))
        engine = self._shared[name]
        self._users[engine] = self._users.get(engine, 0) + 1
        return engine

    def release(self, engine: SqliteEngine) -> None:
        if not self._is_used_after(engine):
            engine.close()

    @synchronized
    def _is_used_after(self, engine: SqliteEngine) -> bool:
        """Count one user less; return whether there is another."""
        users = self._users.pop(engine, 1) - 1
        if users:
            self._users[engine] = users
            return True
        for name in [name for name, shared in self._shared.items() if shared is engine]:
            del self._shared[name]
        return False


_ENGINES = _Engines()


def _is_in_memory(db_name: str) -> bool:
    return ":memory:" in db_name or "mode=memory" in db_name


def _opened_file(db_name: str, timeout: float) -> SqliteDatabase:
    if not db_name.startswith("file:"):
        return SqliteDatabase(db_name, busy_timeout_seconds=timeout)
    uri = urlsplit(db_name)
    options = dict(parse_qsl(uri.query))
    # WAL needs no shared cache; a connection of ours has one of its own.
    options.pop("cache", None)
    mode = options.pop("mode", "rwc")
    if options or mode not in FILE_MODES:
        raise InterfaceError(f"{db_name}: of the options of a file only mode=ro, rw or rwc can be used")
    return SqliteDatabase(unquote(uri.path), create=mode == "rwc", read_only=mode == "ro", busy_timeout_seconds=timeout)
