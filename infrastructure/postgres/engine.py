"""
One PostgreSQL database of foreign applications: who appends, who has transactions of his own, and how it ends.

Events go over one connection and are committed in groups, as in Refold's own log. Transactions for rows of the
users' own have connections from a pool, so they hold up no event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import psycopg
from psycopg.rows import DictRow
from psycopg_pool import ConnectionPool

from ...domain.clock import REAL_SYSTEM
from ...domain.concurrency.locks import News
from ...domain.errors import DamagedError, StorageError
from ..compression import Compression
from ..group_commit import GroupCommitter, Ticket
from ..postgres_log.appending import Appender
from ..postgres_log.database import PostgresDatabase
from ..postgres_log.wire import Call, Rows
from ..recording import no_dictionary
from ..records import Appended, Request
from ..turns import Turns

Pool = ConnectionPool[psycopg.Connection[DictRow]]


class _Job(NamedTuple):
    """A request, the appender of the application it is for, and that application's slice."""

    appender: Appender
    lane: int
    request: Request


JobTicket = Ticket[_Job, Appended]


class PostgresEngine:
    """The connections to one database and the queue of those who append to it."""

    def __init__(self, database: PostgresDatabase, pool: Pool) -> None:
        self.news = News()
        self.compression = Compression(no_dictionary)
        self._database = database
        self._pool = pool
        self._appenders: dict[str, Appender] = {}
        self._committer: GroupCommitter[_Job, Appended] = GroupCommitter(self._commit, self._commit_alone)
        self._turns = Turns(database.where, self._close, is_single=False)

    def append(self, prefix: str, lane: int, request: Request) -> Appended:
        """
        Append to the log whose tables have this prefix, all or nothing, and return where everything lies.

        Raises:
            ConcurrencyError: a version is taken or would leave a hole.
        """
        with self._turns.at_work(writes=True):
            appender = self._appenders.get(prefix)
            if appender is None:
                appender = Appender(self._database, prefix, REAL_SYSTEM, self.compression)
                appender = self._appenders.setdefault(prefix, appender)
            return self._committer.submit(_Job(appender, lane, request), wait=True).result()

    def ask(self, *calls: Call) -> list[Rows]:
        """Return the rows of each statement, carried out in one round trip."""
        with self._turns.at_work(writes=False):
            return self._database.ask(*calls)

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[psycopg.Connection[DictRow]]:
        """Lend a connection for one transaction."""
        with self._turns.at_work(writes=commit):
            self._pool.open()
            with self._pool.connection() as connection, connection.transaction(force_rollback=not commit):
                yield connection
            if commit:
                self.news.announce()

    def close(self) -> None:
        """Take nothing more, wait for those at work, then close the connections; may be called twice."""
        self._turns.close()

    def _close(self) -> None:
        self._committer.close()
        self._database.close()
        self._pool.close()

    def _commit_alone(self, job: _Job) -> Appended:
        answer = self._append([job])[0]
        self.news.announce()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _commit(self, group: list[JobTicket]) -> None:
        for run in _runs(group):
            answers = self._append([ticket.request for ticket in run])
            for ticket, answer in zip(run, answers, strict=True):
                if isinstance(answer, Exception):
                    ticket.future.set_exception(answer)
                else:
                    ticket.future.set_result(answer)
        self.news.announce()

    def _append(self, jobs: Sequence[_Job]) -> Sequence[Appended | Exception]:
        """Append in one transaction; what the server refuses for one job's sake is tried again one by one."""
        try:
            return jobs[0].appender.append({jobs[0].lane}, lambda: [job.request for job in jobs])
        except Exception as error:
            # Not so where the server is gone, busy or full.
            is_refusal = type(error) in (DamagedError, StorageError) and isinstance(error.__cause__, psycopg.Error)
            if len(jobs) == 1 or not (is_refusal or isinstance(error, psycopg.Error)):
                return [error for _ in jobs]
            return [self._append([job])[0] for job in jobs]


def _runs(group: Sequence[JobTicket]) -> Iterator[list[JobTicket]]:
    """Return those that follow each other and go together: of one application, with nothing beside events."""
    run: list[JobTicket] = []
    for ticket in group:
        together = [*run[-1:], ticket]
        is_alike = len({one.request.appender for one in together}) == 1
        if run and not (is_alike and not any(one.request.request.also for one in together)):
            yield run
            run = []
        run.append(ticket)
    yield run
