"""The sealed rows of projections: pages, processes that add them at once, and what is damaged."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.errors import InvalidInputError
from refold.domain.positions import BEGINNING, Moment
from refold.infrastructure.projecting.store import Checkpoint, Save
from refold.infrastructure.trust import sealed_rows
from refold.infrastructure.trust.keys import KEY_BYTES, MasterKeys
from refold.infrastructure.trust.sealed_rows import Page, SealedProjectionStore
from refold.infrastructure.trust.tables import PAGES
from refold.projections.catalogue import CATALOGUE
from tests.projecting.counts import Count, Counts

FIRST, SECOND = Moment(((-1, 1),)), Moment(((-1, 2),))
KEYS = MasterKeys({"m1": bytes(KEY_BYTES)})


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of a store that does not exist yet."""
    return str(tmp_path / "log.db")


@pytest.fixture
def store(path: str) -> Iterator[refold.Store]:
    """An encrypted store with a chat."""
    with refold.open(path, keys=KEYS) as store:
        store.chat("c").add_message("user", "first")
        yield store


def pages(path: str) -> list[int]:
    """Return the numbers of the stored pages."""
    with closing(sqlite3.connect(path)) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM sealed_page ORDER BY number")]


def test_rows_are_kept(path: str, store: refold.Store) -> None:
    """A second store answers from the pages of the first, and folds only what is new."""
    assert len(store.search("first")) == 1
    count = len(pages(path))

    with refold.open(path, keys=KEYS) as again:
        assert len(again.search("first")) == 1
        assert len(pages(path)) == count
        again.chat("c").add_message("user", "second")
        assert len(again.search("second")) == 1

    assert len(store.search("second")) == 1
    assert len(pages(path)) == count + 1


def test_two_take_turns(path: str, store: refold.Store) -> None:
    """Each applies the pages of the other, and none is lost or applied twice."""
    with refold.open(path, keys=KEYS) as other:
        for number in range(12):
            writer, reader = (store, other) if number % 2 else (other, store)
            writer.chat("c").add_message("user", f"word{number}")
            assert len(writer.search(f"word{number}")) == 1
            assert [row.items for row in reader.contexts()] == [number + 2]
        assert [len(one.search("word11")) for one in (store, other)] == [1, 1]
        assert other.verify().problems == store.verify().problems == ()
    assert pages(path) == list(range(1, len(pages(path)) + 1))


