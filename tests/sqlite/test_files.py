"""Files: another program's is left exactly as it is, and a closed one is small and whole."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import refold
from refold.domain.errors import (
    DamagedError,
    InvalidInputError,
    NotFoundError,
    RefoldError,
    StorageBusyError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from refold.infrastructure.exchange.event_files import pages_up_to
from refold.infrastructure.log.sqlite import schema
from refold.infrastructure.log.sqlite.connection import SHORTENED_LATER, WRITES_BEFORE_FILLING, SqliteDatabase
from refold.infrastructure.log.sqlite.log import SqliteLog
from refold.infrastructure.log.sqlite.open_files import WAL_BYTES, OpenFiles
from tests.contract.writing import at_once
from tests.support.every_kind import fill
from tests.verifying.answers import ANSWERS, wrong_answers


def foreign_file(path: Path) -> bytes:
    """Make a database of another program, and return its bytes."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE diary (entry TEXT)")
        connection.execute("INSERT INTO diary VALUES ('dear me')")
    connection.close()
    return path.read_bytes()


def test_another_programs_file_is_not_touched(tmp_path: Path) -> None:
    """Not even its journal mode is changed."""
    path = tmp_path / "diary.db"
    before = foreign_file(path)

    with pytest.raises(StorageUnavailableError, match="another program"):
        refold.open(path)

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_another_programs_file_in_wal_mode(tmp_path: Path) -> None:
    """Where the file's first bytes cannot tell, its tables do."""
    path = tmp_path / "diary.db"
    foreign_file(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()

    with pytest.raises(StorageUnavailableError, match="another program"):
        refold.open(path)


def test_a_file_that_another_process_is_making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not taken for another program's, though it was still empty when it was looked at first."""
    path, look, is_made = tmp_path / "log.db", schema._ask, threading.Event()
    path.touch()

    def look_slowly(connection: sqlite3.Connection, what: str) -> Any:
        found = look(connection, what)
        if not is_made.is_set():
            is_made.set()
            refold.open(path).close()
        return found

    monkeypatch.setattr(schema, "_ask", look_slowly)

    refold.open(path).close()

    assert is_made.is_set()


def test_a_file_whose_making_ended_after_its_first_page(tmp_path: Path) -> None:
    """By a full disk or a kill: it has no table yet, and the next program makes them. One with a mark is another's."""
    path = tmp_path / "log.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(SHORTENED_LATER)
        connection.execute("VACUUM")
    assert path.stat().st_size == 4096

    with refold.open(path) as store:
        store.chat("a").add_message("user", "hello")

    marked = tmp_path / "marked.db"
    with closing(sqlite3.connect(marked)) as connection:
        connection.execute("PRAGMA application_id = 7")
    with pytest.raises(StorageUnavailableError, match="another program"):
        refold.open(marked)


def test_a_new_file_that_another_process_has_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite does not wait for it where the file has no WAL yet, so the store does; for as long as any call waits."""
    path = tmp_path / "log.db"
    SqliteDatabase(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE").fetchone()
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StorageBusyError, match="stayed locked by another process: try again"):
            SqliteDatabase(path, busy_timeout_seconds=0.0)
        pauses: list[float] = []

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            other.rollback()

        clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=sleep)
        monkeypatch.setattr("refold.infrastructure.log.sqlite.connection.time", clock)

        SqliteDatabase(path, busy_timeout_seconds=0.01).close()

    assert len(pauses) == 1


def test_a_file_opened_for_reading_lends_no_writer(tmp_path: Path) -> None:
    """Whoever wants to write to it is told so, and nothing is changed."""
    path = tmp_path / "log.db"
    SqliteLog(path).close()
    before = path.read_bytes()

    with (
        closing(SqliteDatabase(path, read_only=True)) as database,
        pytest.raises(StorageReadOnlyError, match="was opened for reading only"),
        database.writing(),
    ):
        pytest.fail("it was lent")

    assert path.read_bytes() == before


@pytest.mark.parametrize("is_used", [False, True])
def test_a_database_in_memory_rests_while_the_process_forks(is_used: bool) -> None:
    """No thread is in it meanwhile, or the fork is not waited for; afterwards it goes on."""
    lent, is_held, is_over = list[bool](), threading.Event(), threading.Event()

    def use(database: SqliteDatabase) -> None:
        with database.memory_lock:
            is_held.set()
            is_over.wait()

    def try_to_use(database: SqliteDatabase) -> None:
        lent.append(database.memory_lock.acquire(blocking=False))
        if lent[-1]:
            database.memory_lock.release()

    with closing(SqliteDatabase(":memory:")) as database:
        user = threading.Thread(target=use, args=(database,))
        if is_used:
            user.start()
            is_held.wait()
        database.leave(0.0)
        at_once(lambda: try_to_use(database))
        database.come_back()
        at_once(lambda: try_to_use(database))
        is_over.set()

    assert lent == [False, not is_used]


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    """A lone surrogate in a file's name is refused by name."""
    with pytest.raises(InvalidInputError, match="the location"):
        refold.open(str(tmp_path / "a\udcff.db"))


def test_a_closed_file_is_sealed(tmp_path: Path) -> None:
    """All complete segments are in blocks when a store has been closed, and the WAL is gone."""
    path = tmp_path / "store.db"
    with refold.open(path) as store:
        chat = store.chat("a")
        messages = [refold.ChatMessage(role=refold.ChatRole.USER, content=[f"message {n}"]) for n in range(1_500)]
        # A call that adds more than a segment has would pack them itself.
        for first in range(0, 1_500, 500):
            chat.add_items(messages[first : first + 500])

    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT count(*), min(position) FROM event").fetchone()
    assert rows == (1_501 - 1_024, 1_025)
    assert list(tmp_path.iterdir()) == [path]
    with refold.open(path) as store:
        assert [message.content for message in store.chat("a").messages()] == [[f"message {n}"] for n in range(1_500)]


def test_opening_in_a_queue_is_certain(tmp_path: Path) -> None:
    """Contexts that enqueue are opened at once, so that two processes may open the same one."""
    stores = [refold.open(tmp_path / "store.db", durability="enqueue") for _ in range(2)]
    chats = [store.chat("a") for store in stores]

    for store in stores:
        store.flush()

    assert [chat.version for chat in chats] == [1, 1]
    for store in stores:
        store.close()


def test_a_flush_tells_of_all_refusals(tmp_path: Path) -> None:
    """One refused context does not keep the others from being flushed, and none is told of twice."""
    with refold.open(tmp_path / "store.db") as other, refold.open(tmp_path / "store.db") as store:
        chats = [store.chat(name, durability="enqueue") for name in "abc"]
        for name in "ab":
            other.chat(name).add_message("user", "first")
        for chat in chats:
            chat.add_message("user", f"mine in {chat.id}")

        with pytest.raises(refold.ConcurrencyError) as caught:
            store.flush()

        refused = {event.content for event in caught.value.refused}
        assert refused == {("mine in a",), ("mine in b",)}
        store.flush()
        assert [len(chat.items) for chat in chats] == [1, 1, 1]


def sizes_while_writing(path: Path, events: int) -> list[int]:
    """Append events through a store of its own, and return how large the WAL was after every hundred."""
    wal, sizes = Path(f"{path}-wal"), []
    with refold.open(path) as store:
        chat = store.chat("written")
        for start in range(0, events, 100):
            with store.transaction():
                for number in range(start, start + 100):
                    chat.add_message("user", f"message {number} " * 10)
            sizes.append(wal.stat().st_size)
    return sizes


def test_an_iterator_that_pauses_keeps_no_wal(tmp_path: Path) -> None:
    """Whoever takes an event, or a fault, and does something else meanwhile holds up nobody: the WAL is used again."""
    path = tmp_path / "store.db"
    with refold.open(path) as store:
        chat = store.chat("a")
        for number in range(20):
            chat.add_message("user", f"message {number}")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            for _ in range(2):
                other.execute("INSERT INTO blob (hash, key_id, data) VALUES (randomblob(32), '', x'0041')")
        paused: list[Any] = [
            store.subscribe(),
            store.log.damaged_texts(),
            pages_up_to(store.log, limit=5),
        ]
        for iterator in paused:
            assert next(iterator)

        sizes = sizes_while_writing(path, 20_000)

        assert all(next(iterator) for iterator in paused)
    assert max(sizes) < 3 * WAL_BYTES


def test_a_wal_is_filled_for_who_writes_much(tmp_path: Path) -> None:
    """A program that writes once does not write four megabytes for it, whoever filled the WAL before."""
    path = tmp_path / "store.db"
    sizes = []
    for writes in (1, WRITES_BEFORE_FILLING - 10, WRITES_BEFORE_FILLING + 2, 1):
        with refold.open(path) as store:
            for number in range(writes):
                store.chat("a").add_message("user", f"message {number}")
            sizes.append(Path(f"{path}-wal").stat().st_size)
            assert store.log.database.writer.execute("PRAGMA cache_size").fetchone() == (-2_000,)  # type: ignore[attr-defined]

    assert [size >= WAL_BYTES for size in sizes] == [False, False, True, False]


def test_a_wal_that_grew_is_cut(tmp_path: Path) -> None:
    """A foreign reader that stays makes it grow; after it has gone, some writes bring it back to its size."""
    path = tmp_path / "store.db"
    with refold.open(path) as store:
        chat = store.chat("a")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN")
            assert other.execute("SELECT count(*) FROM event").fetchone() == (1,)
            assert sizes_while_writing(path, 20_000)[-1] > 2 * WAL_BYTES
        for number in range(5):
            chat.add_message("user", f"message {number}")

        assert Path(f"{path}-wal").stat().st_size <= WAL_BYTES


def test_a_program_that_changes_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store stays at its file: connections that are made later, after a fork too, go there."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with refold.open("agents.db") as store:
        monkeypatch.chdir("elsewhere")
        store.log.database.leave(1.0)  # type: ignore[attr-defined]
        store.log.database.come_back()  # type: ignore[attr-defined]
        store.chat("a").add_message("user", "Hello.")

        assert [item.content for item in store.chat("a").items] == [["Hello."]]  # type: ignore[union-attr]
        assert list(Path().iterdir()) == []


def test_a_path_through_a_link(tmp_path: Path) -> None:
    """`link/..` is the folder above the one that the link leads to, as for every program."""
    (tmp_path / "far" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "inner")
    with refold.open(tmp_path / "link" / ".." / "agents.db") as store:
        store.chat("a").add_message("user", "Hello.")
        (tmp_path / "far" / "agents.db").unlink()

        with pytest.raises(StorageError, match="deleted or replaced"):
            store.chat("a").add_message("user", "Lost.")


def overwrite(path: Path, start: int, data: bytes) -> None:
    """Write over a part of a file."""
    with path.open("r+b") as file:
        file.seek(start)
        file.write(data)


def lose_the_folder(path: Path) -> None:
    """Remove the folder, and all that is in it."""
    shutil.rmtree(path.parent)


DISASTERS: dict[str, Callable[[Path], object]] = {
    "emptied": lambda path: os.truncate(path, 0),
    "cut in half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "another header": lambda path: overwrite(path, 0, b"\xa5" * 100),
    "other pages": lambda path: overwrite(path, 8_192, b"\xa5" * 8_192),
    "no folder": lose_the_folder,
}


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "opened then"])
@pytest.mark.parametrize("name", DISASTERS)
@pytest.mark.usefixtures("brief_waits")  # SQLite calls a file busy that was emptied while it is open
def test_a_file_that_goes_wrong(tmp_path: Path, name: str, is_open: bool) -> None:
    """Under an open store or before it is opened: whatever is asked or written gives an answer or a typed error."""
    path = tmp_path / "folder" / "store.db"
    path.parent.mkdir()
    with refold.open(path) as store:
        asyncio.run(fill(store))

    if is_open:
        with refold.open(path) as store:
            store.chat("a").add_message("user", "one more")
            DISASTERS[name](path)
            errors = [error for answer in ANSWERS.values() if (error := failure_of(answer, store)) is not None]
    else:
        DISASTERS[name](path)
        errors = [error for _, error in wrong_answers(str(path))]

    assert [error for error in errors if not isinstance(error, RefoldError)] == []
    assert errors or (name == "no folder" and is_open)


