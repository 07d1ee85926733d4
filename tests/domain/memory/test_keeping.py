"""Memories in a store, in a file of their own, and taken into a store."""

import asyncio
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import refold
from refold import Store
from refold.domain.errors import (
    ConcurrencyError,
    InvalidInputError,
    NotFoundError,
    StorageClosedError,
    StorageUnavailableError,
)
from refold.domain.memory import memory as memories
from refold.domain.memory.memory import InMemoryMemoryStore, Memory, MemoryScope
from refold.domain.memory.records import MemoryKind, MemoryRecord, MemoryStore
from refold.window import SqliteMemoryStore, import_agent_memory
from tests.verifying.damaging import sql

from .remembering import about, found, told


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store in memory."""
    with refold.open(":memory:") as store:
        yield store


async def test_a_memory_is_kept(store: Store) -> None:
    """One handle reads at once what another one has put."""
    one, other = store.memory(), store.memory()
    await one.put(about("a", 1))
    assert await found(other) == "a"
    await other.put(about("a", 2))
    await one.put(about("a", 3))

    assert isinstance(one, MemoryStore)
    assert told(await other.history(scope="s")) == [
        ("a", "remembered", None, 1),
        ("a", "remembered", 1, 2),
        ("a", "remembered", 2, 3),
    ]


async def test_a_put_catches_up(store: Store) -> None:
    """It says what came between; who is strict, and who forgets too late, is told."""
    one, other = store.memory(), store.memory()
    scope = one.scope("s")
    await one.put(about("a", 0))
    await other.put(about("a", 1))
    scope.put(about("a", 2))
    assert [event.version for event in scope.came_between] == [2]
    await other.put(about("b"))

    with pytest.raises(ConcurrencyError):
        await one.put(about("a", 3), expected_version=3)
    with pytest.raises(ConcurrencyError):
        scope.forget("a")
    assert await one.forget(scope="s", key="a") == 1


async def test_a_transaction(store: Store) -> None:
    """Over scopes and other contexts, all or nothing; what is in it is seen in it."""
    memory, chat = store.memory(), store.chat("c")

    async def fail() -> None:
        with store.transaction():
            await memory.put(about("a"))
            await memory.put(about("b", scope="t"))
            chat.add_message("user", "hi")
            assert (await found(memory), await found(memory, scope="t")) == ("a", "b")
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        await fail()

    assert (await found(memory), await found(memory, scope="t"), chat.items) == ("", "", [])
    with store.transaction():
        await memory.put(about("a"))
        await memory.put(about("b", scope="t"))
    assert (await found(store.memory()), await found(store.memory(), scope="t")) == ("a", "b")


async def test_a_record_is_forgotten_and_restored_in_a_transaction(store: Store) -> None:
    """It is found where it was forgotten in the same transaction."""
    scope = store.memory().scope("s")
    scope.put(about("a", 1))
    scope.put(about("b", 2))
    with store.transaction():
        scope.forget("a")
        assert (scope.restore("a"), scope.forget(), scope.restore()) == (1, 2, 2)

    assert await found(store.memory()) == "ba"


async def test_a_scope_begins_again(store: Store) -> None:
    """One whose first record was rolled back is as if nobody had tried; its handle goes on."""
    scope = store.memory().scope("s")

    def fail() -> None:
        with store.transaction():
            scope.put(about("a", 1))
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail()
    scope.put(about("a", 2))

    assert told(scope.history()) == [("a", "remembered", None, 2)]
    with pytest.raises(ConcurrencyError):
        store.memory().scope("s").put(about("a", 3), expected_version=0)


async def test_queued_puts(store: Store) -> None:
    """They are read at once, and are in the store behind the barrier."""
    memory = store.memory(durability="enqueue")
    await memory.put(about("a"))
    assert await found(memory) == "a"
    await store.aflush()

    assert await found(store.memory()) == "a"
    with pytest.raises(InvalidInputError):
        store.memory(durability="perhaps")  # type: ignore[arg-type]


async def test_the_catalogue_counts(store: Store) -> None:
    """A scope is a context: items and tokens are those that are remembered."""
    memory = store.memory()
    for key in "abc":
        await memory.put(about(key, "x" * 39, scope="user:42"))
    await memory.put(about("a", "", scope="user:42"))
    await memory.forget(scope="user:42", key="b")

    (row,) = store.contexts()
    assert (row.kind, row.id, row.version, row.items, row.tokens) == ("memory", "user:42", 5, 2, 10)


async def test_few_scopes_stay_in_memory(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were used last; the others are read again, and what is on its way is not let go of."""
    monkeypatch.setattr(memories, "SCOPES_MAX", 2)
    memory = store.memory(durability="enqueue")
    for name in "abcd":
        await memory.put(about("k", scope=name))
        await store.aflush()

    assert list(memory._scopes) == ["c", "d"]
    assert await found(memory, scope="a") == "k"
    assert list(memory._scopes) == ["d", "a"]
    with store.transaction():
        scope = memory.scope("e")
        scope.put(about("k", scope="e"))
        assert scope.is_ahead is True
    assert scope.is_ahead is False


