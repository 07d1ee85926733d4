"""Behind a pooler in transaction mode every transaction may be another server process's."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import refold
from refold.domain.errors import InvalidInputError, StorageUnavailableError
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.postgres.wire import BEGIN, Call
from tests.contract.writing import append, at_once, check_chain, check_order, everything, new, said
from tests.support.pooler import pooler

from .conftest import OpenLog

PREPARED = Call("SELECT count(*) FROM pg_prepared_statements")


@pytest.fixture
def pooled(pg_url: str, open_log: OpenLog) -> Iterator[PostgresLog]:
    """A log behind a pooler with three connections."""
    with pooler(pg_url, size=3) as url:
        log = open_log(url)
        yield log
        log.close()


def test_everything_works(pooled: PostgresLog) -> None:
    """Streams, keys, large texts, pages: nothing of it is bound to a connection."""
    for number in range(20):
        append(pooled, f"chat:{number % 3}", said(number, "text " * 10 ** (number % 5)), root=f"r{number % 2}")
    again = append(pooled, "chat:0", said(20), key="k"), append(pooled, "chat:0", said(20), key="k")

    assert [receipt.replayed for receipt in again] == [False, True]
    check_order(everything(pooled, limit=7))
    check_chain(pooled.read("chat:1"))


def test_nothing_is_prepared(pooled: PostgresLog, log: PostgresLog) -> None:
    """A prepared statement would be another client's, or gone; where no pooler is, they are used."""
    for one in (pooled, log):
        for number in range(5):
            append(one, "chat:a", said(number))
            one.read("chat:a")

    assert pooled.database.ask(PREPARED)[0] == [(0,)]
    assert log.database.ask(PREPARED)[0][0][0] > 0


def test_what_a_pooler_cannot_keep(pg_url: str, tmp_path: Path) -> None:
    """An erasure leaves no setting to the next client; a restore is refused, and leaves no lock."""
    backup = tmp_path / "a.backup"
    with pooler(pg_url, size=1) as url:
        with refold.open(url) as store:
            store.chat("a").add_message("user", "Hello.")
            store.backup(backup)
            done = store.erase(context="a", why="ticket 1", dry_run=False)
        with pytest.raises(InvalidInputError, match="is behind a pooler: restore at the server's own address"):
            refold.restore(backup, url, overwrite=True)

        assert "old versions of rows in the tables, until VACUUM FULL is run without a pooler" in done.unreached
        with psycopg.connect(url, autocommit=True) as following:
            (left,) = following.execute(
                "select current_setting('lock_timeout'), (select count(*) from pg_locks where locktype = 'advisory')"
            ).fetchall()
    assert left == ("0", 0)


def test_statement_mode(pg_url: str, open_log: OpenLog) -> None:
    """A pooler ends the connection of who begins a transaction; the error has its words, and what to do."""
    told = r"a pooler in statement mode \(transaction blocks not allowed .*\), .* lend connections for transactions"
    with (
        pooler(pg_url, lends_statements=True) as url,
        closing(open_log(url)) as pooled,
        pytest.raises(StorageUnavailableError, match=told),
    ):
        pooled.database.transacting(lambda wire: wire.run(BEGIN))


def test_writers_share_a_pool(pooled: PostgresLog, log: PostgresLog) -> None:
    """Four threads behind the pooler and one process beside it, all on the same streams."""

    def write(place: int) -> None:
        for number in range(15):
            parts = [new(f"chat:{root}", said(place * 100 + number), root=root) for root in ("x", "y")]
            (log if place == 4 else pooled).append(parts).result()

    assert at_once(*(lambda place=place: write(place) for place in range(5))) == []
    for stream in ("chat:x", "chat:y"):
        check_chain(pooled.read(stream))
    assert len({one.event.id for one in log.read("chat:x")}) == 75
