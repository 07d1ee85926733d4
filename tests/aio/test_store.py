"""A store in an event loop: opened, closed, written to in transactions, followed."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from contextvars import Context
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import refold
from refold.domain.chat.context import ChatContext
from refold.domain.chat.items import ChatMessage
from refold.domain.concurrency import threads
from refold.domain.context import transaction as transactions
from refold.domain.errors import (
    InvalidInputError,
    NotFoundError,
    RefusedError,
    StorageBusyError,
    StorageClosedError,
    StorageUnavailableError,
)
from refold.domain.pool.queue import ContextQueue
from refold.infrastructure import subscription
from tests.support.waiting import SOON_SECONDS, soon


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store is opened."""
    locations = {"memory": ":memory:", "sqlite": str(tmp_path / "store.db")}
    return locations.get(request.param) or str(request.getfixturevalue("ready_pg_url"))


def said(items: Any) -> list[str]:
    """Return the texts of messages."""
    return [item.content[0] for item in items]


async def test_opened_and_closed(location: str) -> None:
    """By `async with`, which closes it; or awaited, and closed by hand, also twice."""
    async with refold.aopen(location) as store:
        await (await store.chat("a")).add_message("user", "hello")
        rows = await store.contexts()
    if location != ":memory:":
        with pytest.raises(StorageClosedError):
            await store.contexts()

    assert [row.id for row in rows] == ["a"]
    other = await refold.aopen(location, durability="enqueue")
    await other.close()
    await other.close()
    again = await refold.aopen(location)
    async with again as same:
        assert same is again
    if location != ":memory:":
        with pytest.raises(StorageClosedError):
            await again.contexts()


async def test_one_that_cannot_be_opened(tmp_path: Path) -> None:
    """The error is that of `open`."""
    with pytest.raises(StorageUnavailableError):
        async with refold.aopen(tmp_path / "none.db", create=False):
            pass


async def test_a_transaction(location: str) -> None:
    """Tasks within the block take part in it; all of it is one append, or nothing."""
    async with refold.aopen(location) as store:
        chats = [await store.chat(name, session="s") for name in "abc"]
        before = (await store.now()).events
        async with store.transaction():
            await asyncio.gather(*(chat.add_message("user", chat.id) for chat in chats))
            assert [said(await chat.items) for chat in chats] == [["a"], ["b"], ["c"]]
            assert (await store.now()).events == before
        assert (await store.now()).events == before + 3

        async def fail() -> None:
            async with store.transaction():
                await chats[0].add_message("user", "never")
                raise LookupError

        with pytest.raises(LookupError):
            await fail()
        assert [said(await chat.items) for chat in chats] == [["a"], ["b"], ["c"]]
        await chats[0].add_message("user", "after it")
        assert (await store.now()).events == before + 4


async def test_a_transaction_has_a_key(location: str) -> None:
    """Repeated under it, the block records nothing."""
    async with refold.aopen(location) as store:
        chat = await store.chat("a")
        for _ in range(2):
            async with store.transaction(idempotency_key="once"):
                await chat.add_message("user", "hello", message_id="m1")
        assert (said(await chat.items), await chat.version) == (["hello"], 2)


async def test_transactions_do_not_nest(location: str) -> None:
    """The inner one is refused, and the outer one goes on."""
    async with refold.aopen(location) as store, store.transaction():
        with pytest.raises(InvalidInputError, match="they do not nest"):
            async with store.transaction():
                pass


async def test_tasks_have_transactions_of_their_own(location: str) -> None:
    """Two that are open at once in two tasks do not see each other."""
    async with refold.aopen(location) as store:
        entered = asyncio.Barrier(2)

        async def write(name: str) -> None:
            chat = await store.chat(name)
            async with store.transaction():
                await entered.wait()
                await chat.add_message("user", name)

        await asyncio.gather(write("a"), write("b"))
        assert sorted(row.id for row in await store.contexts()) == ["a", "b"]
        assert [said(await (await store.chat(name)).items) for name in "ab"] == [["a"], ["b"]]


