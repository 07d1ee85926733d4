"""A server whose database goes back under an open store."""

from __future__ import annotations

from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import sql

import refold
from refold.domain.errors import LogWentBackError
from refold.infrastructure.log.postgres.log import PostgresLog
from tests.support.postgres import Server

from .reading import Clock
from .restores import Count, RestoreContract, Restoring, texts
from .writing import append, ids, said


class Tables:
    """All tables of a database, and a copy of their rows, which another connection puts back."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._copy: dict[str, list[Any]] = {}

    def keep(self) -> None:
        """Keep a copy of what there is."""
        with psycopg.connect(self.url) as connection:
            # As of one moment: others may be writing.
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            self._copy = {
                name: connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name))).fetchall()
                for name in _tables(connection)
            }

    def put_back(self) -> None:
        """Put the copy that was kept in the place of what there is."""
        with psycopg.connect(self.url) as connection:
            # Those who read see it before or after; TRUNCATE would have them see nothing at all.
            # Where others write meanwhile, and each waits for the other, it is they who are refused.
            connection.execute("SET deadlock_timeout = '1min'")
            names = _tables(connection)
            connection.execute(sql.SQL("LOCK TABLE {}").format(sql.SQL(", ").join(map(sql.Identifier, names))))
            for name in names:
                # A table that was made since the copy was kept had no rows then.
                table, rows = sql.Identifier(name), self._copy.get(name)
                connection.execute(sql.SQL("DELETE FROM {}").format(table))
                if rows:
                    values = sql.SQL(", ").join([sql.Placeholder()] * len(rows[0]))
                    insert = sql.SQL("INSERT INTO {} VALUES ({})").format(table, values)
                    connection.cursor().executemany(insert, rows)

    def cut_tail(self) -> None:
        """Delete the last event, and nothing else."""
        with psycopg.connect(self.url) as connection:
            connection.execute(
                "DELETE FROM event WHERE (slice, position) IN"
                " (SELECT slice, position FROM event ORDER BY position DESC LIMIT 1)"
            )


def _tables(connection: psycopg.Connection[Any]) -> list[str]:
    return [name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]


@pytest.fixture
def place(ready_pg_url: str) -> Tables:
    """An empty database."""
    return Tables(ready_pg_url)


class TestPostgresRestores(RestoreContract):
    """Rows put back by another connection, while the store's own stay."""


def test_a_database_put_back_from_a_copy_of_it(pg_server: Server, pg_url: str) -> None:
    """Dropped and made again from a copy, so that every connection breaks: as with a failover to an older replica."""
    database = urlsplit(pg_url).path.lstrip("/")
    name, copy = sql.Identifier(database), sql.Identifier(database + "_copy")
    end = sql.SQL("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = {}").format(database)
    with refold.open(pg_url) as store, psycopg.connect(pg_server.url(), autocommit=True) as server:
        chat, other = store.chat("a"), store.chat("b")
        server.execute(end)
        server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(copy, name))
        chat.add_message("user", "one")
        chat.add_message("user", "two")
        server.execute(end)
        server.execute(sql.SQL("DROP DATABASE {}").format(name))
        server.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(copy, name))

        with pytest.raises(LogWentBackError) as caught:
            chat.add_message("user", "three")

        assert [one.reference for one in caught.value.lost] == ["chat:a@2", "chat:a@3"]
        other.add_message("user", "not concerned")
        assert len(chat.items) == 2
        chat.cleanup()
        chat.add_message("user", "four")
        assert store.verify().is_whole
    with refold.open(pg_url) as store:
        assert texts(store.chat("a")) == ["four"]


def test_a_copy_put_back_in_a_slice_that_is_shared(pg_url: str) -> None:
    """Others have written there again, up to the same position: the ends that are read are not those of this log."""
    place = Tables(pg_url)
    with closing(PostgresLog(pg_url)) as log, closing(PostgresLog(pg_url)) as other:
        for number in range(4):
            append((log, other)[number % 2], f"chat:{number % 2}", said(number), root="r")
        place.keep()
        append(log, "chat:0", said(4))
        place.put_back()
        with closing(PostgresLog(pg_url)) as another:
            append(another, "chat:1", said(5), said(6))

        with pytest.raises(LogWentBackError) as caught:
            append(log, "chat:0", said(7))

        assert [one.reference for one in caught.value.lost] == ["chat:0@3"]
        append(log, "chat:0", said(7), expected=2)
        assert ids(log.read_events("chat:0")) == ["m0", "m2", "m7"]


