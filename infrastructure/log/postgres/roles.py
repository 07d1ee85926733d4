"""
Roles of a PostgreSQL server, each with the rights that its work needs, and no others.

They are groups without a login: the administrator of the server grants them to the users of programs. Only the role
that erases may change or delete an event, and no role may make tables.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ....domain.errors import InvalidInputError
from .connection import IN_SCHEMA, PostgresDatabase
from .schema import LOCKED_VERSION, LOG, OF_ROWS
from .wire import BEGIN, COMMIT, Call, Wire

APPENDED = ("stream", "tag", "event", "blob", "dictionary", "idempotency", "snapshot", "segment", "data_key")
# Rows of projections; a rebuild makes new tables.
VIEWS = re.compile(r"view_\w+")
# A role that is there, or that another database of the server makes at this moment.
TAKEN = "duplicate_object OR unique_violation"
NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}")
TABLES = Call(
    "SELECT relname::text, current_schema()::text FROM pg_class"
    f" WHERE relkind IN ('r', 'p') AND {IN_SCHEMA} ORDER BY relname"
)


class Grant(NamedTuple):
    """Rights on some tables of the log, and on all rows of projections and their places."""

    rights: str
    tables: tuple[str, ...] = ()
    on_rows: bool = False


READING = (Grant("SELECT", LOG, on_rows=True),)
# A writer locks the row of its slice, a snapshot replaces the one before it, and segments those that are wrong.
WRITING = (Grant("INSERT", APPENDED), Grant("UPDATE", ("slice_lock", "snapshot", "segment")))
PROJECTING = (Grant("INSERT, UPDATE, DELETE", on_rows=True),)
# The payload of an event is replaced in its row or its block, and texts, keys and snapshots are removed.
# Its update of `tag`, which changes nothing, has other processes read again which texts there are.
ERASING = (Grant("UPDATE, DELETE", ("event", "block", "part", "blob", "idempotency", "snapshot")),
           Grant("UPDATE", ("tag", "data_key")), Grant("INSERT", ("block", "part")))  # fmt: skip
ROLES: dict[str, tuple[Grant, ...]] = {
    "reader": READING,
    "writer": READING + WRITING,
    "projector": READING + PROJECTING,
    "eraser": READING + WRITING + PROJECTING + ERASING,
}


def make_roles(database: PostgresDatabase, prefix: str) -> list[str]:
    """
    Make the roles `PREFIX_reader` and so on, give them exactly their rights in this schema, and return their names.

    It can be repeated: what a role had in this schema is taken from it before. The tables must be there.

    Raises:
        InvalidInputError: the prefix cannot begin the name of a role.
        StorageReadOnlyError: this user may make no roles.
    """
    if not NAME.fullmatch(prefix):
        raise InvalidInputError(f"the prefix {prefix!r} of roles: take small letters, digits and _, 41 at most")
    return database.transacting(lambda wire: _make_roles(wire, prefix))


def _make_roles(wire: Wire, prefix: str) -> list[str]:
    found = [(str(name), str(schema)) for name, schema in wire.run(TABLES)[0]]
    tables = [name for name, _ in found]
    schema = '"' + found[0][1].replace('"', '""') + '"'
    # Two at once would change the same rights.
    calls = [BEGIN, LOCKED_VERSION]
    for kind, grants in ROLES.items():
        role = f"{prefix}_{kind}"
        # The server keeps roles for all its databases, so it may be there.
        calls += [
            Call(f"DO $$ BEGIN CREATE ROLE {role} NOLOGIN; EXCEPTION WHEN {TAKEN} THEN NULL; END $$"),
            Call(f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {role}"),
            Call(f"GRANT USAGE ON SCHEMA {schema} TO {role}"),
        ]
        for rights, named, on_rows in grants:
            chosen = [name for name in tables if name in named or (on_rows and _is_of_rows(name))]
            if chosen:
                calls.append(Call(f"GRANT {rights} ON {', '.join(f'{schema}.{name}' for name in chosen)} TO {role}"))
            if on_rows:
                calls.append(Call(f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema} GRANT {rights} ON TABLES TO {role}"))
    wire.run(*calls, COMMIT)
    return [f"{prefix}_{kind}" for kind in ROLES]


def _is_of_rows(table: str) -> bool:
    return table in OF_ROWS or VIEWS.fullmatch(table) is not None