async def test_many_tasks(store: Store) -> None:
    """At once, through one handle: each puts its own, and one of them is the last of what they share."""
    memory = store.memory()

    async def put(number: int) -> None:
        await memory.put(about(f"k{number}", number))
        await memory.put(about("shared", number))

    await asyncio.gather(*map(put, range(10)))

    records = await memory.search(scope="s")
    assert len(records) == 11
    changes = await memory.history(scope="s", key="shared")
    assert [one.old for one in changes[1:]] == [one.new for one in changes[:-1]]


async def test_a_scope_is_adopted(store: Store) -> None:
    """With its whole past; from then on it is kept there. One that holds nothing is refused."""
    memory = InMemoryMemoryStore()
    await memory.put(about("a", 1, scope="user:42"))
    await memory.forget(scope="user:42")
    await memory.restore(scope="user:42")
    scope = store.adopt(memory.scope("user:42"), "user:42")
    scope.put(about("a", 2, scope="user:42"))

    assert told(await store.memory().history(scope="user:42")) == [
        ("a", "remembered", None, 1),
        ("a", "forgotten", 1, None),
        ("a", "restored", None, 1),
        ("a", "remembered", 1, 2),
    ]
    with pytest.raises(InvalidInputError, match="nothing to adopt"):
        store.adopt(memory.scope("empty"), "empty")


async def test_a_file_of_its_own(tmp_path: Path) -> None:
    """A4.4: under the seed's name, with its extra calls; it is a store like any other."""
    path = tmp_path / "memory.sqlite"
    memory = SqliteMemoryStore(path=path)
    for scope, key in (("user:mia@x", "a"), ("user:mia@x", "b"), ("user:bob", "a")):
        await memory.put(about(key, scope=scope))
    assert isinstance(memory, Memory)
    with refold.open(path) as store:
        store.chat("beside").add_message("user", "no record")
    assert await memory.count() == 3
    await memory.clear()
    assert (await memory.count(), await found(memory, scope="user:bob")) == (0, "")
    await memory.restore(scope="user:mia@x")
    memory.close()
    memory.close()

    with pytest.raises(StorageClosedError):
        await memory.get(scope="user:bob", key="a")
    with refold.open(path) as store:
        assert await found(store.memory(), scope="user:mia@x") == "ba"


