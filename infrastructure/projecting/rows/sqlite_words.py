"""
The words of searched rows on SQLite: compressed in their table, and in an index, FTS5 without content.

The index says which words a row has, and not where: phrases are looked for in the words of the rows themselves. Words
are separated by blanks, and the tokenizer `ascii` splits them only there: it treats all other characters as letters.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from ....projections.contract import Projection
from ...log.compression import Compression
from ..store import Values
from .database import columns, in_batches

if TYPE_CHECKING:
    from ....domain.words import Term

KEYS_MAX = 500
# To look up all words would take a check of a store twice as long.
FREQUENT_ROWS, LOOKED_UP_OF = 64, 8
# How the tokenizer reads the bytes of UTF-8: those above 127 are letters.
BORDERS = bytes(code if code > 127 else ord(chr(code).lower() if chr(code).isalnum() else " ") for code in range(256))


def put_searched(
    connection: sqlite3.Connection, compression: Compression, table: str, projection: Projection, rows: Sequence[Any]
) -> None:
    """Store searched rows, with their words compressed, and put these into the index."""
    fields = projection.row.__struct_fields__
    known: dict[str, tuple[int, Any]] = {}
    for some in in_batches(rows, (KEYS_MAX,)):
        marks = ", ".join("?" * len(some))
        sql = f"SELECT key, number, words FROM {table} WHERE key IN ({marks})"
        found = connection.execute(sql, [row.key for row in some])
        known.update((key, (number, words)) for key, number, words in found)
    into = f"INSERT INTO {table}_words ({table}_words, rowid, words) VALUES ('delete', ?, ?)"
    # To delete a row from an index without content, its words must be given once more.
    before = ((number, expanded_bytes(compression, projection, words).decode()) for number, words in known.values())
    connection.executemany(into, before)
    ((last,),) = connection.execute(f"SELECT coalesce(max(number), 0) FROM {table}").fetchall()
    fresh = iter(range(last + 1, last + 1 + len(rows)))
    numbers = [known[row.key][0] if row.key in known else next(fresh) for row in rows]
    sql = f"INSERT OR REPLACE INTO {table} (number, {columns(projection)}) VALUES (?{', ?' * len(fields)})"
    place = fields.index("words")
    stored = zip(numbers, map(msgspec.structs.astuple, rows), strict=True)
    connection.executemany(
        sql,
        ((number, *one[:place], compression.shrink(one[place].encode()), *one[place + 1 :]) for number, one in stored),
    )
    words = ((number, row.words) for number, row in zip(numbers, rows, strict=True))
    connection.executemany(f"INSERT INTO {table}_words (rowid, words) VALUES (?, ?)", words)


def wrong_in_index(connection: sqlite3.Connection, table: str, expand: Callable[[Any], bytes]) -> int:
    """
    Return the number of rows that differ from the index of their table; at least 1 if any do.

    Each row must have as many words as it is indexed with, and each word must be indexed as often as rows have it, of
    which sums of hashes are compared. So neither rows nor words are held here. If two rows have as many words, and the
    index has these in place of each other, that is not noticed.

    Frequent words and an eighth of the others, by their checksums, are also looked up as a search does it: by FTS5's
    own table of the first words of its pages, which no scan of the index uses. If a row is missing there, a search
    finds none of the words on that page, which are hundreds, or frequent ones.
    """
    words = 0
    ((wrong,),) = connection.execute(
        f"SELECT count(*) FROM {table}_words_docsize WHERE id NOT IN (SELECT number FROM {table})"
    )
    sizes = f"SELECT r.words, d.sz FROM {table} AS r LEFT JOIN {table}_words_docsize AS d ON d.id = r.number"
    # A function that SQLite calls would not do: SQLite takes a Ctrl-C in it for a fault of the table.
    for stored, size in connection.execute(sizes):
        # Words are counted as UTF-8: to split and hash texts takes a twelfth longer.
        found = expand(stored).translate(BORDERS).split()
        words += sum(map(hash, set(found)))
        wrong += size != _varint(len(found))
    made = f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{table}_found"
    connection.execute(f"{made} USING fts5vocab(main, {table}_words, row)")
    terms = connection.execute(f"SELECT CAST(term AS BLOB), doc FROM temp.{table}_found")
    one_term = f"SELECT doc FROM temp.{table}_found WHERE term = CAST(? AS TEXT)"
    indexed, is_missed = 0, False
    for word, rows in terms:
        indexed += hash(word) * rows
        if rows >= FREQUENT_ROWS or crc32(word) % LOOKED_UP_OF == 0:
            is_missed |= connection.execute(one_term, (word,)).fetchone() != (rows,)
    return int(wrong) or int(indexed != words or is_missed)


def _varint(count: int) -> bytes:
    """Return a number as FTS5 stores it: seven bits in a byte, the highest first, all but the last marked."""
    packed = bytes([count & 127])
    while count := count >> 7:
        packed = bytes([count & 127 | 128]) + packed
    return packed


def with_all_words(compression: Compression, projection: Projection, found: Sequence[Values]) -> list[Values]:
    """Return the values of searched rows with their words as they were before; together they take half the time."""
    place = projection.row.__struct_fields__.index("words")
    packed = [values[place] for values in found if isinstance(values[place], bytes)]
    words = iter(compression.expand_many(packed, lambda _: _words_of_rows(projection)))
    return [
        (*values[:place], next(words).decode(), *values[place + 1 :]) if isinstance(values[place], bytes) else values
        for values in found
    ]


def _words_of_rows(projection: Projection) -> str:
    return f"the words of a row of {projection.name}"


def expanded_bytes(compression: Compression, projection: Projection, stored: Any) -> bytes:
    """Return the words of a row in UTF-8; rows of earlier releases have them uncompressed, as a text."""
    is_packed = isinstance(stored, bytes)
    return compression.expand(stored, _words_of_rows(projection)) if is_packed else stored.encode()


def indexed(term: Term) -> str:
    """Return a term as FTS5 looks for it in the index."""
    # No escaping is needed: words contain no quotation marks.
    return " AND ".join(f'"{word}"' for word in term.words.split()) + " *" * term.is_prefix
