"""
The tables: created at the first use, recognised afterwards.

They are created in one transaction. Two processes may do so at once: one of them creates the first table, and the other
finds all tables created.
"""

from __future__ import annotations

from importlib import resources

import psycopg

from ....domain.errors import StorageUnavailableError
from ....domain.ids import SLICES
from .wire import BEGIN, COMMIT, Call, Wire

# 2: an envelope may have the fingerprint of a call, and a digest that Refold with version 1 considers wrong. The tables
# are those of version 1.
SCHEMA_VERSION = 2
FORWARD = (
    f"UPDATE refold_meta SET value = '{SCHEMA_VERSION}' WHERE name = 'schema_version' AND value::int < {SCHEMA_VERSION}"
)
CREATE_ATTEMPTS_MAX = 5
# SQLSTATEs for a name that is taken: as a table, as a type, or in the catalogue's index if two create it at once.
TAKEN = ("42P07", "42710", "23505")
# A process that may not write here, or reads a standby, does not write fingerprints either.
MAY_NOT_WRITE = ("25006", "42501")


def prepare_schema(wire: Wire, where: str, *, create: bool) -> None:
    """
    Make sure that the connection's current schema holds a log that this version understands; upgrade an older one.

    Raises:
        StorageUnavailableError: there is no log and `create` is false, it is from a newer Refold, or tables of another
            program have its names.
    """
    taken = ""
    for _ in range(CREATE_ATTEMPTS_MAX):
        version = _version(wire)
        if version is not None:
            if version > SCHEMA_VERSION:
                raise StorageUnavailableError(f"{where} was written by a newer Refold: update this one")
            if version < SCHEMA_VERSION:
                _bring_forward(wire)
            return
        if not create:
            raise StorageUnavailableError(f"there is no log in {where}: check the name, or import into it")
        try:
            wire.run(BEGIN, *_creation(), COMMIT)
            return
        except psycopg.Error as error:
            if error.sqlstate not in TAKEN:
                raise
            taken = error.diag.message_primary or ""
            wire.settle()
    raise StorageUnavailableError(
        f"another program's table is in the way in {where} ({taken}): give Refold a database or a schema of its own"
    )


def schema_statements(prefix: str = "") -> list[str]:
    """Return the statements that create a log's tables, each name with `prefix`."""
    text = resources.files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return [part.strip().format(p=prefix) for part in "\n".join(lines).split(";") if part.strip()]


def _creation() -> list[Call]:
    statements = schema_statements()
    slices = ", ".join(f"({number})" for number in range(SLICES))
    statements.append(f"INSERT INTO slice_lock VALUES {slices}")
    statements.append(f"INSERT INTO refold_meta VALUES ('schema_version', '{SCHEMA_VERSION}')")
    return [Call(statement) for statement in statements]


def _bring_forward(wire: Wire) -> None:
    try:
        wire.run(BEGIN, Call(FORWARD), COMMIT)
    except psycopg.Error as error:
        if error.sqlstate not in MAY_NOT_WRITE:
            raise
        wire.settle()


def _version(wire: Wire) -> int | None:
    ((table,),) = wire.run(Call("SELECT to_regclass('refold_meta')::text"))[0]
    if table is None:
        return None
    rows = wire.run(Call("SELECT value FROM refold_meta WHERE name = 'schema_version'"))[0]
    return int(rows[0][0]) if rows else None
