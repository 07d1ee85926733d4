"""The rows that a question reads are those of its answer, however many others there are."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.infrastructure.cli import main
from refold.infrastructure.projecting.rows.database import DatabaseProjectionStore
from refold.infrastructure.queries import intervals
from refold.infrastructure.queries.intervals import ids_seen

OTHERS = 8


@pytest.fixture
def store(tmp_path: Path) -> Iterator[refold.Store]:
    """A store whose rows are read from a database."""
    with refold.open(str(tmp_path / "s.db")) as opened:
        yield opened


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], int]:
    """Return the function that counts the rows which a question reads that was asked before."""
    counts: list[int] = []
    rows = DatabaseProjectionStore._rows

    def counted(*given: Any) -> list[Any]:
        found = rows(*given)
        counts.append(len(found))
        return found

    monkeypatch.setattr(DatabaseProjectionStore, "_rows", counted)

    def rows_read(ask: Callable[[], Any]) -> int:
        ask()
        counts.clear()
        ask()
        return sum(counts)

    return rows_read


def asked_for(store: refold.Store, name: str) -> refold.ChatContext:
    """Return a chat with a fork, usage, and a call that waits."""
    chat = store.chat(name)
    chat.add_message("user", "pay")
    chat.fork(f"fork-of-{name}")
    chat.add_function_call("pay", "{}", "c1")
    chat.approvals.request("c1")
    return chat


def test_of_one_context(store: refold.Store, read: Callable[[Callable[[], Any]], int]) -> None:
    """The edges and the usage of a chat, calls without a decision, and what has changed lately."""
    for number in range(OTHERS):
        asked_for(store, f"c{number}").approvals.approve("c1", by="mia")
    chat = asked_for(store, "one")
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    changed = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=chat.history()[-1].recorded_at)

    assert read(lambda: store.lineage("one")) == read(lambda: store.lineage("fork-of-one")) == 1
    assert read(lambda: store.usage(context="one")) == 1
    assert read(lambda: store.usage(by=["user"], context="one")) == 2, "its usage, and its user"
    assert read(lambda: store.usage(since=tomorrow)) == read(lambda: store.usage(until="1999-12-31")) == 0
    assert read(lambda: store.audit("one", item="@2")) == 0, "the configuration is of no item"
    assert read(store.pending_approvals) == 1
    assert read(lambda: store.find_contexts(since=changed)) == 1
    assert read(lambda: store.find_contexts(until=changed, limit=3)) == 4


def test_of_an_ancestor_that_went_on(store: refold.Store, read: Callable[[Callable[[], Any]], int]) -> None:
    """A fork has nothing of what came to the other after it, nor of what others put there."""
    chat, other = store.chat("a"), store.chat("other")
    first, second, _ = (chat.add_message("user", text) for text in ("one", "two", "three"))
    other.add_message("user", "from elsewhere")
    asyncio.run(chat.merge(other))
    chat.evict([first.id])
    fork = chat.fork("fork")
    queue = store.queue("q", limit=2)
    asyncio.run(queue.append(*map(refold.PoolItem, "abc")))
    branch = queue.branch(context_id="branch")
    counts: list[tuple[int, int]] = []
    for _ in range(2):
        for number in range(OTHERS):
            chat.add_message("user", f"later {number}")
            asyncio.run(queue.append(refold.PoolItem(f"later {number}")))
        counts.append((read(lambda: store.validity("fork")), read(lambda: store.entries("branch"))))
    other.add_message("user", "later")
    asyncio.run(chat.merge(other))
    chat.evict([second.id])
    chat.clear()

    assert counts[0] == counts[1]
    for version in range(1, fork.version + 1):
        assert ids_seen(store.validity("fork"), version) == [item.id for item in fork.at(version).items]
    assert [stay.birth for stay in store.entries("branch")] == branch.births
    gone = store.why_gone("fork", first.id)
    assert (gone.reference, gone.how) == ("chat:a@6", "evict")


def test_of_ancestors_of_ancestors(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Why an item is in none of many forks: the rows of each are read once, not once for each fork behind it."""
    chat = store.chat("a")
    item = chat.add_message("user", "hello")
    chat.evict([item.id])
    for number in range(OTHERS):
        chat = chat.fork(f"fork-{number}")
        chat.add_message("user", "hello again")
    levels: list[str] = []
    read_level = intervals._AncestorRows.__init__

    def counted(self: Any, rows: Any, context: str, end: int | None) -> None:
        levels.append(context)
        read_level(self, rows, context, end)

    monkeypatch.setattr(intervals._AncestorRows, "__init__", counted)
    gone = store.why_gone(f"fork-{OTHERS - 1}", item.id)

    assert (gone.reference, len(levels)) == ("chat:a@3", OTHERS + 1)


