"""
A log that is made in a schema of its own, and then put in the place of another one in one transaction.

Schemas that a killed process left are dropped before the next one is made. A process holds an advisory lock for the
schema in which it works.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Identifier

from ....domain.errors import InvalidInputError
from .connection import PostgresDatabase, connected, is_pooled
from .errors import translated

PREFIX = "refold_aside_"
OPTIONS = re.compile(r"(?<=[?&])options=[^&]*&?")
ABANDONED = "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)"
TRY_LOCK = "SELECT pg_try_advisory_lock(hashtext(%s))"
UNLOCK = "SELECT pg_advisory_unlock(hashtext(%s))"
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
# Not every store has them, so they may be in the old place only: they are made by the first projection, snapshot or
# witness, and with keys.
OTHERS = ("checkpoint", "note", "snapshot", "segment", "data_key", "sealed_page")
VIEWS = "SELECT 'view_' || projection || '_' || version FROM {}"
# The rights that others have in tables, as statements that give them again.
RIGHTS = """
    SELECT format('GRANT %%s ON %%I.%%I TO %%s', a.privilege_type, n.nspname, c.relname,
        CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace CROSS JOIN LATERAL aclexplode(c.relacl) AS a
    WHERE n.nspname = %s AND c.relname = ANY(%s) AND a.grantee <> c.relowner
"""
HAS_EVENTS = "SELECT EXISTS (SELECT FROM {event}) OR EXISTS (SELECT FROM {block})"


@contextmanager
def made_aside(url: str, *, overwrite: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    """
    Yield a URL at which a log is to be made, and a function that puts its tables in the place of those at `url`.

    Raises:
        InvalidInputError: without `overwrite`, when it is put in place and there are events; or the URL is that of a
            pooler, which keeps neither the schema of a connection nor its lock.
    """
    where = PostgresDatabase(url).where
    with translated(where), connected(url, where) as guard:
        if is_pooled(guard):
            raise InvalidInputError(f"{where} is behind a pooler: restore at the server's own address")
        _drop_abandoned(guard)
        name = PREFIX + os.urandom(16).hex()
        guard.execute(TRY_LOCK, (name,))
        guard.execute(SQL("CREATE SCHEMA {}").format(Identifier(name)))
        try:
            yield _url_of(url, name), lambda: _put_in_place(guard, name, where, overwrite=overwrite)
        finally:
            # After it was put in place the schema is gone; a lost connection drops nothing.
            with suppress(psycopg.Error):
                guard.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(name)))


def _drop_abandoned(guard: psycopg.Connection) -> None:
    for (name,) in guard.execute(ABANDONED, (PREFIX,)).fetchall():
        is_free = guard.execute(TRY_LOCK, (name,)).fetchone()
        if is_free and is_free[0]:
            guard.execute(SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(Identifier(name)))
            guard.execute(UNLOCK, (name,))


def _url_of(url: str, schema: str) -> str:
    """Return a URL whose connections are in a schema, with the other options of `url`."""
    options = f"{conninfo_to_dict(url).get('options') or ''} -c search_path={schema}".strip()
    bare = OPTIONS.sub("", url).rstrip("?&")
    return f"{bare}{'&' if '?' in bare else '?'}options={quote(options)}"


def _put_in_place(guard: psycopg.Connection, aside: str, where: str, *, overwrite: bool) -> None:
    with guard.transaction():
        guard.execute("SET LOCAL lock_timeout = '5s'")
        ((target,),) = guard.execute("SELECT current_schema()").fetchall()
        made = [name for (name,) in guard.execute(TABLES, (aside,))]
        there = {name for (name,) in guard.execute(TABLES, (target,))}
        old = there.intersection((*made, *OTHERS))
        if {"event", "block"} <= there and not overwrite:
            _require_empty(guard, target, where)
        if "checkpoint" in there:
            views = SQL(VIEWS).format(Identifier(target, "checkpoint"))
            old |= there.intersection(name for (name,) in guard.execute(views))
        rights = guard.execute(RIGHTS, (target, made)).fetchall()
        for name in old:
            guard.execute(SQL("DROP TABLE {}").format(Identifier(target, name)))
        for name in made:
            move = SQL("ALTER TABLE {} SET SCHEMA {}")
            guard.execute(move.format(Identifier(aside, name), Identifier(target)))
        for (grant,) in rights:
            guard.execute(grant)
        guard.execute(SQL("DROP SCHEMA {} CASCADE").format(Identifier(aside)))


def _require_empty(guard: psycopg.Connection, target: str, where: str) -> None:
    places = {name: Identifier(target, name) for name in ("event", "block")}
    # Nobody appends from now on.
    guard.execute(SQL("LOCK TABLE {event} IN ACCESS EXCLUSIVE MODE").format(**places))
    ((has_events,),) = guard.execute(SQL(HAS_EVENTS).format(**places)).fetchall()
    if has_events:
        raise InvalidInputError(f"{where} has events: restore into an empty database, or overwrite it")
