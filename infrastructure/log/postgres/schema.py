"""
The tables: created at the first use, recognised afterwards.

They are created in one transaction. Two processes may do so at once: one of them creates the first table, and the other
finds all tables created.

On Citus, a table whose primary key has the slice is distributed by it, all of them in the same way: so one server has
all of a slice. The others have few rows or few changes; each server has a copy of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import resources

import psycopg

from ....domain.errors import DamagedError, StorageReadOnlyError, StorageUnavailableError
from ....domain.ids import SLICES
from ..row_faults import ROWS_REPORTED, foreign_object_fault
from .connection import IN_SCHEMA
from .wire import BEGIN, COMMIT, Call, Rows, Wire

BY_SLICE = re.compile(r"slice int PRIMARY KEY|PRIMARY KEY \(slice\b")
# Statements about a whole table may follow changes of single rows in a transaction only in this mode.
SEQUENTIAL = Call("SET LOCAL citus.multi_shard_modify_mode = 'sequential'")
NOT_YET = " WHERE NOT EXISTS (SELECT FROM pg_dist_partition WHERE logicalrelid = '{name}'::regclass)"

# 2: an envelope may have the fingerprint of a call, and a digest that Refold with version 1 considers wrong. The tables
# are those of version 1.
# 3: old events may be in blocks.
SCHEMA_VERSION = 3
VERSION = re.compile("[1-9][0-9]{0,8}")
LOCKED_VERSION = Call("SELECT value FROM refold_meta WHERE name = 'schema_version' FOR UPDATE")
# A statement that waits for the lock on a table makes all later ones wait.
WAIT_BRIEFLY = Call("SET LOCAL lock_timeout = '5s'")
CREATE_ATTEMPTS_MAX = 5
# The table that says what the others are comes last: another process may make all of them meanwhile.
PLACES = Call(
    "SELECT num_nulls(to_regclass('slice_lock'), to_regclass('stream'), to_regclass('event'), to_regclass('blob'),"
    " to_regclass('idempotency')) = 0, to_regclass('refold_meta')::text, to_regclass('pg_dist_partition')::text"
)
# The tables of a log, and those beside it. An encrypted store has its rows in pages.
LOG = ("refold_meta", "slice_lock", "stream", "tag", "event", "blob", "dictionary", "idempotency", "block", "part",
       "snapshot", "segment", "data_key")  # fmt: skip
OF_ROWS = ("checkpoint", "note", "sealed_page")
# Objects that can change, drop or hide the rows of a table and are switched on. The answers have no owners.
FOREIGN = f"""
    WITH own AS (SELECT oid, relname FROM pg_class WHERE relname IN {(*LOG, *OF_ROWS)} AND {IN_SCHEMA})
    SELECT 'trigger', tgname::text, relname::text FROM pg_trigger JOIN own ON own.oid = tgrelid
        WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')
    UNION ALL SELECT 'rule', rulename::text, relname::text FROM pg_rewrite JOIN own ON own.oid = ev_class
        WHERE ev_enabled IN ('O', 'A')
    UNION ALL SELECT 'policy', 'row level security', relname::text FROM own WHERE row_security_active(oid)
    ORDER BY 1, 2, 3 LIMIT {ROWS_REPORTED}
"""
# Where the tables are, and where new ones would be made, if that is another schema: a search path may name several.
ELSEWHERE = f"""
    SELECT relnamespace::regnamespace::text, quote_ident(current_schema()) FROM pg_class
        WHERE oid = 'refold_meta'::regclass AND NOT {IN_SCHEMA}
