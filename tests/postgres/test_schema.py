"""The tables are made at the first use, once, whoever comes first."""

import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import LiteralString
from urllib.parse import quote

import psycopg
import pytest

import refold
from refold.domain.chat.events import Named, Opened
from refold.domain.errors import DamagedError, StorageReadOnlyError, StorageUnavailableError
from refold.domain.ids import slice_of
from refold.infrastructure.cli import main
from refold.infrastructure.log.evidence import SegmentRow
from refold.infrastructure.log.postgres import connection
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.postgres.schema import schema_statements
from refold.infrastructure.log.postgres.side_tables import MAKE_SEGMENTS, MAKE_SNAPSHOTS, Segments, Snapshots
from refold.infrastructure.log.postgres.wire import BEGIN, Call, int4
from refold.infrastructure.trust.tables import BOTH, IN_POSTGRES, PostgresTables
from tests.contract.writing import append, at_once, said
from tests.support.processes import Program
from tests.support.waiting import soon

from .conftest import OpenLog
from .roles import users
from .sealing import seal_slice, small_blocks
from .tables import count, spoil

NEWCOMER = Program("tests.postgres.newcomer")


def _write(log: PostgresLog, stream: str) -> None:
    append(log, stream, said(1))


@pytest.mark.long
def test_processes_that_come_first_together(pg_url: str, open_log: OpenLog) -> None:
    """Each of four processes and of four threads finds a log that it can write to."""
    processes = [NEWCOMER.start(pg_url, f"chat:{number}") for number in range(4)]
    raised = at_once(*(lambda number=number: _write(open_log(), f"chat:t{number}") for number in range(4)))

    assert (raised, [process.communicate()[0] for process in processes]) == ([], ["1\n"] * 4)
    assert open_log().database.ask(count("stream"), count("slice_lock"), count("refold_meta")) == [
        [(8,)],
        [(1024,)],
        [(1,)],
    ]


def test_first_questions_together(pg_url: str) -> None:
    """Whoever asks first makes the tables of a projection; several at once find them, and each row is there once."""
    with refold.open(pg_url) as one, refold.open(pg_url) as other:
        one.chat("a").add_message("user", "plum")
        raised = at_once(one.contexts, lambda: one.search("plum"), other.contexts, lambda: other.search("plum"))

        assert raised == []
        assert [len(store.contexts()) for store in (one, other)] == [1, 1]
        assert [len(store.search("plum")) for store in (one, other)] == [1, 1]


def test_a_newer_schema_is_refused(log: PostgresLog, pg_url: str) -> None:
    """What a newer Refold wrote is not guessed at."""
    spoil(pg_url, "update refold_meta set value = '999' where name = 'schema_version'")

    with pytest.raises(StorageUnavailableError, match="was written by a newer Refold: update this one"):
        PostgresLog(pg_url)
    for damaged in ("0", "-5", "two", "9" * 5_000):
        spoil(pg_url, f"update refold_meta set value = '{damaged}' where name = 'schema_version'")
        with pytest.raises(DamagedError, match="its schema_version is"):
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


def test_snapshots_of_a_store_without_their_table(log: PostgresLog, open_log: OpenLog, pg_url: str) -> None:
    """An earlier Refold did not make it; it comes with the first snapshot."""
    append(log, "chat:a", said(1))
    with psycopg.connect(pg_url) as connection:
        connection.execute("drop table if exists snapshot")

    log.keep_snapshot("chat:a", lambda: b"packed")
    log.close()

    assert open_log().snapshot("chat:a") == b"packed"