def test_many_pages_become_one(path: str, store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages before it are deleted, and another store that has some of them goes on from it."""
    monkeypatch.setattr(sealed_rows, "PAGES_MIN", 4)
    rows_in(store).save(Save(Counts(), {}, Checkpoint(), FIRST, notes={"a": "one"}))
    with refold.open(path, keys=KEYS) as behind:
        assert len(behind.search("first")) == 1
        for number in range(20):
            store.chat("c").add_message("user", f"word{number}")
            assert len(store.search(f"word{number}")) == 1
        assert pages(path)[0] > 4
        assert len(pages(path)) < 20
        assert len(behind.search("word19")) == len(behind.search("first")) == 1
        assert len(behind.contexts()) == 1
    with refold.open(path, keys=KEYS) as again:
        assert len(again.search("word7")) == 1
        assert rows_in(again).note("a") == "one"
        assert again.verify().problems == ()


def test_another_process_is_faster(path: str, store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it adds a page just before all pages become one, none is deleted, and who comes later reads all."""
    monkeypatch.setattr(sealed_rows, "PAGES_MIN", 4)
    sealed = SealedProjectionStore._sealed
    with refold.open(path, keys=KEYS) as other:
        for number in range(3):
            store.chat("c").add_message("user", f"word{number}")
            assert len(store.search(f"word{number}")) == 1

        def overtaken(rows: SealedProjectionStore, number: int, page: Page) -> bytes:
            if page.is_whole:
                monkeypatch.setattr(SealedProjectionStore, "_sealed", sealed)
                monkeypatch.setattr(sealed_rows, "PAGES_MIN", 99)
                rows_in(other).save(Save(Counts(), counted("a", 1), Checkpoint(), FIRST))
            return sealed(rows, number, page)

        monkeypatch.setattr(SealedProjectionStore, "_sealed", overtaken)
        store.chat("c").add_message("user", "last")
        assert len(store.search("last")) == 1

    assert SealedProjectionStore._sealed is sealed
    with refold.open(path, keys=KEYS) as again:
        for each in (again, store):
            assert len(each.search("word1")) == len(each.search("last")) == 1
            assert rows_in(each).rows(Counts()) == [Count("a", 1)]


def test_another_process_is_much_faster(path: str, store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it has added pages and made all one page before a change is written, the change is made behind that."""
    assert len(store.search("first")) == 1
    sealed = SealedProjectionStore._sealed
    with refold.open(path, keys=KEYS) as other:

        def overtaken(rows: SealedProjectionStore, number: int, page: Page) -> bytes:
            monkeypatch.setattr(SealedProjectionStore, "_sealed", sealed)
            monkeypatch.setattr(sealed_rows, "PAGES_MIN", 1)
            rows_in(other).save(Save(Counts(), counted("a", 1), Checkpoint(), FIRST))
            monkeypatch.setattr(sealed_rows, "PAGES_MIN", 99)
            return sealed(rows, number, page)

        monkeypatch.setattr(SealedProjectionStore, "_sealed", overtaken)
        rows_in(store).drop(CATALOGUE)

        assert rows_in(store).rows(CATALOGUE) == rows_in(other).rows(CATALOGUE) == []
    assert pages(path) == [3, 4]
    with refold.open(path, keys=KEYS) as again:
        for each in (again, store):
            assert rows_in(each).rows(Counts()) == [Count("a", 1)]
            assert len(each.search("first")) == 1


def test_a_rebuild_takes_their_place(path: str, store: refold.Store) -> None:
    """Rebuilt rows equal those before, and other processes get them."""
    rows = store.contexts()
    with refold.open(path, keys=KEYS) as other:
        other.rebuild("catalogue")
        assert other.contexts() == rows
        assert store.contexts() == rows
        assert store.verify().problems == ()


DAMAGES = (
    "UPDATE sealed_page SET body = x'00'",
    "DELETE FROM sealed_page WHERE number = 1",
    "DELETE FROM sealed_page WHERE number = 2",
    "UPDATE sealed_page SET body = 2.5",
)


@pytest.mark.parametrize("sql", DAMAGES)
def test_damaged_pages_are_named(path: str, sql: str) -> None:
    """They are not taken for rows; events are not concerned."""
    with refold.open(path, keys=KEYS) as store:
        store.chat("c").add_message("user", "first")
        assert len(store.search("first")) == 1
        for word in ("second", "third"):
            store.chat("c").add_message("user", word)
            assert len(store.search(word)) == 1
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql)

    with refold.open(path, keys=KEYS) as store:
        with pytest.raises(refold.DamagedError, match="sealed rows"):
            store.search("first")
        assert len(store.chat("c").items) == 3


def mended_by_rebuild(store: refold.Store) -> None:
    """Rebuild one projection."""
    assert store.rebuild("search").rows == 4


def mended_by_repair(store: refold.Store) -> None:
    """Let the check of a store repair it."""
    assert all(problem.is_repaired for problem in store.verify(repair=True).problems)


def mended_by_an_erasure(store: refold.Store) -> None:
    """Erase something, which drops rows."""
    store.erase(context="d", why="x", dry_run=False)


MENDS = (mended_by_repair, mended_by_an_erasure, mended_by_rebuild, mended_by_repair)


@pytest.mark.parametrize(
    ("sql", "mend"), [*zip(DAMAGES, MENDS, strict=True)], ids=["repair", "erasure", "rebuild", "type"]
)
def test_damaged_pages_are_mended(path: str, sql: str, mend: Callable[[refold.Store], None]) -> None:
    """What an error says mends it: all rows are made anew, in all processes."""
    with refold.open(path, keys=KEYS) as store:
        store.chat("d").add_message("user", "other")
        for word in ("first", "second", "third"):
            store.chat("c").add_message("user", word)
            assert len(store.search(word)) == 1
        rows = store.contexts()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql)

    with refold.open(path, keys=KEYS) as store:
        mend(store)
        assert len(store.search("second")) == 1
        with refold.open(path, keys=KEYS) as again:
            assert (again.contexts(), len(again.search("third"))) == (rows, 1)
            assert again.verify().problems == ()
        assert store.contexts() == rows
    assert pages(path)[0] > 3


def test_a_reader_adds_no_page(path: str, store: refold.Store) -> None:
    """A store that is opened for reading folds into its own memory."""
    count = len(pages(path))

    with refold.open(path, keys=KEYS, read_only=True) as reader:
        assert len(reader.search("first")) == 1

    assert len(pages(path)) == count


def test_cursors_are_kept(path: str, store: refold.Store) -> None:
    """A subscriber goes on where it was, also in another process; its note is sealed."""
    events = store.subscribe(name="mail")
    assert next(events).version == 1
    events.ack()
    events.stop()

    with refold.open(path, keys=KEYS) as again:
        events = again.subscribe(name="mail")
        assert next(events).version == 2
        events.stop()
    with closing(sqlite3.connect(path)) as connection:
        notes = connection.execute("SELECT name, value FROM note").fetchall()
    assert [name for name, value in notes if "pos" in value or not value.isascii()] == []
    assert len(notes) == 1
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE note SET value = '!' || value")
    with refold.open(path, keys=KEYS) as again, pytest.raises(refold.DamagedError, match="it does not open"):
        again.subscribe(name="mail")


class Shadow(Counts):
    """The same, made beside it."""

    name = "shadow"


class Part(Counts):
    """A part of it."""

    name = "part"


class Other(Counts):
    """Another part of it."""

    name = "other"


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_page_that_comes_too_late_is_not_there(request: pytest.FixtureRequest, path: str, database: str) -> None:
    """Its place is free, and a page follows; that of another process in such a place stays."""
    place = str(request.getfixturevalue("ready_pg_url")) if database == "postgres" else path
    with refold.open(place, keys=KEYS) as store:
        rows = rows_in(store)

        def add(number: int) -> tuple[bool, list[int]]:
            page = Page()
            is_added = rows._add(number, page, rows._sealed(number, page))
            return is_added, [number for number, _ in rows._pages.ask(PAGES, 0)]

        assert add(5) == (True, [5])
        assert add(3) == (False, [5])
        assert add(6) == (True, [5, 6])
        assert add(5) == (False, [5, 6])


def rows_in(store: refold.Store) -> SealedProjectionStore:
    """Return the rows of an encrypted store."""
    assert isinstance(store._projections, SealedProjectionStore)
    return store._projections


def counted(key: str, events: int) -> dict[str, Count]:
    """Return the count of one context."""
    return {key: Count(key, events)}


def test_rows_of_a_page_are_those_of_all_processes(path: str, store: refold.Store) -> None:
    """What another one has added since is among them."""
    assert [row.key for row in store.contexts()] == ["chat:c"]
    with refold.open(path, keys=KEYS) as other:
        other.chat("d")
        other.contexts()

    assert [row.key for row in rows_in(store).page(CATALOGUE, after="chat:c", limit=9)] == ["chat:d"]


def test_who_comes_too_late_changes_nothing(path: str, store: refold.Store) -> None:
    """Rows that are based on other rows than there are, or on events that the log does not have, are not stored."""
    rows, (event, _) = rows_in(store), store.log.read("chat:c")
    first = Save(Counts(), counted("a", 1), Checkpoint(), FIRST)
    (saved,) = rows.save(first, seen=[event])
    count = len(pages(path))
    assert saved is not None

    assert rows.save(first._replace(rows=counted("a", 7))) == [None]
    later = Save(Counts(), counted("a", 2), saved, SECOND)
    assert rows.save(later, seen=[msgspec.structs.replace(event, digest=bytes(32))]) == [None]
    assert not rows.replace(Counts(), Shadow(), before=FIRST)
    assert not rows.set_note("a", before="something else", after="new")

    assert (rows.rows(Counts()), rows.checkpoint(Counts()), rows.note("a")) == ([Count("a", 1)], FIRST, None)
    assert len(pages(path)) == count
    assert rows.save(later, seen=[event]) != [None]


def test_parts_are_put_together(path: str, store: refold.Store) -> None:
    """In all processes; parts that made the same row are refused, and stay."""
    rows = rows_in(store)
    rows.save(Save(Part(), counted("a", 1), Checkpoint(), FIRST), Save(Other(), counted("a", 2), Checkpoint(), FIRST))
    with pytest.raises(InvalidInputError, match="let `stays_in_slice` be False"):
        rows.gather(Shadow(), [Part(), Other()], moment=SECOND, plan=("plan", None))
    assert (rows.rows(Part()), rows.rows(Shadow())) == ([Count("a", 1)], [])
    rows.drop(Other())
    rows.save(Save(Other(), counted("b", 2), Checkpoint(), FIRST))
    assert not rows.gather(Shadow(), [Part(), Other()], moment=SECOND, plan=("plan", "of another"))
    assert rows.rows(Shadow()) == []

    assert rows.gather(Shadow(), [Part(), Other()], moment=SECOND, plan=("plan", None))

    with refold.open(path, keys=KEYS) as again:
        for each in (rows, rows_in(again)):
            assert each.rows(Shadow()) == [Count("a", 1), Count("b", 2)]
            assert [each.checkpoint(one) for one in (Shadow(), Part(), Other())] == [SECOND, BEGINNING, BEGINNING]


def test_a_note_that_a_page_takes_away(path: str, store: refold.Store) -> None:
    """Nobody finds it afterwards."""
    rows = rows_in(store)
    rows.save(Save(Counts(), {}, Checkpoint(), FIRST, notes={"a": "one", "b": "two"}))
    rows._changed(lambda: (Page(notes={"a": None}), None))

    with refold.open(path, keys=KEYS) as again:
        for each in (rows, rows_in(again)):
            assert (each.note("a"), each.note("b")) == (None, "two")


def test_what_fits_into_no_page_stays_in_many(path: str, store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is deleted then, and it is not tried at every change."""
    stored, tried = SealedProjectionStore._stored, list[object]()

    def trying(rows: SealedProjectionStore) -> object:
        tried.append(rows)
        return stored(rows)

    monkeypatch.setattr(sealed_rows, "PAGES_MIN", 4)
    monkeypatch.setattr(sealed_rows, "PAGE_BYTES_MAX", 1)
    monkeypatch.setattr(SealedProjectionStore, "_stored", trying)
    for number in range(8):
        store.chat("c").add_message("user", f"word{number}")
        assert len(store.search(f"word{number}")) == 1

    assert pages(path) == [*range(1, 9)]
    assert len(tried) == 2


def test_rows_that_changed_under_the_old_version(path: str, store: refold.Store) -> None:
    """They are refused as in other stores, also when all pages were put together; a newer version is taken."""
    store.add_projection(Counts())
    assert store.rows("counts") == [Count("chat:c", 2)]
    changed: Any = Counts()
    changed.row = msgspec.defstruct("Changed", [("key", str), ("events", str, "")], frozen=True)
    changed.evolve = lambda key, row, event: changed.row(key, "said")

    for _ in range(2):
        with refold.open(path, keys=KEYS) as other:
            with pytest.raises(InvalidInputError, match="events was int and is str; raise `version` from 1 to 2"):
                other.add_projection(changed)
            other._projections.drop_others(*other._runner.projections.values(), Counts())
    changed.version = 2
    with refold.open(path, keys=KEYS) as other:
        other._projections.drop_others(*other._runner.projections.values(), changed)
        assert "counts" not in rows_in(other)._tables
        other.add_projection(changed)
        assert other.rows("counts") == [changed.row("chat:c", "said")]


def test_master_keys_that_are_away_for_a_moment(tmp_path: Path) -> None:
    """No event is set aside for that: the question is refused, and answered when they are there again."""
    keys, away = tmp_path / "keys.json", tmp_path / "away.json"
    with refold.open(tmp_path / "other.db", keys=refold.KeyFile(keys)) as other:
        for user in ("mia", "tom"):
            other.chat(user, user=user).add_message("user", "word")
    with refold.open(tmp_path / "other.db", keys=refold.KeyFile(keys)) as other:
        keys.rename(away)
        with pytest.raises(refold.KeyMissingError, match=r"'m1' is not in .*keys\.json"):
            other.search("word")
        away.rename(keys)

        assert sorted(hit.context for hit in other.search("word")) == ["mia", "tom"]
        assert other.events_missed() == 0
