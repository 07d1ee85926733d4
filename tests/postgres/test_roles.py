"""Least privilege: `refold init --roles` gives each kind of work the rights that it needs, and no others."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import refold
from refold.domain.errors import StorageBusyError, StorageReadOnlyError
from refold.infrastructure.cli import main
from refold.infrastructure.log.postgres.connection import PostgresDatabase
from refold.infrastructure.log.postgres.roles import ROLES, make_roles
from refold.infrastructure.log.postgres.schema import LOG, OF_ROWS
from tests.support import citus

from ..projecting.histories import talk_at_length
from .roles import users

pytestmark = pytest.mark.skipif(citus.CLUSTER_URL is not None, reason="roles of a cluster are made on each server")
# What no role may do, and the roles that may.
FORBIDDEN: dict[str, set[str]] = {
    "update event set payload = payload": {"eraser"},
    "delete from event": {"eraser"},
    "delete from block": {"eraser"},
    "delete from blob": {"eraser"},
    "update blob set data = data": {"eraser"},
    "delete from idempotency": {"eraser"},
    "insert into tag values (99, 'x')": {"writer", "eraser"},
    "update stream set key = key": set(),
    "delete from stream": set(),
    "update tag set name = name": {"eraser"},
    "update dictionary set data = data": set(),
    "update refold_meta set value = value": set(),
    "delete from slice_lock": set(),
    "delete from note": {"projector", "eraser"},
    "delete from checkpoint": {"projector", "eraser"},
    "truncate event": set(),
    "create table mine (a int)": set(),
    "drop table note": set(),
}


@pytest.fixture
def urls(ready_pg_url: str) -> Iterator[dict[str, str]]:
    """The URLs of a user of each role, for a store with a chat."""
    with refold.open(ready_pg_url) as store:
        store.chat("a").add_message("user", "hi")
        # As `refold run` does it for all projections.
        store.contexts(), store.audit("a")
    with users(ready_pg_url) as found:
        yield found


def said_in(chat: refold.ChatContext) -> object:
    """Return the text of the only message of a chat."""
    (message,) = chat.items
    assert isinstance(message, refold.ChatMessage)
    return message.content[0]


def test_the_reader_reads(urls: dict[str, str]) -> None:
    """Also as of the past, and lists whose rows are there; changes are refused with a typed error."""
    with refold.open(urls["reader"], create=False) as store:
        chat = store.chat("a", create=False)

        assert (len(chat.items), len(chat.at(1).items)) == (1, 0)
        assert [row.id for row in store.contexts()] == ["a"]
        assert store.audit("a")
        with pytest.raises(StorageReadOnlyError, match="forbids it"):
            chat.add_message("user", "ho")
        with pytest.raises(StorageReadOnlyError, match="forbids it"):
            store.chat("b")
        with pytest.raises(StorageReadOnlyError, match="let the owner of the tables do it"):
            store.vacuum()
        assert chat.version == 2


def test_a_restored_store_has_the_same_roles(pg_url: str, tmp_path: Path) -> None:
    """Programs that were given one go on in it; none gets a right that it did not have."""
    with refold.open(pg_url) as store:
        store.chat("a").add_message("user", "hi")
        store.contexts()
        store.backup(tmp_path / "a.backup")
    with users(pg_url) as urls:
        refold.restore(tmp_path / "a.backup", pg_url, overwrite=True)

        with refold.open(urls["writer"], create=False) as store:
            store.chat("a").add_message("user", "ho")
        with refold.open(urls["reader"], create=False) as store:
            assert len(store.chat("a", create=False).items) == 2
            with pytest.raises(StorageReadOnlyError, match="forbids it"):
                store.chat("b")


def test_the_writer_writes_and_the_projector_folds(urls: dict[str, str]) -> None:
    """The writer needs no rows, and the projector writes no event; with both roles one program does both."""
    large = "x" * 100_000
    with refold.open(urls["writer"], create=False) as store, refold.open(urls["projector"], create=False) as folded:
        chat = store.chat("b", session="s")
        chat.add_message("user", large, idempotency_key="k")
        chat.fork("c").add_message("user", "in the fork")
        with store.transaction():
            store.queue("q")
            chat.evict([chat.items[0].id])
        chat.name_version("here")

        assert [row.id for row in folded.contexts()] == ["a", "b", "c", "q"]
        assert [hit.context for hit in folded.search("fork")] == ["c"]
        events = folded.subscribe(name="mail")
        next(events)
        events.ack()
        with pytest.raises(StorageReadOnlyError):
            folded.chat("b").add_message("user", "no")
        # The rows that the projector keeps are read by the writer, who must not bring them up to date.
        assert store.search("fork")
        chat.add_message("user", "not folded yet")
        with pytest.raises(StorageReadOnlyError):
            store.search("fork")
        with pytest.raises(
            StorageReadOnlyError, match=r"for schema public\): let the owner of the tables do it, or run"
        ):
            folded.rebuild("catalogue")
        assert list(folded.verify(processes=1).problems) == []


def test_the_eraser_erases_and_archives(urls: dict[str, str], tmp_path: Path) -> None:
    """Its receipt says what only the owner can do: write the tables anew."""
    with refold.open(urls["eraser"], create=False) as store:
        chat = store.chat("a", create=False)
        store.archive(tmp_path / "cold", "a", why="cold")
        assert said_in(chat) == "[archived]"
        store.unarchive("a")
        assert said_in(chat) == "hi"

        done = store.erase(context="a", why="ticket 1", dry_run=False)

        assert said_in(chat) == "[erased]"
        assert [row.id for row in store.contexts()] == ["a"]
        assert any("until their owner writes them anew" in where for where in done.unreached)
        assert list(store.verify(processes=1).problems) == []


def test_one_tenant_sees_nothing_of_another(urls: dict[str, str], ready_pg_url: str) -> None:
    """Each has a schema, and roles of its own: neither reads nor writes what the other one has."""
    there = f"{ready_pg_url}&options=-csearch_path%3Dtenant_b"
    with psycopg.connect(ready_pg_url) as owner:
        owner.execute("create schema tenant_b")
    with refold.open(there) as store:
        store.chat("theirs").add_message("user", "secret")
    with users(there) as theirs:
        for kind in ROLES:
            with refold.open(urls["reader"], create=False) as store:
                assert [row.id for row in store.contexts()] == ["a"]
            with refold.open(theirs[kind], create=False) as store:
                assert store.log.head("chat:a") == 0
                assert store.log.head("chat:theirs") == 2
            for url, foreign in ((urls[kind], "tenant_b"), (theirs[kind], "public")):
                with psycopg.connect(url, autocommit=True) as connection:
                    for table in ("event", "blob", "stream"):
                        with pytest.raises(psycopg.errors.InsufficientPrivilege):
                            connection.execute(f"select * from {foreign}.{table}".encode())


@pytest.mark.parametrize("kind", ROLES)
def test_no_role_has_more(kind: str, urls: dict[str, str]) -> None:
    """What is forbidden is refused by the server itself."""
    may = set()
    with psycopg.connect(urls[kind], autocommit=True) as connection:
        for statement in FORBIDDEN:
            try:
                with connection.transaction(force_rollback=True):
                    connection.execute(statement.encode())
                may.add(statement)
            except psycopg.errors.InsufficientPrivilege:
                pass

    assert may == {statement for statement, kinds in FORBIDDEN.items() if kind in kinds}


def test_a_store_with_a_witness(ready_pg_url: str, tmp_path: Path) -> None:
    """Readers compare with it what they read, and writers bring it forward; its table may be there already."""
    witness = str(tmp_path / "witness")
    with refold.open(ready_pg_url, witness=witness) as store:
        talk_at_length(store, 600)
    with users(ready_pg_url) as found:
        with refold.open(found["writer"], create=False, witness=witness) as store:
            talk_at_length(store, 600)
        with refold.open(found["reader"], create=False, witness=witness) as store:
            assert len(store.chat("long", create=False).items) == 1_200
    with psycopg.connect(ready_pg_url) as owner:
        assert owner.execute("select number from segment").fetchall() == [(0,), (1,)]


def test_an_encrypted_store(pg_url: str, tmp_path: Path) -> None:
    """All tables are there that its programs may not make: those of places and snapshots, beside its pages of rows."""
    keys = refold.KeyFile(tmp_path / "keys.json")
    with users(pg_url, "--keys", str(tmp_path / "keys.json")) as urls:
        with refold.open(urls["writer"], keys=keys) as store:
            store.chat("a").add_message("user", "hi")
        with refold.open(urls["projector"], keys=keys) as store:
            events = store.subscribe(name="mail")
            assert next(events).version == 1
            events.ack()

            assert [row.id for row in store.contexts()] == ["a"]
            assert list(store.log.streams_with_snapshot()) == []


def test_all_tables_are_thought_of(urls: dict[str, str], ready_pg_url: str) -> None:
    """A table that is added later must be given to roles on purpose."""
    with psycopg.connect(ready_pg_url) as owner:
        rows = owner.execute(
            "select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace"
        ).fetchall()

    # Those of an encrypted store are missing here.
    assert {name for (name,) in rows if not name.startswith("view_")} == {*LOG, *OF_ROWS} - {"data_key", "sealed_page"}


def test_a_rebuild_by_the_owner_is_read_by_the_others(urls: dict[str, str], ready_pg_url: str) -> None:
    """Its new tables have the same rights; the roles can be made again, and lose what was granted beside."""
    with refold.open(ready_pg_url) as store:
        store.rebuild("catalogue")
    prefix = urls["reader"].partition("user=")[2].partition("_reader_user")[0]
    with psycopg.connect(ready_pg_url) as owner:
        owner.execute(f"grant delete on event to {prefix}_reader".encode())
    assert main(["--db", ready_pg_url, "init", "--roles", prefix]) == 0

    with refold.open(urls["reader"], create=False) as store:
        assert [row.id for row in store.contexts()] == ["a"]
    with psycopg.connect(urls["reader"]) as reader, pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.execute("delete from event")


def test_those_who_make_them_take_turns(ready_pg_url: str) -> None:
    """As several that start at once: the server would refuse one who changes the same rights at the same moment."""
    database = PostgresDatabase(f"{ready_pg_url}&options=-clock_timeout%3D20")
    with psycopg.connect(ready_pg_url) as other, closing(database):
        other.execute("select value from refold_meta where name = 'schema_version' for update")

        with pytest.raises(StorageBusyError, match="lock timeout"):
            make_roles(database, "never")

        assert other.execute("select count(*) from pg_roles where starts_with(rolname, 'never')").fetchone() == (0,)


def test_wrong_wishes_are_refused(tmp_path: object, ready_pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A prefix that is no name, and a file, which has no roles."""
    assert main(["--db", ready_pg_url, "init", "--roles", "a; drop table event"]) == 1
    assert "small letters" in capsys.readouterr().err
    assert main(["--db", f"{tmp_path}/store.db", "init", "--roles"]) == 2
