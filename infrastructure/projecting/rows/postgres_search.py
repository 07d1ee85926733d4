"""
The index of searched rows on PostgreSQL: a tsvector beside their words, and GIN over it.

Vectors and queries are written out here: PostgreSQL's own parser would find other words. A vector keeps some places
of each word, enough to rank by; whether words stand side by side is looked up in the words themselves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ....domain.words import Term
from ....projections.contract import SearchQuery
from ...log.postgres.wire import Call, int8

VECTOR_COLUMN = "vector tsvector NOT NULL"
# A value goes out as text, and the server reads it as what it is.
VECTOR_VALUE = "CAST(CAST(${number} AS text) AS tsvector)"
# The last place that a vector can tell from others. Of a word that comes often, PostgreSQL itself keeps the first.
PLACE_MAX = 16_383
FIND = """
    SELECT {columns}, ts_rank(r.vector, CAST(CAST($2 AS text) AS tsquery), 1) AS fit
    FROM {table} AS r
    WHERE r.slice = $1 AND r.vector @@ CAST(CAST($2 AS text) AS tsquery)
        AND NOT EXISTS (
            SELECT FROM jsonb_array_elements_text(CAST(CAST($3 AS text) AS jsonb)) AS phrase
            WHERE strpos(' ' || r.words || ' ', phrase) = 0)
        AND (CAST($4 AS text) IS NULL OR r.kind = $4)
        AND (CAST($5 AS text) IS NULL OR r.version <= CAST(CAST(CAST($5 AS text) AS jsonb) ->> r.stream AS bigint))
    ORDER BY fit DESC, r.recorded_at DESC, r.version DESC, r.key
    LIMIT $6
"""


def index_call(table: str) -> Call:
    """Return the statement that makes the index of a table of searched rows."""
    return Call(f"CREATE INDEX IF NOT EXISTS {table}_vector ON {table} USING gin (vector)")


def index_found_call(table: str) -> Call:
    """Return the statement that has a row if the index is there."""
    return Call(f"SELECT 1 WHERE to_regclass('{table}_vector') IS NOT NULL")


def find_call(table: str, names: Sequence[str], lane: bytes, query: SearchQuery) -> Call:
    """Return the statement for the columns `names` of the rows that a query asks for, and behind them their rank."""
    columns = ", ".join(f'r."{name}"' for name in names)
    phrases = [term.pattern for term in query.terms if " " in term.words]
    values = (
        lane,
        " & ".join(map(_lexemes, query.terms)).encode(),
        json.dumps(phrases).encode(),
        None if query.kind is None else query.kind.encode(),
        None if query.streams is None else json.dumps(dict(query.streams)).encode(),
        int8(query.limit),
    )
    return Call(FIND.format(table=table, columns=columns), values)


def _lexemes(term: Term) -> str:
    # Words have neither quotation mark nor backslash in them.
    return " & ".join(f"'{word}'" for word in term.words.split()) + ":*" * term.is_prefix


def words_call(table: str, lane: bytes, after: str, limit: int) -> Call:
    """Return the statement for the keys and words of the rows behind a key."""
    sql = f"SELECT key, words FROM {table} WHERE slice = $1 AND key > $2 ORDER BY key LIMIT $3"
    return Call(sql, (lane, after.encode(), int8(limit)))


def wrong_vector_call(table: str, lane: bytes, key: str, words: str) -> Call:
    """Return the statement that has a row if that of a key still has these words, and another vector than theirs."""
    is_other = f"vector <> {VECTOR_VALUE.format(number=4)}"
    sql = f"SELECT 1 FROM {table} WHERE slice = $1 AND key = $2 AND words = $3 AND {is_other}"
    return Call(sql, (lane, key.encode(), words.encode(), vector_of(words)))


def vector_of(words: str) -> bytes:
    """Return the vector of words as PostgreSQL writes one: each of them with its places."""
    places: dict[str, list[str]] = {}
    for place, word in enumerate(words.split(), 1):
        of_word = places.setdefault(word, [])
        if place <= PLACE_MAX:
            of_word.append(str(place))
    return " ".join(f"'{word}'" + ":" * bool(found) + ",".join(found) for word, found in places.items()).encode()