def failure_of(answer: Callable[[refold.Store], object], store: refold.Store) -> Exception | None:
    """Return what an answer fails with, if it does."""
    try:
        answer(store)
    except Exception as error:
        return error
    return None


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """Whoever needs room is told that there is none; reading goes on, and so does all once there is some."""
    with refold.open(tmp_path / "store.db") as store:
        asyncio.run(fill(store))
        pages = store.log.database.writer.execute("PRAGMA page_count").fetchone()[0]  # type: ignore[attr-defined]
        store.log.database.writer.execute(f"PRAGMA max_page_count = {pages}")  # type: ignore[attr-defined]

        kinds = {type(failure_of(answer, store)) for answer in ANSWERS.values()}
        assert StorageFullError in kinds
        assert kinds <= {type(None), StorageFullError, NotFoundError}
        assert store.chat("a").items

        store.log.database.writer.execute("PRAGMA max_page_count = 100000")  # type: ignore[attr-defined]
        assert {type(failure_of(answer, store)) for answer in ANSWERS.values()} == {type(None)}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (sqlite3.InterfaceError("bad parameter or other API misuse"), StorageError),
        (sqlite3.DataError("string or blob too big"), StorageError),
        (sqlite3.IntegrityError("UNIQUE constraint failed"), StorageError),
        (sqlite3.InternalError("it is so"), StorageError),
        (sqlite3.OperationalError("Could not decode to UTF-8 column 'id'"), DamagedError),
        (FileNotFoundError(2, "No such file or directory"), StorageUnavailableError),
        (MemoryError(), StorageError),
        (TypeError("an int, not str"), DamagedError),
    ],
)
def test_what_reading_may_meet(tmp_path: Path, error: Exception, kind: type[Exception]) -> None:
    """It is an error of Refold's that names the file, and has what happened as its cause."""
    database = SqliteDatabase(tmp_path / "store.db")
    with pytest.raises(kind, match=r"store\.db") as met, database.reading():
        raise error
    assert met.value.__cause__ is error
    database.close()


