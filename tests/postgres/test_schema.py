"""The tables are made at the first use, once, whoever comes first."""

import psycopg
import pytest

from refold.domain.chat.events import Named, Opened
from refold.domain.errors import StorageUnavailableError
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.postgres.schema import schema_statements
from tests.contract.stores import start_python
from tests.contract.writing import append, at_once, said

from .conftest import OpenLog
from .tables import count, spoil


def _write(log: PostgresLog, stream: str) -> None:
    append(log, stream, said(1))


def test_processes_that_come_first_together(pg_url: str, open_log: OpenLog) -> None:
    """Each of four processes and of four threads finds a log that it can write to."""
    script = "tests.postgres.newcomer"
    processes = [start_python(script, pg_url, f"chat:{number}") for number in range(4)]
    raised = at_once(*(lambda number=number: _write(open_log(), f"chat:t{number}") for number in range(4)))

    assert (raised, [process.communicate()[0] for process in processes]) == ([], ["1\n"] * 4)
    assert open_log().database.ask(count("stream"), count("slice_lock"), count("refold_meta")) == [
        [(8,)],
        [(1024,)],
        [(1,)],
    ]


def test_a_newer_schema_is_refused(log: PostgresLog, pg_url: str) -> None:
    """What a newer Refold wrote is not guessed at."""
    spoil(pg_url, "update refold_meta set value = '999' where name = 'schema_version'")

    with pytest.raises(StorageUnavailableError, match="was written by a newer Refold: update this one"):
        PostgresLog(pg_url)


def test_nothing_is_made_unasked(pg_url: str) -> None:
    """With create=False an empty database stays empty."""
    with pytest.raises(StorageUnavailableError, match="there is no log in"):
        PostgresLog(pg_url, create=False)
    with psycopg.connect(pg_url) as connection:
        assert connection.execute("select count(*) from pg_tables where schemaname = 'public'").fetchone() == (0,)


def test_an_existing_log_is_opened(log: PostgresLog, open_log: OpenLog) -> None:
    """With create=False, too."""
    append(log, "chat:a", said(1))

    assert open_log(create=False).head("chat:a") == 1


def test_another_program_s_tables_are_left_alone(pg_url: str) -> None:
    """A table of ours that is not ours stops it; nothing else is made."""
    with psycopg.connect(pg_url) as connection:
        connection.execute("create table event (what text)")

    with pytest.raises(StorageUnavailableError, match=r"in the way .*\"event\" already exists"):
        PostgresLog(pg_url)
    with psycopg.connect(pg_url) as connection:
        assert connection.execute("select to_regclass('refold_meta'), to_regclass('stream')").fetchone() == (None, None)


def test_a_schema_of_its_own(pg_url: str, open_log: OpenLog) -> None:
    """All lies in the schema that the connection's search path names first."""
    with psycopg.connect(pg_url) as connection:
        connection.execute("create schema elsewhere")

    append(open_log(f"{pg_url}&options=-csearch_path%3Delsewhere"), "chat:a", said(1))

    with psycopg.connect(pg_url) as connection:
        assert connection.execute("select count(*) from elsewhere.event").fetchone() == (1,)


def test_every_key_begins_with_the_slice(log: PostgresLog, pg_url: str) -> None:
    """So that the tables can be cut into shards by it; those that cannot are small and on every shard."""
    with psycopg.connect(pg_url) as connection:
        rows = connection.execute(
            "select t.relname from pg_index i join pg_class t on t.oid = i.indrelid"
            " join pg_attribute a on a.attrelid = t.oid and a.attnum = i.indkey[0]"
            " where t.relnamespace = 'public'::regnamespace and a.attname <> 'slice'"
        ).fetchall()

    assert {name for (name,) in rows} == {"refold_meta", "stream", "tag", "dictionary"}


def test_types_of_events_are_numbered_in_a_row(log: PostgresLog, pg_url: str) -> None:
    """From 1 on, whenever they come first: a number takes few bytes in each event."""
    append(log, "chat:a", Opened(), said(1))
    append(log, "chat:a", Named(name="here", version=1))

    with psycopg.connect(pg_url) as connection:
        rows = connection.execute("select key from tag order by key").fetchall()
    assert rows == [(1,), (2,), (3,)]


def test_ids_are_in_the_collation_of_bytes(log: PostgresLog, pg_url: str) -> None:
    """Every text column, whatever the database's own."""
    with psycopg.connect(pg_url) as connection:
        rows = connection.execute(
            "select table_name, column_name from information_schema.columns"
            " where table_schema = 'public' and data_type = 'text' and collation_name is distinct from 'C'"
        ).fetchall()

    assert rows == [("refold_meta", "value")]


def test_a_prefix_names_every_table() -> None:
    """The same tables for an application of its own."""
    assert all(" app_" in statement for statement in schema_statements("app_"))