def test_a_copy_put_back_while_a_page_is_read(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is read again: events are not damaged because those before them went after they were read."""
    place = Tables(pg_url)
    with closing(PostgresLog(pg_url)) as log:
        append(log, "chat:a", said(1))
        place.keep()
        append(log, "chat:a", said(2))
        moment = log.now()
        append(log, "chat:a", said(3))
        digests_before = log._reader._digests_before

        def put_back(*asked: Any) -> Any:
            monkeypatch.undo()
            place.put_back()
            return digests_before(*asked)

        monkeypatch.setattr(log._reader, "_digests_before", put_back)

        page = log.read_all(after=moment, limit=10)

        assert (page.events, page.moment) == ([], log.now())


def test_a_copy_put_back_while_events_of_several_slices_are_folded(pg_url: str) -> None:
    """Each slice is looked at again: that the newest event is still there says nothing of other slices."""
    place, clock = Tables(pg_url), Clock()
    clock.time = 9_000_000_000.0
    with refold.open(pg_url) as reader, closing(PostgresLog(pg_url, system=clock)) as log:
        append(log, "chat:kept", said(1), root="one")
        place.keep()
        append(reader.log, "chat:gone", said(2), root="another")
        reader.add_projection(Restoring(place))

        assert reader.rows("restoring") == [Count("all", 1)]


def test_a_dictionary_that_is_gone(pg_url: str) -> None:
    """Nothing is compressed with what nobody else has, and what is written after that can be read."""
    log = PostgresLog(pg_url)
    with closing(log):
        append(log, "chat:a", said(1))
        log._compression.use(1, b"a word that many events have in common, " * 50)
        log.database.writer().close()

        with pytest.raises(LogWentBackError, match="dictionary"):
            append(log, "chat:a", said(2, "a word that many events have in common, " * 50))

        append(log, "chat:a", said(2, "a word that many events have in common, " * 50))
    with closing(PostgresLog(pg_url)) as reader:
        assert ids(reader.read_events("chat:a")) == ["m1", "m2"]


def test_a_dictionary_that_came_after_the_copy(pg_url: str) -> None:
    """The connection stays, and the slice that is written to has lost nothing."""
    place, text = Tables(pg_url), "a word that many events have in common, " * 50
    with closing(PostgresLog(pg_url)) as log:
        append(log, "chat:a", said(1), root="one")
        append(log, "chat:b", said(1), root="another")
        place.keep()
        log._dictionaries._train(lambda: [text.encode() + bytes([number]) * 9 for number in range(256)])
        append(log, "chat:a", said(2, text), root="one")
        assert log._compression.newest
        place.put_back()

        with pytest.raises(LogWentBackError, match="dictionary"):
            append(log, "chat:b", said(2, text), root="another")

        append(log, "chat:b", said(2, text), root="another")
    with closing(PostgresLog(pg_url)) as reader:
        assert ids(reader.read_events("chat:b")) == ["m1", "m2"]


def test_types_of_events_that_came_after_the_copy(pg_url: str) -> None:
    """They get numbers again: those that they had may be the numbers of others."""
    place = Tables(pg_url)
    with refold.open(pg_url) as store, refold.open(pg_url) as other:
        first, second = store.chat("a"), store.chat("b")
        for chat in (first, second):
            chat.add_message("user", "one", message_id="m")
        place.keep()
        first.pin("m")
        place.put_back()
        other.chat("c").add_config_update("Be brief.", [])

        second.pin("m")

        assert store.verify().is_whole
    with psycopg.connect(pg_url) as connection:
        names = "SELECT name FROM event JOIN tag ON tag.key = event.tag WHERE version = 3"
        assert connection.execute(names).fetchall() == [("chat.items_pinned.v1",)]
