"""The tests' pooler is as strict as the poolers that people put before PostgreSQL."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.errors import InvalidSqlStatementName

from tests.support.pooler import pooler


@pytest.fixture
def pooled_url(pg_url: str) -> Iterator[str]:
    """The URL of a fresh database behind a pooler with two connections."""
    with pooler(pg_url, size=2) as url:
        yield url


def backend_pid(connection: psycopg.Connection) -> int:
    """Ask the server for its process: the pooler invents the process that it names when a connection starts."""
    row = connection.execute("select pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def test_consecutive_transactions_reach_two_backends(pooled_url: str) -> None:
    """One client's transactions go to another server connection each time, their parts to the same."""
    with psycopg.connect(pooled_url, prepare_threshold=None) as connection:
        pids = []
        for _ in range(4):
            with connection.transaction():
                first, second = backend_pid(connection), backend_pid(connection)
            assert first == second
            pids.append(first)

    assert pids[0] != pids[1]
    assert pids[:2] == pids[2:]


def test_a_prepared_statement_is_lost_with_the_transaction(pooled_url: str) -> None:
    """A transaction does not find what an earlier one prepared, neither by SQL's PREPARE nor by psycopg."""
    with psycopg.connect(pooled_url, autocommit=True) as connection:
        connection.execute("prepare mine as select 1")
        with pytest.raises(InvalidSqlStatementName):
            connection.execute("execute mine")
    with psycopg.connect(pooled_url) as connection:
        connection.execute("select 2", prepare=True)
        connection.commit()
        with pytest.raises(InvalidSqlStatementName):
            connection.execute("select 2", prepare=True)


def test_without_prepared_statements_psycopg_works(pooled_url: str) -> None:
    """The same statement any number of times, where psycopg is told to prepare none."""
    with psycopg.connect(pooled_url, autocommit=True, prepare_threshold=None) as connection:
        answers = [connection.execute("select %s::int", (n,)).fetchone() for n in range(20)]

    assert answers == [(n,) for n in range(20)]


def test_a_pipeline_keeps_its_transaction_whole(pooled_url: str) -> None:
    """Statements sent ahead of their answers stay together until the transaction ends."""
    with psycopg.connect(pooled_url, prepare_threshold=None) as connection:
        with connection.transaction():
            connection.execute("create table t (pid int)")
        for _ in range(3):
            with connection.pipeline(), connection.transaction():
                for _ in range(5):
                    connection.execute("insert into t values (pg_backend_pid())")
        counts = connection.execute("select count(*) from t group by pid order by 1").fetchall()

    assert counts == [(5,), (10,)]


def test_copy_ends_its_transaction(pooled_url: str) -> None:
    """COPY's own messages pass, with parameters (extended protocol) and without."""
    with psycopg.connect(pooled_url, autocommit=True, prepare_threshold=None) as connection:
        connection.execute("create table t (n int)")
        for _ in range(2):
            with connection.cursor().copy("copy t from stdin") as rows:
                rows.write_row((1,))
        with connection.cursor().copy("copy (select n + %s from t) to stdout", (1,)) as rows:
            assert list(rows.rows()) == [("2",), ("2",)]
        pids = {backend_pid(connection) for _ in range(2)}

    assert len(pids) == 2


def test_an_abandoned_transaction_is_rolled_back(pooled_url: str) -> None:
    """A client that leaves within a transaction takes the server connection with it."""
    with psycopg.connect(pooled_url, autocommit=True) as other:
        other.execute("create table t (n int)")
        for n in range(4):
            connection = psycopg.connect(pooled_url)
            connection.execute("insert into t values (%s)", (n,))
            connection.close()

        assert other.execute("select count(*) from t").fetchone() == (0,)


def test_startup_settings_are_refused(pooled_url: str) -> None:
    """A setting that is sent when a connection starts could not follow its client to another connection."""
    with pytest.raises(psycopg.OperationalError, match="unsupported startup parameter: options"):
        psycopg.connect(pooled_url, options="-c search_path=elsewhere")
