"""The own key of a store, from which that of its digests is derived, and what happens where it is missing."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import StorageReadOnlyError
from refold.infrastructure.databases import open_database, ring_of, tables_of
from refold.infrastructure.trust.keys import KEY_BYTES, MasterKeys
from refold.infrastructure.trust.tables import ADD_KEY, SqliteTables, Statement, Tables
from tests.trust.stores import places, wait_for_nobody
from tests.verifying.damaging import sql

KEYS = MasterKeys({"m1": bytes(KEY_BYTES)})


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place where nothing is stored yet."""
    if request.param == "postgres":
        return str(request.getfixturevalue("ready_pg_url"))
    return str(tmp_path / "agents.db")


@contextmanager
def tables_at(location: str) -> Iterator[Tables]:
    """Yield the tables of a store, which is not opened as such."""
    with closing(open_database(location, is_raw=True)[0]) as log:
        yield tables_of(log)


@pytest.mark.parametrize("encrypt", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"keys": KEYS}, {"keys": KEYS, "encrypt": False}, {"keys": KEYS, "read_only": True}]
)
def test_a_key_that_is_gone_is_not_made_anew(location: str, encrypt: bool, options: dict[str, Any]) -> None:
    """The error names it, and nothing is written: the row may be brought back, and all can be read then."""
    with refold.open(location, keys=KEYS, encrypt=encrypt) as store:
        store.chat("c").add_message("user", "Hello.")
    with tables_at(location) as tables:
        (gone,) = tables.change(Statement("DELETE FROM data_key WHERE id = 'store' RETURNING *"))[0]
        before = tables.ask("SELECT * FROM data_key")

    with pytest.raises(refold.KeyMissingError, match="its own key is not in its table data_key: restore") as error:
        refold.open(location, **options)
    assert error.value.key == "store"

    with tables_at(location) as tables:
        assert tables.ask("SELECT * FROM data_key") == before
        tables.change(Statement("INSERT INTO data_key VALUES ($1, $2, $3, $4, $5)", gone))
    with refold.open(location, keys=KEYS, encrypt=encrypt) as store:
        assert [item.text for item in store.chat("c").items] == ["Hello."]


def test_a_process_that_was_killed_before_it_made_the_key(location: str) -> None:
    """There is no event yet, so the store may be made with keys or without, and is what it was made then."""
    with tables_at(location) as tables:
        tables.make()

    with refold.open(location) as store:
        store.chat("c").add_message("user", "Hello.")

    with pytest.raises(refold.KeyMissingError, match="or open it without keys if it was made without"):
        refold.open(location, keys=KEYS)
    with refold.open(location) as store:
        assert store.verify().problems == ()


def test_a_store_without_a_key_is_only_read(location: str) -> None:
    """As after a copy that was killed at its beginning: the error says what makes the key, and then it is read."""
    with closing(open_database(location)[0]):
        pass

    with pytest.raises(StorageReadOnlyError, match="no key of its own yet: `refold init` with the keys makes one"):
        refold.open(location, keys=KEYS, read_only=True)

    with closing(open_database(location, keys=KEYS)[0]):
        pass
    with refold.open(location, keys=KEYS, read_only=True) as store:
        assert store.contexts() == []


def test_two_that_make_a_store_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The slower one finds the tables of the faster one, and its events: they are not taken for events without keys."""
    names, path = SqliteTables.names, tmp_path / "agents.db"

    def overtaken(tables: SqliteTables) -> list[str]:
        found = names(tables)
        if not found:
            monkeypatch.setattr(SqliteTables, "names", names)
            with refold.open(path, keys=KEYS) as store:
                store.chat("c").add_message("user", "Hello.")
        return found

    monkeypatch.setattr(SqliteTables, "names", overtaken)
    with refold.open(path, keys=KEYS) as store:
        assert len(store.chat("c").items) == 1


WRONG = {"subject": b"x", "made_at": "x", "master": b"x", "wrapped": 7}


@pytest.mark.parametrize(("column", "value"), WRONG.items(), ids=WRONG)
def test_a_value_of_another_type_in_the_row_of_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str, value: object
) -> None:
    """SQLite keeps any type in each column; the error is one of Refold, and says which row it is."""
    wait_for_nobody(monkeypatch)
    path = str(tmp_path / "agents.db")

    def change(key: str) -> None:
        sql(path, f"UPDATE data_key SET {column} = ? WHERE {key}", value)

    with refold.open(path, keys=KEYS) as store:
        store.chat("c", user="mia").add_message("user", "Hello.")
        change("id <> 'store'")
        store.chat("d", user="tom").add_message("user", "Hello.")
        tom = store.log.newest_key("tom")  # type: ignore[attr-defined]
        with pytest.raises(refold.DamagedError, match=r"the row of the key .* in data_key"):
            store.rotate_keys()
        # Others are erased all the same, and their keys destroyed; the receipt names the row.
        done = store.erase(user="tom", why="ticket 7", dry_run=False)
        assert done.receipt is not None
        assert any("in data_key, if its key is to be destroyed" in one for one in done.receipt.unreached)
        with pytest.raises(refold.KeyDestroyedError):
            ring_of(store.log)._read(tom)

    change("id = 'store'")
    with pytest.raises(refold.DamagedError, match=r"the row of the key 'store' in data_key"):
        refold.open(path, keys=KEYS)


@pytest.mark.parametrize("kind", ["sealed", "sealed-postgres", "sealed-memory"])
@pytest.mark.parametrize("change", ["subject = 'ab'", "made_at = made_at + 1", "wrapped = substr(wrapped, 1, 90)"])
def test_a_key_is_bound_to_its_row(
    kind: str, change: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nobody takes it out of an erasure, or gives it to somebody else, by a change of the table."""
    monkeypatch.setattr(request, "param", kind, raising=False)
    for place in places(request, tmp_path):
        with place.open() as store:
            store.chat("a", user="mia").add_message("user", "Hello.")
            store.chat("b", user="tom").add_message("user", "Hello.")
            ring = ring_of(store.log)
            mia = ring.key(store.log.newest_key("mia"))  # type: ignore[attr-defined]
            tables = ring._tables
            tables.change(Statement(f"UPDATE data_key SET {change} WHERE id = $1", (mia.id,)))

            store.log._subjects.clear()  # type: ignore[attr-defined]
            with pytest.raises(
                refold.DamagedError, match=f"the row of the key '{mia.id}' in data_key is damaged: its key"
            ):
                store.log.read("chat:a")
            with pytest.raises(refold.DamagedError, match="in data_key is damaged"):
                store.erase(user="mia", why="ticket 7", dry_run=False)
            assert len(store.log.read("chat:b")) == 2

            tables.change(Statement("DELETE FROM data_key WHERE id = $1", (mia.id,)), Statement(ADD_KEY, mia.row))
            assert store.erase(user="mia", why="ticket 7", dry_run=False).events == 2
            assert not ring.retired()


