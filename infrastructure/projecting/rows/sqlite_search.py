"""
The index of searched rows on SQLite: FTS5 over their words, kept up to date by triggers, within the same transaction.

The words come with blanks between them, and the tokenizer knows no other border: to `ascii` all else is a letter.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from ....domain.words import Term
from ....projections.contract import SearchQuery

# What the tokenizer makes of characters: it knows those of ASCII.
BORDERS = {code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)}
FIND = """
    WITH within (stream, last) AS MATERIALIZED
        (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:streams))
    SELECT {columns}, -bm25({table}_words) AS fit
    FROM {table}_words JOIN {table} AS r ON r.number = {table}_words.rowid
    WHERE {table}_words MATCH :phrases
        AND (:kind IS NULL OR r.kind = :kind)
        AND (:streams IS NULL
            OR EXISTS (SELECT 1 FROM within WHERE within.stream = r.stream AND r.version <= within.last))
    ORDER BY fit DESC, r.recorded_at DESC, r.version DESC, r.key
    LIMIT :limit
"""


def create_searched(connection: sqlite3.Connection, table: str, columns: str) -> None:
    """Create a table of searched rows with these columns, and its index."""
    # The index names rows by number, and VACUUM changes all numbers that are no column.
    connection.execute(f"CREATE TABLE {table} (number INTEGER PRIMARY KEY, {columns}, UNIQUE (key))")
    # It has no content of its own, and does not know whose it is: so it can be renamed.
    connection.execute(f"CREATE VIRTUAL TABLE {table}_words USING fts5(words, content='', tokenize='ascii')")
    _create_triggers(connection, table)


def rename_searched(connection: sqlite3.Connection, table: str, name: str) -> None:
    """Give a table of searched rows another name, and its index with it."""
    _drop_triggers(connection, table)
    connection.execute(f"ALTER TABLE {table} RENAME TO {name}")
    connection.execute(f"ALTER TABLE {table}_words RENAME TO {name}_words")
    _create_triggers(connection, name)


def _create_triggers(connection: sqlite3.Connection, table: str) -> None:
    add = f"INSERT INTO {table}_words (rowid, words) VALUES (new.number, new.words);"
    # What a row is found by is forgotten by naming it once more.
    forget = f"INSERT INTO {table}_words ({table}_words, rowid, words) VALUES ('delete', old.number, old.words);"
    connection.execute(f"CREATE TRIGGER {table}_added AFTER INSERT ON {table} BEGIN {add} END")
    connection.execute(f"CREATE TRIGGER {table}_changed AFTER UPDATE ON {table} BEGIN {forget} {add} END")


def _drop_triggers(connection: sqlite3.Connection, table: str) -> None:
    for trigger in ("added", "changed"):
        connection.execute(f"DROP TRIGGER IF EXISTS {table}_{trigger}")


def drop_index(connection: sqlite3.Connection, table: str) -> None:
    """Drop the index of a table, if it has one, and what keeps it up to date."""
    _drop_triggers(connection, table)
    connection.execute(f"DROP TABLE IF EXISTS {table}_words")


def find(connection: sqlite3.Connection, table: str, names: Sequence[str], query: SearchQuery) -> list[Sequence[Any]]:
    """Return the columns `names` of the rows that a query asks for, and behind them their rank."""
    columns = ", ".join(f'r."{name}"' for name in names)
    values = {
        "phrases": " AND ".join(map(_phrase, query.terms)),
        "kind": query.kind,
        "streams": None if query.streams is None else json.dumps(list(query.streams.items())),
        "limit": query.limit,
    }
    return connection.execute(FIND.format(table=table, columns=columns), values).fetchall()


def index_fault(connection: sqlite3.Connection, table: str) -> str | None:
    """
    Return how the index of a table of searched rows differs from them, None where it does not.

    SQLite's own check of an index asks for the lock of whoever writes, and of one without content compares nothing.
    """
    made = f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{table}_found"
    connection.execute(f"{made} USING fts5vocab(main, {table}_words, instance)")
    # Of each row the sum over its words and their places, whichever come first.
    sums: dict[int, int] = {}
    for number, word, place in connection.execute(f"SELECT doc, term, offset FROM temp.{table}_found"):
        sums[number] = sums.get(number, 0) + hash((word, place))
    # A row without any word is there all the same.
    listed = {row[0] for row in connection.execute(f"SELECT id FROM {table}_words_docsize")}
    wrong = 0
    for number, text in connection.execute(f"SELECT number, words FROM {table}"):
        words = filter(None, text.translate(BORDERS).split(" "))
        said = sum(hash((word, place)) for place, word in enumerate(words))
        wrong += sums.pop(number, 0) != said or number not in listed
        listed.discard(number)
    wrong += len(sums.keys() | listed)
    return f"{wrong:,} rows are not in its index as they are" if wrong else None


def _phrase(term: Term) -> str:
    # Words have no quotation mark in them.
    return f'"{term.words}"' + " *" * term.is_prefix