@pytest.mark.parametrize("make", [[MAKE_SNAPSHOTS], [MAKE_SEGMENTS], IN_POSTGRES], ids=["snapshot", "segment", "keys"])
def test_a_table_that_another_process_makes_at_the_same_moment(
    log: PostgresLog, pg_url: str, make: Sequence[str]
) -> None:
    """Who comes second waits for it and writes its rows; nothing is called damaged."""
    append(log, "chat:a", said(1))
    snapshots, segments, keys = Snapshots(log.database), Segments(log.database, log._blocks), PostgresTables(log)
    row = SegmentRow(0, b"root", b"contents", b"ends")
    writes: dict[str, tuple[Callable[[], None], Callable[[], object], object]] = {
        MAKE_SNAPSHOTS: (lambda: snapshots.store("chat:a", b"packed"), lambda: snapshots.read("chat:a"), b"packed"),
        MAKE_SEGMENTS: (lambda: segments.keep(7, [row]), lambda: segments.segments(7, 1), [row]),
        IN_POSTGRES[0]: (keys.make, keys.names, [*BOTH]),
    }
    write, read, expected = writes[make[0]]
    with psycopg.connect(pg_url) as other, ThreadPoolExecutor(1) as thread:
        for statement in make:
            other.execute(statement.encode())
        written = thread.submit(write)
        assert soon(lambda: other.execute("select 1 from pg_locks where not granted").fetchone() is not None)
        other.commit()
        written.result(10)

    assert read() == expected


def test_another_program_s_tables_are_left_alone(pg_url: str) -> None:
    """A table of ours that is not ours stops it; nothing else is made."""
    with psycopg.connect(pg_url) as connection:
        connection.execute("create table event (what text)")

    with pytest.raises(StorageUnavailableError, match=r"in the way .*\"event\" already exists"):
        PostgresLog(pg_url)
    with psycopg.connect(pg_url) as connection:
        assert connection.execute("select to_regclass('refold_meta'), to_regclass('stream')").fetchone() == (None, None)


@pytest.mark.parametrize("create", [False, True])
@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ("delete from refold_meta", "its schema_version is missing"),
        ("drop table refold_meta", "it is missing, while the other tables of Refold are there"),
    ],
)
def test_the_table_of_the_version_alone_is_gone(pg_url: str, spoilt: LiteralString, said: str, create: bool) -> None:
    """The others are Refold's all the same, and no other program's."""
    PostgresLog(pg_url).close()
    with psycopg.connect(pg_url) as connection:
        connection.execute(spoilt)

    with pytest.raises(DamagedError, match=f"the table refold_meta is damaged: {said}"):
        PostgresLog(pg_url, create=create)


def test_a_schema_of_its_own(pg_url: str, open_log: OpenLog) -> None:
    """All lies in the schema that the connection's search path names first."""
    with psycopg.connect(pg_url) as connection:
        connection.execute("create schema elsewhere")

    append(open_log(f"{pg_url}&options=-csearch_path%3Delsewhere"), "chat:a", said(1))

    with psycopg.connect(pg_url) as connection:
        assert connection.execute("select count(*) from elsewhere.event").fetchone() == (1,)


def test_a_schema_that_comes_before_that_of_the_tables(ready_pg_url: str) -> None:
    """As one with the user's name: rows made there would leave those of before, with erased texts, where they are."""
    with psycopg.connect(ready_pg_url) as connection:
        connection.execute("create schema authorization current_user")

    told = (
        r"are in the schema public, but new ones would be made in (\w+), .* set the user's search_path to public,"
        r" and drop the tables that Refold made in \1$"
    )
    with pytest.raises(StorageReadOnlyError, match=told):
        refold.open(ready_pg_url)
    refold.open(ready_pg_url, read_only=True).close()
    refold.open(f"{ready_pg_url}&options=-csearch_path%3Dpublic").close()


