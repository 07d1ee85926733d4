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

from ...domain.clock import REAL_SYSTEM
from ...domain.concurrency.locks import News, locked
from ...domain.concurrency.process_forks import pause_for_forks, renew_in_child
from ..compression import Compression
from ..group_commit import GroupCommitter, Ticket
from ..recording import no_dictionary
from ..records import Appended, Request
from ..sqlite_log.appending import Appender
from ..sqlite_log.database import SqliteDatabase
from ..turns import Turns


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
        self._turns = Turns(database.where, self._close, is_single=database.in_memory)
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
        with self._turns.at_work(writes=True):
            appender = self._appenders.get(prefix)
            if appender is None:
                appender = Appender(prefix, REAL_SYSTEM, self.compression)
                appender = self._appenders.setdefault(prefix, appender)
            return self._committer.submit(_Job(appender, request), wait=True).result()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Lend the writing connection for one transaction."""
        with self._turns.at_work(writes=True):
            with self._writing, self._database.writing() as connection:
                yield connection
            self.news.announce()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for one consistent view."""
        with self._turns.at_work(writes=False), self._database.reading() as connection:
            yield connection

    def close(self) -> None:
        """Take nothing more, wait for those at work, then close the connections; may be called twice."""
        self._turns.close()

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
            return locked(self._writing, lambda: self._append_warm(jobs) or self._append_carefully(jobs))
        except Exception:
            for appender in appenders:
                appender.forget()
            raise

    def _append_warm(self, jobs: Sequence[_Job]) -> Sequence[Appended] | None:
        """Append by what is remembered; None where there is more to do than that, or it is not enough."""
        appender = jobs[0].appender
        connection = self._database.warm_writer()
        if connection is None or any(job.appender is not appender or job.request.also for job in jobs):
            return None
        answers = locked(self._database.memory_lock, appender.append_warm, connection, [job.request for job in jobs])
        self._database.require_files()
        return answers

    def _append_carefully(self, jobs: Sequence[_Job]) -> Sequence[Appended | Exception]:
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