def test_of_one_item(store: refold.Store, read: Callable[[Callable[[], Any]], int]) -> None:
    """Why an item is gone, by its id, its origin and its call id: its row, those of a merge, and the marks."""
    chat = store.chat("one")
    item = chat.add_message("user", "hello")
    call = chat.add_function_call("look", "{}", "c1")
    fork = chat.fork("fork")
    chat.evict([item.id, call.id])
    other = fork.add_message("user", "from the fork")
    asyncio.run(chat.merge(fork))
    chat.evict([other.id])
    counts: list[list[int]] = []
    for _ in range(2):
        for number in range(OTHERS):
            chat.add_message("user", f"hello {number}")
        asked = (item.id, "@2", "chat:fork@2", other.id, "c1")
        counts.append([read(lambda name=name: store.why_gone("one", name)) for name in asked])  # type: ignore[misc]

    assert counts == [[3, 3, 3, 3, 5]] * 2
    gone = [store.why_gone("one", name) for name in asked]
    assert [one.reference for one in gone] == ["chat:one@4", "chat:one@4", "chat:one@6", "chat:one@6", "chat:one@4"]
    assert store.why_gone("one", "never").state == "never"


def test_of_no_policy(store: refold.Store, read: Callable[[Callable[[], Any]], int]) -> None:
    """Without a policy no context is looked at."""
    asked_for(store, "one")

    assert read(store.apply_retention) == 0


def test_of_a_command_about_one_context(
    tmp_path: Path, store: refold.Store, read: Callable[[Callable[[], Any]], int]
) -> None:
    """`refold usage` and `refold contexts` read the rows of the days and of the contexts that they are asked for."""
    for name in ("one", *(f"c{number}" for number in range(OTHERS))):
        asked_for(store, name)
    store.chat("mine", user="mia")
    database = str(tmp_path / "s.db")

    assert read(lambda: main(["--db", database, "usage", "--context", "one"])) == 1
    assert read(lambda: main(["--db", database, "usage"])) == OTHERS + 1
    assert read(lambda: main(["--db", database, "contexts", "--kind", "chat", "--user", "mia"])) == 1
    assert read(lambda: main(["--db", database, "contexts"])) == 2 * (OTHERS + 1) + 1


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows by one with every ten steps that SQLite takes on a connection that is opened from now on."""
    taken, connect = list[int](), sqlite3.connect

    def counted(*given: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **named)
        connection.set_progress_handler(lambda: taken.append(0), 10)
        return connection

    monkeypatch.setattr(sqlite3, "connect", counted)
    return taken


def test_of_one_kind(tmp_path: Path, steps: list[int]) -> None:
    """To find the chats of a user takes SQLite no more steps when there are contexts of other kinds."""
    counts = list[int]()
    with refold.open(str(tmp_path / "s.db")) as store:
        store.chat("one", user="mia")
        for start in (0, 200):
            for number in range(start, start + 200):
                store.pool(f"p{number}", user="mia", durability="enqueue")
            store.flush()
            found = store.find_contexts(kind="chat", user="mia").contexts
            steps.clear()
            assert store.find_contexts(kind="chat", user="mia").contexts == found
            counts.append(len(steps))

    assert [row.id for row in found] == ["one"]
    assert counts[1] < counts[0] + 20


def test_of_an_ancestor_beside_others(store: refold.Store, read: Callable[[Callable[[], Any]], int]) -> None:
    """What a fork began with is read without the rows of contexts whose names come behind that of its parent."""
    chat, counts = store.chat("a"), list[int]()
    chat.add_message("user", "hello")
    for number in range(OTHERS):
        chat.name_version(f"n{number}")
    chat.fork("fork")
    for _ in range(2):
        counts.append(read(lambda: store.validity("fork")))
        store.chat("b").add_message("user", "hello")

    assert counts[0] == counts[1]


def test_of_a_word_that_is_everywhere(tmp_path: Path, steps: list[int]) -> None:
    """To look for it in one context takes SQLite no more steps when other contexts have it, too."""
    counts = list[int]()
    with refold.open(str(tmp_path / "s.db")) as store:
        one, other = store.chat("one"), store.chat("other", durability="enqueue")
        one.add_message("user", "plum")
        for number in range(2):
            for _ in range(200):
                other.add_message("user", "plum")
            store.flush()
            # It lives beside the others: theirs lie between its own.
            one.add_message("user", "plum")
            assert len(store.search("plum", context="one")) == number + 2
            steps.clear()
            store.search("plum", context="one")
            counts.append(len(steps))

    assert counts[1] <= counts[0] + OTHERS


def test_an_id_may_look_like_an_origin(store: refold.Store) -> None:
    """An item whose id is written as a place of the log is asked for by that, beside the item of the place."""
    ticket = store.chat("ticket")
    ticket.add_message("user", "hello")
    desk = ticket.fork("desk")
    desk.add_items(
        [refold.ChatMessage(id="ticket@2", role=refold.ChatRole.USER, content=["second mail of the ticket"])]
    )
    desk.evict("ticket@2", reason="too long")

    assert store.why_gone("desk", "ticket@2").reason == "too long"
    assert store.why_gone("ticket", "ticket@2").state == "there"