@pytest.mark.parametrize("kind", ["chat", "queue"])
async def test_tasks_that_wait_for_a_transaction(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They change the same handle, and may be as many as the loop has threads: its calls go on, and then theirs."""
    monkeypatch.setattr(transactions, "HANDLE_SECONDS_MAX", 2.0)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with refold.aopen(tmp_path / "store.db") as store:
        context: Any = await (store.chat("a") if kind == "chat" else store.queue("a"))

        async def change(name: str) -> None:
            await (context.add_message("user", name) if kind == "chat" else context.append(refold.PoolItem(name)))

        async with store.transaction():
            await change("first")
            others = [asyncio.create_task(change(name), context=Context()) for name in ("third", "fourth")]
            await asyncio.sleep(0.02)
            await change("second")
        await asyncio.gather(*others)

        found = [item.content if kind == "queue" else item.content[0] for item in await context.items]
        assert (found[:2], sorted(found[2:])) == (["first", "second"], ["fourth", "third"])


async def test_transactions_that_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tasks change one queue, twice each: none holds it while it waits for the transaction of the other."""
    monkeypatch.setattr(transactions, "HANDLE_SECONDS_MAX", 2.0)
    async with refold.aopen(tmp_path / "store.db") as store:
        queue = await store.queue("a")

        async def change(name: str) -> None:
            async with store.transaction():
                await queue.append(refold.PoolItem(f"{name} 1"))
                await queue.append(refold.PoolItem(f"{name} 2"))

        await asyncio.gather(change("a"), change("b"))
        assert [item.content for item in await queue.items] == ["a 1", "a 2", "b 1", "b 2"]


@pytest.mark.parametrize("kind", ["chat", "queue"])
async def test_transactions_that_wait_in_a_ring(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever closes it is refused at once, and the others go on."""
    monkeypatch.setattr(transactions, "HANDLE_SECONDS_MAX", 2.0)
    async with refold.aopen(tmp_path / "store.db") as store:
        contexts: list[Any] = [await (store.chat(id) if kind == "chat" else store.queue(id)) for id in "abc"]
        entered = asyncio.Barrier(3)

        async def change(number: int) -> None:
            async with store.transaction():
                for context in (contexts[number], contexts[number - 1]):
                    await (context.add_message("user", "x") if kind == "chat" else context.append(refold.PoolItem("x")))
                    if context is contexts[number]:
                        await entered.wait()

        raised = [one for one in await asyncio.gather(*map(change, range(3)), return_exceptions=True) if one]
        assert raised
        assert all(isinstance(one, StorageBusyError) and "waits for this one" in str(one) for one in raised)
        assert sum([len(await one.items) for one in contexts]) == 2 * (3 - len(raised))


@pytest.mark.parametrize("kind", ["queue", "chat"])
async def test_a_change_while_a_transaction_is_committed(
    location: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is made in a thread; a call of the loop's own thread does not take the transaction for over."""
    async with refold.aopen(location, durability="enqueue") as store:
        context: Any = await (store.queue("a") if kind == "queue" else store.chat("a"))
        begun, go_on, commit = threading.Event(), threading.Event(), transactions.Transaction._receipts

        def waiting(*arguments: Any) -> Any:
            begun.set()
            assert go_on.wait(10)
            return commit(*arguments)

        def add(text: str) -> Any:
            if kind == "queue":
                return context.append(refold.PoolItem(text))
            return context.add_message("user", text)

        async def change_within() -> None:
            async with store.transaction():
                await add("within")

        monkeypatch.setattr(transactions.Transaction, "_receipts", waiting)
        first = asyncio.create_task(change_within())
        while not begun.is_set():
            await asyncio.sleep(0.001)
        # A chat is changed by a call that waits for nothing, as a program makes it that only queues.
        threading.Timer(0.05, go_on.set).start()
        await add("behind it") if kind == "queue" else context.sync.add_message("user", "behind it")
        await first
        await context.flush()

        items = context.sync.items
        assert ([item.content for item in items] if kind == "queue" else said(items)) == ["within", "behind it"]


async def test_tasks_that_write_one_message(location: str) -> None:
    """The text of each is in it once, whichever of them begins it."""
    texts = [f"{number} " for number in range(12)]
    async with refold.aopen(location) as store:
        chat = await store.chat("a")
        for _ in range(5):
            async with chat.stream() as out:
                await asyncio.gather(*map(out.awrite, texts))

        for item in await chat.items:
            assert isinstance(item, ChatMessage)
            assert sorted(str(item.content[0]).split()) == sorted(text.strip() for text in texts)


def test_a_transaction_whose_loop_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is rolled back when its task is let go of, and others change the same handle."""
    monkeypatch.setattr(transactions, "HANDLE_SECONDS_MAX", 0.1)
    with refold.open(tmp_path / "store.db") as store:
        chat, loop = refold.to_async(store.chat("a")), asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)

        async def change() -> None:
            async with refold.to_async(store).transaction():
                await chat.add_message("user", "never")
                await asyncio.Event().wait()

        async def begin() -> None:
            tasks.add(asyncio.ensure_future(change()))
            while await chat.version == 1:
                await asyncio.sleep(0)

        tasks = set[asyncio.Future[None]]()
        loop.run_until_complete(begin())
        loop.close()
        tasks.clear()
        gc.collect()
        chat.sync.add_message("user", "hello")

        assert said(chat.sync.items) == ["hello"]


async def test_a_task_that_outlives_its_transaction(tmp_path: Path) -> None:
    """Its calls have the threads of the loop again."""
    async with refold.aopen(tmp_path / "store.db") as store:
        chat, may_go_on = await store.chat("a"), asyncio.Event()

        async def write() -> None:
            await may_go_on.wait()
            await chat.add_message("user", "late")

        async with store.transaction():
            late = asyncio.create_task(write())
            await chat.add_message("user", "first")
        may_go_on.set()
        await late
        assert said(await chat.items) == ["first", "late"]


@pytest.mark.parametrize("is_made", [False, True])
async def test_a_thread_that_cannot_be_started(is_made: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that raises an error is not made afterwards; one that another thread has begun by then is waited for."""
    loop, may_end = asyncio.get_running_loop(), threading.Event()
    async with refold.aopen(":memory:") as store:
        chat = await store.chat("a")

        def fail(_: threading.Thread) -> None:
            if is_made:
                may_end.set()
                assert soon(lambda: chat.sync.turn_count() == 1)
            raise RuntimeError("can't start new thread")

        loop.set_default_executor(ThreadPoolExecutor(2))
        busy = loop.run_in_executor(None, may_end.wait, SOON_SECONDS)
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", fail)
            with nullcontext() if is_made else pytest.raises(RuntimeError, match="can't start"):
                assert (await chat.add_message("user", "hello")).id
        may_end.set()
        await busy
        if not is_made:
            await chat.add_message("user", "hello")
        assert said(await chat.items) == ["hello"]


async def test_ends_where_no_thread_can_be_started(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a stream, of a transaction or of a store cannot be left out: it runs in the thread of the loop."""
    loop, may_end = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(2))
    monkeypatch.setattr(threads, "_IDLE", {})
    async with refold.aopen(location) as store:
        chat = await store.chat("a")
        busy = loop.run_in_executor(None, may_end.wait, SOON_SECONDS)
        with monkeypatch.context() as full:
            full.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
            async with chat.stream("assistant") as out:
                out.write("hello")
            async with store.transaction():
                chat.sync.add_message("user", "kept")
            chat.sync.add_message("user", "by itself")
            await store.close()
        may_end.set()
        await busy
    if location != ":memory:":
        async with refold.aopen(location) as store:
            assert said(await (await store.chat("a")).items) == ["hello", "kept", "by itself"]


@pytest.mark.parametrize("is_rolled_back", [False, True])
async def test_a_call_that_its_transaction_does_not_await(
    is_rolled_back: bool, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is part of it all the same, as where `gather` raises the error of another call at once."""
    async with refold.aopen(location) as store:
        chat, other = await store.chat("a"), await store.chat("b")
        add = chat.sync.add_message

        def add_late(*given: Any) -> Any:
            time.sleep(0.05)
            return add(*given)

        monkeypatch.setattr(chat.sync, "add_message", add_late)
        with pytest.raises(NotFoundError) if is_rolled_back else nullcontext():
            async with store.transaction():
                late = asyncio.create_task(chat.add_message("user", "late"))
                await (other.evict(["none"]) if is_rolled_back else other.add_message("user", "first"))
        await late
        assert said(await (await store.chat("a")).items) == ([] if is_rolled_back else ["late"])


async def test_rebasing_awaits_nothing() -> None:
    """An async change is refused, here and through an async context: nobody would await it, and it would be lost."""
    chat = ChatContext()

    async def add(context: Any) -> None:
        context.add_message("user", "mine")

    change: Any = add
    with pytest.raises(InvalidInputError, match="the change is async: give an ordinary function"):
        chat.rebase(change)
    with pytest.raises(InvalidInputError, match="the change is async"):
        await refold.to_async(chat).rebase(change)

    async def add_each(context: Any) -> Any:
        yield context.add_message("user", "mine")

    with pytest.raises(InvalidInputError, match="the change is async"):
        chat.rebase(add_each)
    assert len(chat) == 0
    change = len
    with pytest.raises(InvalidInputError, match="the change is not async: give an async function"):
        await ContextQueue(limit=1).rebase(change)


async def test_a_merge_from_another_store(location: str) -> None:
    """Its copy and the merge are one transaction, also where the pool has hooks in this loop."""
    async with refold.aopen(location) as store, refold.aopen(":memory:") as elsewhere:
        pool, other = await store.pool("p"), await elsewhere.pool("q")
        await other.add(refold.PoolItem("a", "about a", "a1"))
        seen: list[int] = []

        async def note(*_: Any) -> None:
            seen.append(threading.get_ident())

        pool.sync.after_add(note)
        await pool.merge(other.sync)
        assert ([item.id for item in await pool.items], seen) == (["a1"], [threading.get_ident()])


async def test_a_message_written_piece_by_piece(location: str) -> None:
    """The block is entered without waiting; its pieces are awaited."""
    async with refold.aopen(location) as store:
        chat = await store.chat("a")
        async with chat.stream() as out:
            await out.awrite("It is ")
            await out.awrite("on its way.")
        assert said(await chat.items) == ["It is on its way."]


async def test_a_subscription(location: str) -> None:
    """`async for`, and an awaited `ack`."""
    async with refold.aopen(location) as store:
        chat = await store.chat("a")
        events = await store.subscribe(name="mail")
        assert (await anext(events)).stream == "chat:a"
        await events.ack()
        await chat.add_message("user", "hello")
        async with await store.subscribe(name="mail") as again:
            assert (await anext(again)).version == 2
        assert [event async for event in again] == []


async def test_those_who_wait_for_news_leave_the_threads_of_the_loop_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each subscription waits in a thread; the loop may have few."""
    monkeypatch.setattr(subscription, "WAIT_SECONDS", 5.0)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    async with refold.aopen(tmp_path / "store.db") as store:
        chat, end = await store.chat("a"), await store.now()
        waiting = [asyncio.create_task(anext(await store.subscribe(after=end))) for _ in range(3)]
        await asyncio.sleep(0.02)
        async with asyncio.timeout(2.5):
            await chat.add_message("user", "hello")
            assert [(await one).version for one in waiting] == [2, 2, 2]


async def test_a_cancelled_call(tmp_path: Path) -> None:
    """It ends when its work in the thread has ended, so that a store is not closed behind it; the event is there."""
    async with refold.aopen(tmp_path / "store.db") as store:
        chat = await store.chat("a")
        may_go_on, is_running = threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def change(sync: refold.ChatContext) -> None:
            loop.call_soon_threadsafe(is_running.set)
            may_go_on.wait(10)
            sync.add_message("user", "hello")

        task = asyncio.create_task(chat.rebase(change))
        await is_running.wait()
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert said(await chat.items) == ["hello"]


async def test_cancelled_while_it_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store that nobody gets is closed."""
    closed: list[refold.Store] = []
    close = refold.Store.close

    def note(store: refold.Store) -> None:
        close(store)
        closed.append(store)

    monkeypatch.setattr(refold.Store, "close", note)
    opening = asyncio.ensure_future(refold.aopen(tmp_path / "store.db"))
    await asyncio.sleep(0)
    opening.cancel()

    with pytest.raises(asyncio.CancelledError):
        await opening
    assert len(closed) == 1


def test_without_a_loop_of_asyncio() -> None:
    """As under trio: whatever is awaited is refused, with the way out, and changes nothing."""
    with refold.open(":memory:") as store:
        chat, pool = store.chat("a"), store.pool("p")
        item = refold.PoolItem("text", "about it", "id")
        for call in (refold.to_async(chat).add_message("user", "hello"), pool.add(item), chat.aflush()):
            with pytest.raises(RefusedError, match=r"event loop of asyncio.*trio\.to_thread\.run_sync"):
                call.send(None)
        assert (chat.items, pool.items) == ([], [])