def test_a_schema_whose_name_needs_quotes(pg_url: str) -> None:
    """What goes through all its tables finds them, too: a vacuum and an erasure, and the rights of roles."""
    with psycopg.connect(pg_url) as connection:
        connection.execute('create schema "Two Words"')
    url = pg_url + "&options=" + quote(r'-csearch_path="Two\ Words"')
    with refold.open(url) as store:
        store.chat("a").add_message("user", "hello")
        assert store.vacuum() >= 0
    with users(url) as urls, refold.open(urls["reader"], create=False) as store:
        assert len(store.chat("a", create=False).items) == 1


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("create trigger t before insert on blob execute function noted()", "t on the table blob is no trigger"),
        ("create rule r as on insert to event do instead nothing", "r on the table event is no rule"),
    ],
)
def test_a_trigger_or_a_rule_of_others(ready_pg_url: str, made: LiteralString, said: str) -> None:
    """It may drop what is recorded: who writes is refused, and the check names it. One that is off does no harm."""
    with psycopg.connect(ready_pg_url) as connection:
        connection.execute("create function noted() returns trigger language plpgsql as 'begin return null; end'")
        connection.execute("create trigger off before insert on event for each row execute function noted()")
        connection.execute("alter table event disable trigger off")
    refold.open(ready_pg_url).close()
    with psycopg.connect(ready_pg_url) as connection:
        connection.execute(made)

    with pytest.raises(StorageReadOnlyError, match=f"cannot be written: {said} of Refold: drop it"):
        refold.open(ready_pg_url)
    with refold.open(ready_pg_url, read_only=True) as store:
        (problem,) = store.verify(processes=1).problems
    assert problem.reason == f"{said} of Refold: drop it"


DROPPING = """
    CREATE FUNCTION dropped() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER t BEFORE INSERT ON {} FOR EACH ROW EXECUTE FUNCTION dropped()
"""


@pytest.mark.parametrize("table", ["event", "stream", "blob", "idempotency"])
def test_a_trigger_that_drops_rows_of_a_program_that_runs(ready_pg_url: str, table: str) -> None:
    """It was opened before. Nothing is acknowledged that is not there, in whatever way it is appended."""
    with refold.open(ready_pg_url) as store:
        chat = store.chat("a")
        chat.add_message("user", "x")
        with psycopg.connect(ready_pg_url) as connection:
            connection.execute(DROPPING.format(table).encode())
        ways: dict[str, list[Callable[[], object]]] = {
            "event": [lambda: chat.add_message("user", "x"), lambda: chat.add_messages([{"role": "user"}] * 3)],
            "stream": [lambda: store.chat("new"), lambda: store.chat("newer")],
            "blob": [lambda: chat.add_message("user", "x" * 10_000)],
            "idempotency": [lambda: chat.add_message("user", "x", idempotency_key="k")],
        }
        for way in ways[table]:
            with pytest.raises(DamagedError, match=rf"the table {table} is damaged: it took 0 of \d row"):
                way()


@pytest.mark.parametrize("table", ["block", "part"])
def test_a_trigger_that_drops_blocks(log: PostgresLog, pg_url: str, table: str) -> None:
    """The events that were to be packed stay where they are."""
    recorded = append(log, "chat:a", *map(said, range(9))).events
    with psycopg.connect(pg_url) as connection:
        connection.execute(DROPPING.format(table).encode())

    with small_blocks(), pytest.raises(DamagedError, match=f"the table {table} is damaged: it took 0 of 1 row"):
        seal_slice(log, recorded[0].position.slice)
    assert log.database.ask(count("event")) == [[(9,)]]


def test_a_policy_that_hides_rows(ready_pg_url: str) -> None:
    """It would have a writer give a position twice; its own user, for whom nothing is hidden, goes on."""
    with psycopg.connect(ready_pg_url) as owner:
        owner.execute("alter table event enable row level security")
    with (
        users(ready_pg_url) as urls,
        pytest.raises(StorageReadOnlyError, match="row level security on the table event"),
    ):
        refold.open(urls["writer"], create=False)
    refold.open(ready_pg_url).close()


def test_a_schema_that_is_not_there(pg_url: str) -> None:
    """The search path has a misspelt name: nothing is said to be restored."""
    with pytest.raises(StorageUnavailableError, match=r"no schema .*: look at its search_path"):
        PostgresLog(f"{pg_url}&options=-csearch_path%3Dnowhere")


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