async def test_the_event_loop_waits_for_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of a memory in a file, or in a store, run in another thread; those of one that has no disk do not."""
    threads: set[str] = set()

    def scope_in(memory: Memory, name: str) -> MemoryScope:
        threads.add(threading.current_thread().name)
        return plain(memory, name)

    plain = Memory.scope
    monkeypatch.setattr(Memory, "scope", scope_in)
    with refold.open(tmp_path / "store.sqlite") as store:
        in_file = SqliteMemoryStore(path=tmp_path / "memory.sqlite")
        for memory, is_elsewhere in ((in_file, True), (store.memory(), True), (InMemoryMemoryStore(), False)):
            threads.clear()
            await memory.put(about("a"))
            await found(memory)
            assert (threading.main_thread().name in threads) != is_elsewhere
        in_file.close()


async def test_a_file_in_memory() -> None:
    """It lives as long as its process."""
    memory = SqliteMemoryStore(path=":memory:")
    await memory.put(about("a"))

    assert (await memory.count(), await found(memory)) == (1, "a")


def old_file(path: Path, *rows: tuple[object, ...]) -> Path:
    """Write a file of memories as the seed has it."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE agent_memory (scope TEXT NOT NULL, key TEXT NOT NULL, value TEXT, kind TEXT, tags TEXT, "
            "timestamp TEXT, updated_at TEXT, PRIMARY KEY (scope, key))"
        )
        connection.executemany("INSERT INTO agent_memory VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return path


EARLY, LATE = "2026-01-01T00:00:00+00:00", "2026-02-01T00:00:00+00:00"


async def test_old_files_are_imported(tmp_path: Path) -> None:
    """A4.4: in the order of their changes, with the first time of each key; what the memory has stays."""
    path = old_file(
        tmp_path / "old.db",
        ("u", "b", '{"x": [1]}', "semantic", "[]", EARLY, LATE),
        ("u", "a", '"text"', "episodic", '["t"]', EARLY, EARLY),
        ("v", "k", "null", "procedural", "[]", LATE, LATE),
    )
    before = path.read_bytes()
    memory = InMemoryMemoryStore()
    await memory.put(MemoryRecord(scope="v", key="k", value="new"))

    assert [import_agent_memory(memory, path) for _ in range(2)] == [2, 0]

    found = await memory.search(scope="u")
    assert [(one.key, one.value, one.kind, one.tags) for one in found] == [
        ("b", {"x": [1]}, MemoryKind.SEMANTIC, []),
        ("a", "text", MemoryKind.EPISODIC, ["t"]),
    ]
    assert {one.timestamp.isoformat() for one in found} == {EARLY}
    assert (await memory.get(scope="v", key="k")).value == "new"  # type: ignore[union-attr]
    assert path.read_bytes() == before


def test_an_old_file_is_no_memory_yet(tmp_path: Path) -> None:
    """It stays as it is, and the error names the call that takes it over; another program's file is only refused."""
    old, other = old_file(tmp_path / "old.db", ("a", "k", "1", "semantic", "[]", EARLY, EARLY)), tmp_path / "other.db"
    sql(other, "CREATE TABLE other (id)")
    before = old.read_bytes()

    with pytest.raises(StorageUnavailableError, match=re.escape(f"import_agent_memory(memory, {str(old)!r})")):
        SqliteMemoryStore(path=old)
    with pytest.raises(StorageUnavailableError, match="another program"):
        SqliteMemoryStore(path=other)
    other.write_text("no database at all\n" * 100)
    with pytest.raises(StorageUnavailableError) as refused:
        SqliteMemoryStore(path=other)
    assert "import_agent_memory" not in str(refused.value)
    assert old.read_bytes() == before


@pytest.mark.parametrize(
    "row",
    [
        ("u", "k", "{", "semantic", "[]", EARLY, EARLY),
        ("u", "k", "1", "no kind", "[]", EARLY, EARLY),
        ("u", "k", "1", "semantic", "[]", "2026-01-01T00:00:00", LATE),
        ("u", "k", '"\\ud800"', "semantic", "[]", EARLY, LATE),
    ],
)
def test_old_files_that_cannot_be_read(tmp_path: Path, row: tuple[object, ...]) -> None:
    """Nothing is remembered, and the error names the file."""
    good = ("a", "k", "1", "semantic", "[]", EARLY, EARLY)
    broken, other = old_file(tmp_path / "old.db", good, row), tmp_path / "other.db"
    other.write_bytes(b"")
    memory = InMemoryMemoryStore()

    for path in (broken, other):
        with pytest.raises(InvalidInputError, match=f"{path.name} cannot be read as a file of memories"):
            import_agent_memory(memory, path)
    with pytest.raises(NotFoundError, match=r"there is no file .*none\.db"):
        import_agent_memory(memory, tmp_path / "none.db")
    assert memory.scope("a").get("k") is None
