"""
Random edits of a store at rest, and what is served afterwards: `scripts/fuzz COUNT [file|tables]`.

Of a file, single bytes, stretches and rows are changed; of tables on PostgreSQL, rows and single values. The store is
then opened with its witness, and asked for all that follows from its events. It must refuse, or answer as before.
"""

import random
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

import refold
from refold.domain.errors import RefoldError
from refold.domain.positions import BEGINNING
from tests.support.postgres import running_server

from .forging import Place

TABLES = ("event", "block", "part", "stream", "blob", "segment", "snapshot")
Random = random.Random


def fill(place: Place) -> None:
    """Write what a store may hold: several chats, a fork, edits, large texts, keys; most of it in blocks."""
    with place.open() as store:
        chat = store.chat("a", session="s")
        with store.transaction():
            for number in range(540):
                chat.add_message("user", f"text {number}")
        chat.evict([chat.items[3].id])
        other = store.chat("b", session="s")
        other.add_message("user", "large " * 2_000, idempotency_key="once")
        other.add_message("assistant", "small")
        fork = other.fork("c")
        fork.add_message("user", "another way")
    if not place.is_file:
        with refold.open(place.url) as store:
            assert sum(store.log.sealing()) > 0  # type: ignore[attr-defined]  # the log on PostgreSQL has it