def test_a_table_of_earlier_days_does_no_harm(log: PostgresLog, pg_url: str) -> None:
    """The first structure had checksums of runs of events; nobody reads them any more."""
    with psycopg.connect(pg_url) as connection:
        connection.execute("create table run (slice int, stream int, version int, checksum bytea)")

    with refold.open(pg_url) as store:
        store.chat("a").add_message("user", "hello")
        assert store.verify().problems == ()


def test_users_who_may_make_no_tables(pg_url: str) -> None:
    """After `refold init` by the owner, a program may only write rows, and works; a reader reads contexts."""
    assert main(["init", "--db", pg_url]) == 0
    name = f"agent_{secrets.token_hex(4)}"
    with psycopg.connect(pg_url, autocommit=True) as owner:
        for role, rights in ((name, "select, insert, update, delete"), (f"{name}_r", "select")):
            owner.execute(f"create role {role} login".encode())
            owner.execute(f"grant {rights} on all tables in schema public to {role}".encode())
    try:
        url = pg_url.replace("user=refold", f"user={name}")
        with refold.open(url, create=False) as store:
            store.chat("a").add_message("user", "hello")
            assert [row.id for row in store.contexts()] == ["a"]
            assert store.search("hello")
            store.chat("b").fork("c")
            with pytest.raises(StorageReadOnlyError, match="let the owner of the tables do it"):
                store.rebuild("catalogue")
        with refold.open(url.replace(name, f"{name}_r"), create=False) as store:
            assert len(store.chat("a", create=False).items) == 1
            with pytest.raises(StorageReadOnlyError):
                store.chat("a").add_message("user", "no")
    finally:
        with psycopg.connect(pg_url, autocommit=True) as owner:
            for role in (name, f"{name}_r"):
                owner.execute(f"drop owned by {role}".encode())
                owner.execute(f"drop role {role}".encode())


def test_questions_to_a_server_that_takes_no_changes(ready_pg_url: str) -> None:
    """As one that stands by: rows that are up to date answer them, also for a program that writes elsewhere."""
    with refold.open(ready_pg_url) as store:
        store.chat("a").add_message("user", "hello")
        assert store.search("hello")
        assert store.contexts()

    with refold.open(f"{ready_pg_url}&options=-cdefault_transaction_read_only%3Don") as store:
        assert [row.id for row in store.contexts()] == ["a"]
        assert store.search("hello")
        assert {one.behind for one in store.projections() if one.name in ("catalogue", "search")} == {0}
        with pytest.raises(StorageReadOnlyError, match="takes no changes"):
            store.rebuild("catalogue")


def test_a_writer_that_stands_still_lets_go(pg_url: str, open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server ends its transaction, so that others go on; when it wakes, it appends again."""
    call = connection.END_IF_IDLE
    monkeypatch.setattr(connection, "END_IF_IDLE", call._replace(sql=call.sql.replace("60s", "100ms")))
    stopped, other = open_log(), open_log()
    append(stopped, "chat:a", Opened(), root="a")
    wire = stopped.database.writer()
    wire.run(BEGIN, Call("SELECT 1 FROM slice_lock WHERE slice = $1 FOR UPDATE", (int4(slice_of("a")),)))

    append(other, "chat:b", Opened(), root="a")
    append(stopped, "chat:c", Opened(), root="a")

    assert other.streams() == ["chat:a", "chat:b", "chat:c"]


def test_a_setting_of_one_s_own_stays(pg_url: str, open_log: OpenLog) -> None:
    """Whoever gives a time-out in the URL means it."""
    log = open_log(f"{pg_url}&options=-c%20idle_in_transaction_session_timeout%3D7s%20-c%20statement_timeout%3D9s")

    settings = ("idle_in_transaction_session_timeout", "statement_timeout")
    found = log.database.ask(*(Call(f"SELECT current_setting('{name}')") for name in settings))
    assert found == [[("7s",)], [("9s",)]]
    assert open_log().database.ask(Call(f"SELECT current_setting('{settings[0]}')")) == [[("1min",)]]