"""
# The errors for a name that is taken: as a table, as a type, or in the catalogue's index if two create it at once.
MADE_BY_ANOTHER = (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation)
# The SQLSTATEs of a user who may not make tables, and of a standby.
MAY_NOT_WRITE = ("25006", "42501")


def _statements(name: str) -> list[str]:
    text = resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return [part.strip() for part in "\n".join(lines).split(";") if part.strip()]


# The statements that bring tables to a version from the one before it.
STEPS: dict[int, Sequence[str]] = {2: (), 3: _statements("blocks.sql")}


def prepare_schema(wire: Wire, where: str, *, create: bool, read_only: bool = False) -> bool:
    """
    Make sure that the connection's current schema holds a log that this version understands; upgrade an older one.

    Returns whether its tables are distributed over the servers of a Citus cluster.

    Raises:
        StorageUnavailableError: there is no log, and none may be made; it is from a newer Refold, or tables of another
            program have its names; or it is from an older one, and this user may not make tables.
        DamagedError: the table with the version is missing, or holds no version.
        StorageReadOnlyError: not `read_only`, and something that is not Refold's can change or hide the tables' rows,
            or new tables would be made in another schema.
    """
    taken = ""
    for _ in range(CREATE_ATTEMPTS_MAX):
        version, is_distributed, hindrance = _version(wire)
        if version is not None:
            if version > SCHEMA_VERSION:
                raise StorageUnavailableError(f"{where} was written by a newer Refold: update this one")
            if hindrance and not read_only:
                raise StorageReadOnlyError(f"{where} cannot be written: {hindrance}")
            if version < SCHEMA_VERSION:
                _bring_forward(wire, where, is_distributed=is_distributed)
            return is_distributed
        if read_only or not create:
            raise StorageUnavailableError(f"there is no log in {where}: check the name, or import into it")
        try:
            wire.run(BEGIN, *_creation(), COMMIT)
            return False
        except MADE_BY_ANOTHER as error:
            taken = error.diag.message_primary or ""
            wire.settle()
    raise StorageUnavailableError(
        f"another program's table is in the way in {where} ({taken}): give Refold a database or a schema of its own"
    )


def run_making(wire: Wire, *calls: Call) -> list[Rows]:
    """Run a transaction that makes missing tables; run it again if another process made them at the same moment."""
    try:
        return wire.run(*calls)
    except MADE_BY_ANOTHER:
        wire.settle()
        return wire.run(*calls)


def schema_statements(prefix: str = "") -> list[str]:
    """
    Return the statements that create a log's tables, each name with `prefix`. Only Refold's own log has no prefix; it
    also has the tables of blocks.
    """
    names = ["schema.sql"] if prefix else ["schema.sql", "blocks.sql"]
    return [statement.format(p=prefix) for name in names for statement in _statements(name)]


def _creation() -> list[Call]:
    statements = schema_statements()
    slices = ", ".join(f"({number})" for number in range(SLICES))
    statements.append(f"INSERT INTO slice_lock VALUES {slices}")
    # So that each row names the last transaction that locked it, from the beginning (see ends.py).
    statements.append("SELECT 1 FROM slice_lock FOR UPDATE")
    statements.append(f"INSERT INTO refold_meta VALUES ('schema_version', '{SCHEMA_VERSION}')")
    return [Call(statement) for statement in statements]


def _bring_forward(wire: Wire, where: str, *, is_distributed: bool) -> None:
    """Take all steps from the present version in one transaction; another process may come first."""
    try:
        ((version,),) = wire.run(BEGIN, WAIT_BRIEFLY, LOCKED_VERSION)[2]
        steps = [Call(step) for number in range(int(version) + 1, SCHEMA_VERSION + 1) for step in STEPS[number]]
        reached = f"UPDATE refold_meta SET value = '{max(int(version), SCHEMA_VERSION)}' WHERE name = 'schema_version'"
        cluster = [SEQUENTIAL, *_distribution()] if is_distributed else []
        wire.run(*cluster[:1], *steps, *cluster[1:], Call(reached), COMMIT)
    except psycopg.Error as error:
        if error.sqlstate not in MAY_NOT_WRITE:
            raise
        wire.settle()
        raise StorageUnavailableError(
            f"the tables of {where} are those of an older Refold: let their owner run `refold init` on it once"
        ) from error


def _version(wire: Wire) -> tuple[int | None, bool, str]:
    """Return the version of the tables, None without any; whether they are distributed; why they cannot be written."""
    ((others, table, catalogue),) = wire.run(PLACES)[0]
    if table is None and others:
        raise DamagedError("the table refold_meta", "it is missing, while the other tables of Refold are there")
    if table is None:
        return None, False, ""
    version = Call("SELECT value FROM refold_meta WHERE name = 'schema_version'")
    is_distributed = Call("SELECT 1 FROM pg_dist_partition WHERE logicalrelid = 'event'::regclass")
    calls = (version, Call(ELSEWHERE), Call(FOREIGN), *[is_distributed] * bool(catalogue))
    rows, elsewhere, foreign, *distributed = wire.run(*calls)
    if not rows or not VERSION.fullmatch(rows[0][0]):
        found = repr(rows[0][0]) if rows else "missing"
        raise DamagedError("the table refold_meta", f"its schema_version is {found}")
    hindrances = (
        *(_elsewhere_fault(*found) for found in elsewhere),
        *(foreign_object_fault(*found) for found in foreign),
        "",
    )
    return int(rows[0][0]), any(distributed), hindrances[0]


def _elsewhere_fault(schema: str, first: str) -> str:
    found = f"its tables are in the schema {schema}, but new ones would be made in {first}"
    way_out = f"set the user's search_path to {schema}, and drop the tables that Refold made in {first}"
    return f"{found}, and erasures would leave some out: {way_out}"


def distribute(wire: Wire, where: str) -> None:
    """
    Distribute the tables of a log over the servers of a Citus cluster, with the rows that they have.

    Raises:
        StorageUnavailableError: the database has no Citus.
    """
    if wire.run(Call("SELECT to_regclass('pg_dist_partition')::text"))[0] == [(None,)]:
        raise StorageUnavailableError(f"there is no Citus in {where}: let its owner run CREATE EXTENSION citus")
    wire.run(BEGIN, SEQUENTIAL, *_distribution(), COMMIT)


def _distribution() -> Iterator[Call]:
    for statement in schema_statements():
        words = statement.split()
        if words[:2] == ["CREATE", "TABLE"]:
            yield distribution(words[2]) if BY_SLICE.search(statement) else copied_everywhere(words[2])


def distribution(table: str) -> Call:
    """Return the statement that distributes a table by its slice, unless that was done."""
    beside = "none" if table == "slice_lock" else "slice_lock"
    make = f"SELECT create_distributed_table('{table}', 'slice', colocate_with := '{beside}')::text"
    return Call(make + NOT_YET.format(name=table))


def copied_everywhere(table: str) -> Call:
    """Return the statement by which each server gets a copy of a table, unless that was done."""
    return Call(f"SELECT create_reference_table('{table}')::text" + NOT_YET.format(name=table))