@pytest.mark.parametrize(
    "error", [AssertionError(), sqlite3.ProgrammingError("Incorrect number of bindings"), TypeError()]
)
def test_mistakes_of_ours(tmp_path: Path, error: Exception) -> None:
    """They stay what they are, where nothing stored is read."""
    database = SqliteDatabase(tmp_path / "store.db")
    with pytest.raises(type(error)) as met, database.writing():
        raise error
    assert met.value is error
    database.close()


def test_several_open_a_new_file_at_once(tmp_path: Path) -> None:
    """All of them get it; SQLite itself refuses some, without waiting, while they switch the file to its WAL."""
    for number in range(30):
        path = tmp_path / f"{number}.db"

        assert at_once(*[lambda path=path: refold.open(path).close()] * 4) == []


def test_a_file_that_another_thread_opens_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread looks whether all files are there, another remembers the WAL, which has just appeared."""
    first, second = tmp_path / "a.db", tmp_path / "a.db-wal"
    first.touch()
    second.touch()
    with closing(OpenFiles(str(first))) as files:
        stat = os.stat

        def watching(path: str) -> os.stat_result:
            monkeypatch.undo()
            files.watch(str(second))
            return stat(path)

        monkeypatch.setattr(os, "stat", watching)
        assert files.missing() is None
        second.unlink()
        assert files.missing() == str(second)


def test_a_child_uses_no_connection_of_its_parents(tmp_path: Path) -> None:
    """Not even one that a reader gave back: it has locks that the child does not know of."""
    path = tmp_path / "log.db"
    with refold.open(path) as store:
        store.chat("bot").add_message("user", "one")
    log = SqliteLog(path)
    log.read("chat:bot")

    log.database._after_fork()

    with pytest.raises(StorageUnavailableError, match="when this process was forked"):
        log.read("chat:bot")


@pytest.mark.parametrize("read_only", [False, True])
def test_a_name_in_the_schema_that_is_no_text(tmp_path: Path, read_only: bool) -> None:
    """SQLite names the broken table in its message, which Python then cannot read: that is damage, too."""
    path = tmp_path / "log.db"
    refold.open(path).close()
    data = bytearray(path.read_bytes())
    data[data.index(b"tableevent") + 5] = 0xCD
    data[data.index(b"CREATE TABLE event")] = ord("?")
    path.write_bytes(data)

    with pytest.raises(DamagedError, match="can't decode byte"):
        refold.open(path, read_only=read_only)


def test_what_is_no_database_is_closed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection to it stays behind."""
    path = tmp_path / "notes.txt"
    path.write_text("no database at all\n" * 100)
    connect, made = sqlite3.connect, list[sqlite3.Connection]()

    def noted(*given: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*given, **options))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    with pytest.raises(StorageUnavailableError, match="is not an SQLite database"):
        refold.open(path)

    for connection in made:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
    assert made
