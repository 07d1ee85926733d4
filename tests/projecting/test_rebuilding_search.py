"""
The index of the search after rebuilds: it finds the same, goes on with what comes, and its parts have their own names.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.log.envelope import RecordedEvent
from refold.domain.words import parse_query, words_of
from refold.projections.contract import SearchedRow, SearchQuery

from .telling import FINDS, TEXTS, found, told


def finds(store: refold.Store) -> dict[str, set[int]]:
    """Return for each query which texts it finds, by their places."""
    shown = [text.replace("\0", "\u2400") for text in TEXTS]
    return {query: {shown.index(hit.replace("\0", "\u2400")) for hit in found(store, query)} for query in FINDS}


@pytest.mark.parametrize("times", [1, 2])
def test_it_finds_the_same(store: refold.Store, times: int) -> None:
    """As often as it is made anew; in the same order, with texts that came before, between and after."""
    told(store, *TEXTS)
    before = finds(store)
    order = [hit.snippet for hit in store.search("quick")]

    for number in range(times):
        store.rebuild("search")
        told(store, f"later{number} fox")

    assert before == FINDS
    assert {query: texts & set(range(len(TEXTS))) for query, texts in FINDS.items()} == before
    assert [hit.snippet for hit in store.search("quick")] == order
    assert all(found(store, f"later{number}") == {f"later{number} fox"} for number in range(times))
    assert len(found(store, "fox*")) == 3 + times


class Latest:
    """The last text of each context, found by its words."""

    name, version, row = "latest", 1, SearchedRow

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the context, where something was said."""
        return (event.stream,) if isinstance(event.event, MessageAdded) else ()

    def evolve(self, key: str, row: SearchedRow | None, event: RecordedEvent) -> SearchedRow:
        """Return a row with the words of this event instead of those before."""
        words = words_of(str(event.event.content))
        version, recorded_at = event.version, event.recorded_at
        return SearchedRow(key=key, kind="chat", stream=key, version=version, recorded_at=recorded_at, words=words)


def test_rows_that_change(store: refold.Store) -> None:
    """After a rebuild, too, a row is no longer found by the words that it had before."""
    latest = Latest()
    store.add_projection(latest)
    told(store, "first words " * 50)
    for _ in range(2):
        store.rebuild("latest")

    told(store, "second thoughts")

    asked = [SearchQuery(parse_query(query), 10) for query in ("first", "words", "second", "thoughts")]
    assert [len(store._runner.search(latest, query)) for query in asked] == [0, 0, 1, 1]
    assert store.check("latest").differing == 0


def test_names_on_postgres(ready_pg_url: str) -> None:
    """Table, key and index have the names of the live ones, after the third rebuild too, and none is left over."""
    with refold.open(ready_pg_url) as store, psycopg.connect(ready_pg_url, autocommit=True) as server:
        told(store, *TEXTS)
        store.search("quick")
        named = "SELECT relname FROM pg_class WHERE relname LIKE 'view\\_search%' ORDER BY relname"
        keys = "SELECT conname FROM pg_constraint WHERE conrelid = 'view_search_2'::regclass AND contype = 'p'"
        for _ in range(3):
            names = [name for asked in (named, keys) for (name,) in server.execute(asked)]
            assert names == [f"view_search_2{one}" for one in ("", "_lexemes", "_newest", "_pkey", "_pkey")]
            store.rebuild("search")
            assert store.check("search").differing == 0
        server.execute("SET enable_seqscan = off")
        server.execute("SET enable_sort = off")
        plan = server.execute("EXPLAIN SELECT FROM view_search_2 WHERE vector @@ 'fox'::tsquery").fetchall()
        assert "view_search_2_lexemes" in str(plan)
        newest = "ORDER BY recorded_at DESC, version DESC, key DESC LIMIT 9"
        plan = server.execute(f"EXPLAIN SELECT FROM view_search_2 WHERE slice = 0 {newest}").fetchall()
        assert "view_search_2_newest" in str(plan)


def test_a_table_of_an_earlier_version_on_postgres(ready_pg_url: str) -> None:
    """Its column of vectors is dropped, and the search goes on in the rows that are there."""
    with refold.open(ready_pg_url) as store:
        told(store, *TEXTS)
        store.search("quick")
    with psycopg.connect(ready_pg_url, autocommit=True) as server:
        server.execute("ALTER TABLE view_search_2 DROP COLUMN vector")
        server.execute("ALTER TABLE view_search_2 ADD COLUMN vector tsvector NOT NULL DEFAULT ''")

    with refold.open(ready_pg_url) as store:
        assert finds(store) == FINDS
        told(store, "later fox")
        assert found(store, "later") == {"later fox"}


def test_names_on_sqlite(tmp_path: Path) -> None:
    """The same in a file: nothing of a shadow is left, and the index is whole."""
    place = tmp_path / "store.db"
    with refold.open(place) as store:
        told(store, *TEXTS)
        store.search("quick")
        for _ in range(3):
            with closing(sqlite3.connect(place)) as file:
                names = {name for (name,) in file.execute("SELECT name FROM sqlite_schema WHERE tbl_name LIKE 'view%'")}
                file.execute("INSERT INTO view_search_words (view_search_words) VALUES ('integrity-check')")
            assert names >= {"view_search", "view_search_words"}
            assert [name for name in names if "shadow" in name or "check" in name] == []
            store.rebuild("search")
            assert store.check("search").differing == 0


def test_an_index_of_an_earlier_release(tmp_path: Path) -> None:
    """It was written by triggers, which would put all words into it twice: table and index are made anew."""
    place, latest = tmp_path / "store.db", Latest()
    with refold.open(place) as store:
        store.add_projection(latest)
        told(store, "first words")
        assert store.rows("latest")
    with closing(sqlite3.connect(place, isolation_level=None)) as file:
        file.execute("DROP TABLE view_latest_words")
        file.execute("CREATE VIRTUAL TABLE view_latest_words USING fts5(words, content='', tokenize='ascii')")
        file.execute("UPDATE view_latest SET words = 'first words'")
        file.execute("INSERT INTO view_latest_words (rowid, words) SELECT number, words FROM view_latest")
        add = "INSERT INTO view_latest_words (rowid, words) VALUES (new.number, new.words);"
        file.execute(f"CREATE TRIGGER view_latest_added AFTER INSERT ON view_latest BEGIN {add} END")

    with refold.open(place) as store:
        store.add_projection(latest)
        before = [row.words for row in store._runner._store.rows(latest)]
        told(store, "second thoughts")
        found = [store._runner.search(latest, SearchQuery(parse_query(one), 9)) for one in ("first", "second")]

        assert (before, [len(rows) for rows in found]) == (["first words"], [0, 1])
        assert store.verify().is_whole