def answers(place: Place) -> list[Any]:
    """Ask for everything that follows from the events."""
    found: list[Any] = []
    with place.open() as store:
        for name in ("a", "b", "c"):
            chat = store.chat(name, create=False)
            found += [chat.version, [item.model_dump() for item in chat.items], chat.to_openai_messages()]
            found.append([item.id for item in chat.at(2).items])
        page = store.log.read_all(after=BEGINNING, limit=2_000)
        found += [(one.reference, one.position, one.recorded_at, one.meta, one.event) for one in page.events]
        middle = page.events[len(page.events) // 2]
        found.append(store.log.version_at("chat:a", middle.recorded_at))
        found.append([item.id for item in store.at(middle.position).chat("a").items])
    return found


class Outcome(NamedTuple):
    """How many edits were refused, how many changed no answer, and those that were served or failed in another way."""

    refused: int
    harmless: int
    served: list[str]


def fuzz_file(folder: Path, count: int, seed: int) -> Outcome:
    """Change a file in random ways, each time from the same beginning."""
    whole = Place(str(folder / "whole.db"), folder / "whole.log")
    fill(whole)
    wanted, draw, counts = answers(whole), Random(seed), Counter[str]()
    served: list[str] = []
    for number in range(count):
        place = Place(str(folder / "edited.db"), folder / "edited.log")
        # A file of its own each time: SQLite knows a file by its inode.
        for ending in ("", "-wal", "-shm"):
            Path(place.url + ending).unlink(missing_ok=True)
        shutil.copy(whole.url, place.url)
        shutil.copy(whole.witness, place.witness)
        edit = draw.choice((_flip, _flip, _stretch, _edit_row, _edit_row))
        what = f"edit {number} of seed {seed}: {edit(place, draw)}"
        _ask(place, wanted, what, counts, served)
    return Outcome(counts["refused"], counts["harmless"], served)


def _ask(place: Place, wanted: list[Any], what: str, counts: Counter[str], served: list[str]) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = answers(place)
    except RefoldError:
        counts["refused"] += 1
    except Exception as error:
        served.append(f"{what}: {type(error).__name__}: {error}")
    else:
        counts["harmless"] += 1
        if found != wanted:
            served.append(f"{what}: another answer")


def _flip(place: Place, draw: Random) -> str:
    """Change a few single bytes."""
    data = bytearray(Path(place.url).read_bytes())
    places = [draw.randrange(len(data)) for _ in range(draw.choice((1, 1, 2, 8)))]
    for at in places:
        data[at] ^= draw.randrange(1, 256)
    Path(place.url).write_bytes(data)
    return f"bytes {places}"


def _stretch(place: Place, draw: Random) -> str:
    """Write a stretch of the file over another one, or zeros."""
    data = bytearray(Path(place.url).read_bytes())
    size = draw.choice((16, 200, 4_096))
    to, start = draw.randrange(len(data) - size), draw.randrange(len(data) - size)
    data[to : to + size] = data[start : start + size] if draw.random() < 0.7 else bytes(size)
    Path(place.url).write_bytes(data)
    return f"{size} bytes at {to}, from {start}"


def _edit_row(place: Place, draw: Random) -> str:
    """Change, remove or exchange rows by SQL, as the database itself would."""
    with closing(sqlite3.connect(place.url, isolation_level=None)) as file:

        def run(statement: str, *values: object) -> list[tuple[Any, ...]]:
            try:
                return file.execute(statement, values).fetchall()
            except sqlite3.Error:
                return []

        there = [row[0] for row in run("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        table = draw.choice([name for name in TABLES if name in there])
        return _edit_table(run, table, draw, "ORDER BY 1, 2", "?")


def _edit_table(run: Callable[..., list[Any]], table: str, draw: Random, order: str, mark: str) -> str:
    rows = run(f"SELECT * FROM {table} {order}")
    columns = _columns(run, table, mark)
    row = draw.choice(rows)
    where = " AND ".join(
        f"{name} {'IS NULL' if value is None else '= ' + mark}" for name, value in zip(columns, row, strict=True)
    )
    key = [value for value in row if value is not None]
    if draw.random() < 0.2:
        run(f"DELETE FROM {table} WHERE {where}", *key)
        return f"a row of {table} removed"
    place = draw.randrange(len(row))
    value = _another(row[place], [one[place] for one in rows], draw)
    run(f"UPDATE {table} SET {columns[place]} = {mark} WHERE {where}", value, *key)
    return f"{table}.{columns[place]} of {row[:3]} is {value!r}"[:300]


def _columns(run: Callable[..., list[Any]], table: str, mark: str) -> list[str]:
    if mark == "?":
        return [row[1] for row in run(f"PRAGMA table_info({table})")]
    found = "SELECT column_name FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position"
    return [row[0] for row in run(found, table)]


def _another(value: Any, others: list[Any], draw: Random) -> Any:
    """Return a value near another one, or that of another row."""
    if draw.random() < 0.4:
        return draw.choice(others)
    if isinstance(value, bytes) and value:
        data = bytearray(value)
        data[draw.randrange(len(data))] ^= draw.randrange(1, 256)
        return bytes(data)
    if isinstance(value, int):
        return value + draw.choice((-1, 1, 64, -value))
    return "other" if isinstance(value, str) else draw.choice(others)


def fuzz_tables(url: str, folder: Path, count: int, seed: int) -> Outcome:
    """Change tables on a server in random ways; each edit is taken back."""
    place = Place(url, folder / "witness.log")
    fill(place)
    wanted, draw, counts = answers(place), Random(seed), Counter[str]()
    kept, served = place.witness.read_bytes(), list[str]()
    with psycopg.connect(url, autocommit=True) as server:

        def run(statement: str, *values: object) -> list[Any]:
            try:
                cursor = server.execute(statement, values)
                return cursor.fetchall() if cursor.description else []
            except psycopg.Error:
                return []

        there = [row[0] for row in run("SELECT table_name FROM information_schema.tables")]
        for number in range(count):
            table = draw.choice([name for name in TABLES if name in there])
            if not run(f"SELECT 1 FROM {table} LIMIT 1"):
                continue
            run(f"CREATE TABLE kept AS SELECT * FROM {table}")
            edit = _edit_table(run, table, draw, "ORDER BY 1, 2, 3", "%s")
            _ask(place, wanted, f"edit {number} of seed {seed}: {edit}", counts, served)
            run(f"DELETE FROM {table}")
            run(f"INSERT INTO {table} SELECT * FROM kept")
            run("DROP TABLE kept")
            place.witness.write_bytes(kept)
    return Outcome(counts["refused"], counts["harmless"], served)


def main(count: str, where: str = "file") -> int:
    """Print the outcome; the exit code is 1 if an edit was served."""
    seed = random.SystemRandom().randrange(1 << 32)
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened:
        if where == "file":
            outcome = fuzz_file(Path(name), int(count), seed)
        else:
            url = opened.enter_context(opened.enter_context(running_server(durable=False)).database())
            outcome = fuzz_tables(url, Path(name), int(count), seed)
    print(f"{outcome.refused} refused, {outcome.harmless} harmless, {len(outcome.served)} served (seed {seed})")
    for one in outcome.served:
        print(one)
    return 1 if outcome.served else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
