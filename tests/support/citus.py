"""
The rules of Citus for statements and tables, a stand-in for its catalogue, and databases on a real cluster.

A table is distributed by its column `slice` or copied to every server. Each unique key of a distributed table holds the
slice. A statement gives the slice of each distributed table that it names, so that one server can answer it. Otherwise
it is listed here as a statement for all servers.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import psycopg
from psycopg.sql import SQL, Identifier

from refold.infrastructure.log.postgres.schema import BY_SLICE, schema_statements
from refold.infrastructure.log.postgres.wire import Call, Wire

CLUSTER_URL = os.environ.get("REFOLD_TEST_CITUS_URL")
# Replaces the functions of Citus that Refold needs, on one server: it remembers which tables are distributed, and
# refuses statements that Citus refuses.
STAND_IN = """
    CREATE TABLE pg_dist_partition (logicalrelid regclass PRIMARY KEY, partmethod text, beside text);
    CREATE FUNCTION create_reference_table(relation regclass) RETURNS void LANGUAGE sql AS
        $$ INSERT INTO pg_dist_partition VALUES (relation, 'n', '') $$;
    CREATE FUNCTION create_distributed_table(relation regclass, partkey text, colocate_with text) RETURNS void
    LANGUAGE plpgsql AS $$ BEGIN
        IF EXISTS (SELECT FROM pg_index i WHERE i.indrelid = relation AND i.indisunique AND NOT EXISTS (
            SELECT FROM pg_attribute a
            WHERE a.attrelid = relation AND a.attname = partkey AND a.attnum = ANY (i.indkey)))
        THEN RAISE 'cannot create constraint on %', relation; END IF;
        INSERT INTO pg_dist_partition VALUES (relation, 'h', colocate_with);
    END $$;
"""
DISTRIBUTED = {one.split()[2] for one in schema_statements() if BY_SLICE.search(one)}
DISTRIBUTED |= {"checkpoint", "note", "snapshot"}
FORBIDDEN = re.compile(
    r"RENAME CONSTRAINT|LOCK TABLE|\bNOTIFY|\bLISTEN|CREATE TRIGGER|nextval|unnest|advisory", re.IGNORECASE
)
NAMED = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE)\s+(?:ONLY\s+)?([a-z_0-9]+)")
KEYS = re.compile(r"(?:PRIMARY KEY|UNIQUE) \(([^)]*)\)")
SLICE = re.compile(r"\bslice (?:= (?:\$\d+|\d+|\w+\.slice)|IN \(\$)")
VALUES = re.compile(r"INSERT INTO \w+ (?:\(slice,[^)]*\) )?VALUES \((?:\$\d+|0)[,)]")
# The beginnings of statements for all servers, each with the reason why it may be one.
FOR_ALL = {
    r"SELECT slice, .* FROM slice_lock": "where each slice ends",
    r"WITH server AS .* FROM slice_lock": "where it ends, on one server",
    r"SELECT 1 FROM slice_lock WHERE xmax": "marks rows, on one server",
    r"SELECT 1 FROM slice_lock FOR UPDATE$": "marks rows when the tables are made, before they are distributed",
    r"SELECT .* FROM event AS e LEFT JOIN tag": "verify: events whose type has no name",
    r"SELECT id, slice, stream, key, .* FROM idempotency": "verify: keys without events",
    r"SELECT i\.slice, .* FROM idempotency": "verify and copy: all keys",
    r"SELECT slice, key, hash, data FROM blob": "verify: all large texts",
    r"SELECT .* FROM view_\w+ (AS r )?WHERE": "a list of rows, ordered by key, or a search",
    r"INSERT INTO view_\w+ SELECT \* FROM view_": "a rebuild in parts: each slice for itself",
    r"SELECT count\(\*\) FROM \w+$": "a test counts the rows of a table",
    r"DO \$\$ BEGIN DROP TABLE IF EXISTS view_": "drops or empties the table of a projection, on one server",
    r"DELETE FROM checkpoint$": "init --citus, before anything is distributed",
}


@lru_cache(maxsize=4_096)
def fault_of(sql: str) -> str | None:
    """
    Return why Citus would refuse a statement, or would send it to all servers instead of one; None if it keeps the
    rules.
    """
    text = " ".join(sql.split())
    if found := FORBIDDEN.search(text):
        return f"Citus has no {found[0]} for distributed tables"
    if text.startswith("CREATE TABLE"):
        name = text.removeprefix("CREATE TABLE ").removeprefix("IF NOT EXISTS ").split()[0]
        keys = [key for key in KEYS.findall(text) if _is_distributed(name) and "slice" not in key]
        return f"the key ({keys[0]}) of {name} does not hold the slice" if keys else None
    tables = [name for name in NAMED.findall(text) if _is_distributed(name)]
    bound = len(SLICE.findall(text))
    if bound >= len(tables) or VALUES.match(text) or any(re.match(one, text) for one in FOR_ALL):
        return None
    return f"it names {', '.join(tables)}, and the slice of {bound} of them"


def faults(statements: set[str]) -> dict[str, str]:
    """Return the statements that break a rule, with the reason."""
    return {sql: fault for sql in sorted(statements) if (fault := fault_of(sql))}


@contextmanager
def rules_kept() -> Iterator[None]:
    """Require that all statements that the wires of this process send in the block keep the rules."""
    with recorded() as statements:
        yield
    found = faults(statements)
    assert not found, found


def _is_distributed(name: str) -> bool:
    return name in DISTRIBUTED or name.startswith("view_")


@contextmanager
def recorded() -> Iterator[set[str]]:
    """Yield the set of all statements that this process sends by its wires until the end of the block."""
    seen: set[str] = set()
    hand_over, run_apart = Wire._hand_over, Wire.run_apart

    def handed_over(wire: Wire, calls: Sequence[Call]) -> None:
        seen.update(call.sql for call in calls)
        hand_over(wire, calls)

    def ran_apart(wire: Wire, call: Call) -> Any:
        seen.add(call.sql)
        return run_apart(wire, call)

    with patch.object(Wire, "_hand_over", handed_over), patch.object(Wire, "run_apart", ran_apart):
        yield seen


@contextmanager
def cluster_database() -> Iterator[str]:
    """Make a schema on the cluster at REFOLD_TEST_CITUS_URL, with distributed tables, and yield its URL."""
    assert CLUSTER_URL is not None
    name = f"test_{secrets.token_hex(6)}"
    with psycopg.connect(CLUSTER_URL, autocommit=True) as connection:
        connection.execute(SQL("create schema {}").format(Identifier(name)))
        url = f"{CLUSTER_URL}{'&' if '?' in CLUSTER_URL else '?'}options={quote(f'-csearch_path={name},public')}"
        # Here, so that tests without a cluster do not load the command line.
        from refold.infrastructure.cli import main

        try:
            assert main(["init", "--citus", "--db", url]) == 0
            yield url
        finally:
            connection.execute(SQL("drop schema {} cascade").format(Identifier(name)))
