"""A store whose every event is known, and ways to change it behind its back, on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

import refold
from refold.infrastructure.verifying import Report
from refold.projections.catalogue import CATALOGUE
from refold.projections.contract import Projection
from refold.projections.growth import GROWTH
from refold.projections.rollup import ROLLUP
from refold.projections.search import SEARCH

LOG_TABLES = ("stream", "tag", "event", "blob", "idempotency")


def written(place: str) -> None:
    """
    Write ten events to three chats of one session, a large text among them, and bring some projections up to date.
    """
    with refold.open(place) as store:
        a, b = store.chat("a", session="s"), store.chat("b", session="s")
        for number in range(2):
            a.add_message("user", f"text {number}", f"a{number}")
            b.add_message("user", f"text {number}", f"b{number}")
        a.add_message("user", "large " * 3_000, "a2")
        a.fork("f").add_message("user", "forked", "f0")
        b.add_message("user", "the last", "b2")
        for projection in (CATALOGUE, ROLLUP, GROWTH, SEARCH):
            assert store.rows(projection.name)


def sql(place: str | Path, statement: str, *values: object) -> list[Any]:
    """Do something to a database; `?` stands for a value."""
    if str(place).startswith("postgresql"):
        with psycopg.connect(str(place), autocommit=True) as connection:
            cursor = connection.execute(statement.replace("?", "%s").encode(), values or None)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(place, isolation_level=None)) as opened:
        return opened.execute(statement, values).fetchall()


def rows_of(place: str, stream: str) -> str:
    """Return the condition that finds the rows of a stream's events."""
    if place.startswith("postgresql"):
        [(lane, key)] = sql(place, "SELECT slice, key FROM stream WHERE id = ?", stream)
        return f"slice = {lane} AND stream_key = {key}"
    [(key,)] = sql(place, "SELECT key FROM stream WHERE id = ?", stream)
    return f"stream = {key}"


def view_of(place: str, projection: Projection) -> str:
    """Return the name of the table of a projection's rows."""
    name = f"view_{projection.name}"
    return f"{name}_{projection.version}" if place.startswith("postgresql") else name


def bytes_of_log(place: str) -> dict[str, list[Any]]:
    """Return every value of every table of the log."""
    more = () if place.startswith("postgresql") else ("block", "part")
    return {table: sorted(sql(place, f"SELECT * FROM {table}"), key=repr) for table in (*LOG_TABLES, *more)}


def verified(place: str, *, repair: bool = False) -> Report:
    """Return what is wrong with the store at a place."""
    with refold.open(place) as store:
        return store.verify(repair=repair)


def told(report: Report) -> list[str]:
    """Return what was found, problem by problem: kind and where; positions without the slice."""
    return [
        f"{one.kind} {_without_slice(one.where) if one.kind == 'position' else one.where}" for one in report.problems
    ]


def _without_slice(where: str) -> str:
    return " to ".join(place.split(".")[-1] for place in where.split(" to "))