@pytest.mark.parametrize("kind", ["sealed", "sealed-postgres", "sealed-memory"])
def test_keys_of_earlier_versions_are_bound_when_they_are_rotated(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They open as ever before, and nothing is encrypted anew."""
    monkeypatch.setattr(request, "param", kind, raising=False)
    for place in places(request, tmp_path):
        assert place.keys is not None
        with place.open() as store:
            store.chat("a", user="mia").add_message("user", "Hello.")
            ring = ring_of(store.log)
            for row in [*ring.rows()]:
                _, wrapped = place.keys.wrap(ring.key(row.id).secret)
                ring._tables.change(Statement("UPDATE data_key SET wrapped = $1 WHERE id = $2", (wrapped, row.id)))

            assert len(store.log.read("chat:a")) == 2
            assert (store.rotate_keys(), store.rotate_keys()) == (2, 0)
            ring._tables.change(Statement("UPDATE data_key SET subject = 'ab' WHERE id <> 'store'"))
            with pytest.raises(refold.DamagedError, match="in data_key is damaged"):
                store.log.read("chat:a")


def test_a_key_stays_retired(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes the mark away does not keep it from the process that erases."""
    with refold.open(":memory:", keys=KEYS) as store:
        store.chat("a", user="mia").add_message("user", "Hello.")
        ring = ring_of(store.log)
        key = ring.key(store.log.newest_key("mia"))  # type: ignore[attr-defined]

        ring.retire(key.subject)
        ring._tables.change(Statement("UPDATE data_key SET subject = $1 WHERE id = $2", (key.subject, key.id)))
        ring.close(ring.retired())

        assert ring.destroy(ring.retired()) == 1
        with pytest.raises(refold.KeyDestroyedError):
            store.log.read("chat:a")


SEALED = pytest.mark.parametrize("kind", ["sealed", "sealed-postgres"])


@SEALED
def test_the_pages_of_rows_are_gone(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rows are made anew, as those of every projection; without keys the store is not taken for one that is plain."""
    monkeypatch.setattr(request, "param", kind, raising=False)
    for place in places(request, tmp_path):
        with place.open() as store:
            store.chat("a", user="mia").add_message("user", "Hello.")
            assert len(store.contexts()) == 1
        with tables_at(place.location) as tables:
            tables.change(Statement("DROP TABLE sealed_page"))

        with pytest.raises(refold.KeyMissingError, match="is encrypted with the master key 'first'"):
            refold.open(place.location)
        with place.open() as store:
            assert len(store.contexts()) == len(store.search("hello")) == 1
            assert store.verify().problems == ()


@SEALED
def test_the_row_of_a_key_is_gone_or_empty(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error says what to restore; a key that nobody can open keeps nobody else from being erased."""
    monkeypatch.setattr(request, "param", kind, raising=False)
    for place in places(request, tmp_path):
        with place.open() as store:
            for user in ("mia", "tom"):
                store.chat(f"of {user}", user=user).add_message("user", "Hello.")
            mia = store.log.newest_key("mia")  # type: ignore[attr-defined]
        with tables_at(place.location) as tables:
            whole = tables.ask("SELECT * FROM data_key WHERE id = $1", mia)[0]
            tables.change(Statement("UPDATE data_key SET wrapped = $1 WHERE id = $2", (b"nothing", mia)))

        with place.open() as store:
            with pytest.raises(refold.WrongKeyError):
                store.log.read("chat:of mia")
            assert store.erase(user="tom", why="ticket 7", dry_run=False).events == 2
        with tables_at(place.location) as tables:
            tables.change(Statement("DELETE FROM data_key WHERE id = $1", (mia,)))
        gone = f"the key '{mia}' is not in the table data_key of the store: restore the database from a copy"
        with place.open() as store, pytest.raises(refold.KeyMissingError, match=gone):
            store.log.read("chat:of mia")
        with tables_at(place.location) as tables:
            tables.change(Statement("INSERT INTO data_key VALUES ($1, $2, $3, $4, $5)", whole))
            tables.change(Statement("UPDATE data_key SET wrapped = $1 WHERE id = 'store'", (b"",)))
        with pytest.raises(
            refold.DamagedError, match="the row of the key 'store' in data_key is damaged: it has no key"
        ):
            place.open()
