"""
Looking a log on PostgreSQL over: which streams it has, and whether its large texts are what was stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...domain.errors import DamagedError
from ..compression import Compression
from ..texts import text_of
from .database import PostgresDatabase
from .wire import Call, int4, int8

__all__ = ["damaged_texts", "stream_ids"]

PAGE_ROWS = 256
STREAMS = "SELECT id FROM stream WHERE id > $1 AND id >= $2 AND id < $3 ORDER BY id LIMIT 10000"
LAST = "\U0010ffff"
TEXTS = f"SELECT slice, key, hash, data FROM blob WHERE (slice, key) > ($1, $2) ORDER BY slice, key LIMIT {PAGE_ROWS}"


def stream_ids(database: PostgresDatabase, prefix: str) -> list[str]:
    """
    Return the ids of the streams that begin with `prefix`, in order.
    """
    found: list[str] = []
    end = (prefix + LAST).encode()
    while rows := database.ask(Call(STREAMS, ((found[-1] if found else "").encode(), prefix.encode(), end)))[0]:
        found += [row[0] for row in rows]
    return found


def damaged_texts(database: PostgresDatabase, compression: Compression) -> Iterator[DamagedError]:
    """
    Yield an error for each large text that does not match its hash.
    """
    place = (-1, 0)
    while rows := database.ask(Call(TEXTS, (int4(place[0]), int8(place[1]))))[0]:
        for number, key, digest, data in rows:
            what = f"blob {number}.{key}"
            try:
                text_of(compression.expand(data, what), digest, what)
            except DamagedError as error:
                yield error
            except UnicodeDecodeError as error:
                yield DamagedError(what, str(error))
        place = (rows[-1][0], rows[-1][1])
