"""
The contract of what a call costs: work and memory that do not grow with what came before.

Counted are bytes that Python takes and calls of the log, never seconds.
"""

import asyncio
import gc
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from typing import Any
from weakref import WeakSet

import msgspec
import pytest

from refold.chat import ChatMessage, ChatRole
from refold.domain.context import journal as journals
from refold.domain.context.journal import Journal
from refold.domain.errors import ConcurrencyError, InvalidInputError, LimitExceededError
from refold.domain.log import envelope
from refold.domain.log.envelope import Meta
from refold.domain.log.ports import LiveLog, NewEvents, Receipt
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store
from refold.pool import ContextItem
from refold.window import ContextItem as WindowItem

from ..domain.memory.remembering import about
from .writing import append, new, said

# A change that copied those before it would take 8 bytes for each of them, beside its own.
CHANGES = 2_000
BYTES_MAX = 16_000
TOO_LARGE = -1
# Of the contexts that are let go of: the last one, and the last work of some threads of the pool.
LEFT_MAX = 4
# How long it is waited for what others let go of: looking at all objects takes longer than most of these.
PAUSES_SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3)
KINDS = ("chat", "queue", "pool", "window", "memory", "run")
AGENTS = ("agent's window", "agent's memory")
Change = Callable[[int], Awaitable[Any]]


def change_of(store: Store, kind: str, name: str = "a", **options: Any) -> Change:
    """Return what changes a new context of a kind, as a coroutine whichever the kind."""
    if kind == "queue":
        appended = store.queue(name, limit=1_000_000, **options).append
        return lambda number: appended(ContextItem(text_of(number)))
    if kind == "pool":
        added = store.pool(name, **options).add
        return lambda number: added(ContextItem(text_of(number), "an item", f"i{number}"))
    if kind == "run":
        run = store.run("mia", name)
        query = run.register_query("why?")
        return lambda number: done(run.register_node, "State", "", [query], state=text_of(number))
    if kind in ("memory", "agent's memory"):
        agents = kind == "agent's memory"
        memory: Any = store.agent_context(name, "/ask", **options).memory if agents else store.memory(**options)
        put = memory.scope(name).put
        return lambda number: done(put, about(f"k{number}", text_of(number), scope=name))
    if kind in ("window", "agent's window"):
        settings = {"max_tokens": 10**9, **options}
        agents = kind == "agent's window"
        window = (
            store.agent_context(name, "/ask", **settings).context_window if agents else store.window(name, **settings)
        )
        add = window.add
        return lambda number: done(add, WindowItem(f"k{number}", text_of(number), "test"))
    add_message = store.chat(name, **options).add_message
    return lambda number: done(add_message, "user", text_of(number))


def text_of(number: int) -> str:
    """Return a text for each number, a long one for the number that stands for that."""
    return "x" * 20_000 if number == TOO_LARGE else f"text {number}"


async def done(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call what is no coroutine."""
    return call(*arguments, **options)


async def least_bytes(change: Change, start: int) -> int:
    """Return the bytes that the cheapest of eight changes takes at its height."""
    tracemalloc.start()
    taken = []
    for number in range(start, start + 8):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        await change(number)
        taken.append(tracemalloc.get_traced_memory()[1] - before)
    tracemalloc.stop()
    return min(taken)


@contextmanager
def held_back(log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Keep what is queued from the log until what this yields is called; whoever waits is served at once."""
    append, held = log.append, []

    def hold(batch: list[NewEvents], *, wait: bool = True) -> Any:
        if wait:
            return append(batch)
        future: Future[list[Receipt]] = Future()
        held.append((batch, future))
        return future

    def release() -> None:
        while held:
            batch, future = held.pop(0)
            future.set_result(append(batch).result())

    with monkeypatch.context() as patch:
        patch.setattr(log, "append", hold)
        yield release
        release()


def _failure_of(journal: Journal[Any]) -> BaseException | None:
    journal._outbox.wait()
    return journal._outbox.settlement.failure


class LimitsContract:
    """What holds whatever the log. Needs the fixture `log`."""

    @pytest.mark.parametrize("kind", ["chat"])
    async def test_a_transaction_of_many_changes(self, log: LiveLog, kind: str) -> None:
        """The last change within it takes as little as the first: none copies those before it."""
        store = Store(log, MemoryProjectionStore())
        change = change_of(store, kind)
        with store.transaction():
            for number in range(CHANGES):
                await change(number)
            taken = await least_bytes(change, CHANGES)

        assert taken < BYTES_MAX
        assert everything(log) >= CHANGES + 8

    @pytest.mark.parametrize("kind", ["chat"])
    async def test_a_long_queue(self, log: LiveLog, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """The last change that is queued takes as little as the first."""
        store = Store(log, MemoryProjectionStore(), durability="enqueue")
        change = change_of(store, kind)
        with held_back(log, monkeypatch) as release:
            for number in range(CHANGES):
                await change(number)
            taken = await least_bytes(change, CHANGES)
            release()
        store.flush()

        assert taken < BYTES_MAX
        assert everything(log) >= CHANGES + 8

    @pytest.mark.parametrize("default", ["commit", "enqueue"])
    @pytest.mark.parametrize("kind", [*KINDS, *AGENTS])
    async def test_what_is_queued_is_not_in_the_log(
        self, log: LiveLog, kind: str, default: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whether the call says so or the store: before the flush nothing, behind it all, and in order."""
        store = Store(log, MemoryProjectionStore(), durability="enqueue" if kind == "run" else default)
        change = change_of(store, kind, **({} if kind == "run" else {"durability": "enqueue"}))
        store.flush()
        opened = everything(log)
        with held_back(log, monkeypatch) as release:
            for number in range(3):
                await change(number)
            assert everything(log) == opened
            release()
        store.flush()

        assert everything(log) == opened + 3

    def test_closing_tells_what_was_refused(self, log: LiveLog) -> None:
        """A store that is closed finishes what is queued, as `flush` does, and names what did not get in."""
        store = Store(log, MemoryProjectionStore(), durability="enqueue")
        chat = store.chat("a")
        _ = chat.items
        append(log, "chat:a", said(9))
        chat.add_message("user", "mine", message_id="x1")

        with pytest.raises(ConcurrencyError) as caught:
            store.close()
        assert [event.id for event in caught.value.refused] == ["x1"]

    @pytest.mark.parametrize("kind", [*KINDS[:-1], *AGENTS])
    async def test_what_is_committed_is_in_the_log(
        self, log: LiveLog, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A context that commits in a store that queues: each call is in the log when it returns."""
        store = Store(log, MemoryProjectionStore(), durability="enqueue")
        change = change_of(store, kind, durability="commit")
        opened = everything(log)
        with held_back(log, monkeypatch):
            for number in range(1, 4):
                await change(number)
                assert everything(log) == opened + number

    @pytest.mark.parametrize("durability", ["commit", "enqueue"])
    @pytest.mark.parametrize("is_loaded", [False, True])
    async def test_a_handle_that_only_appends(
        self, log: LiveLog, durability: Any, is_loaded: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It keeps a bounded part of what nobody looks at, and whoever looks in the end sees all of it."""
        monkeypatch.setattr(journals, "UNUSED_EVENTS_MAX", 50)
        store = Store(log, MemoryProjectionStore(), durability=durability)
        chat = store.chat("a")
        for number in range(10):
            chat.add_message("user", f"message {number}")
        if is_loaded:
            assert len(chat.items) == 10
        kept = 0
        for number in range(10, 300):
            chat.add_message("user", f"message {number}")
            kept = max(kept, len(chat._journal._state.items) if chat._journal._state is not None else 0)
        chat.flush()

        assert kept <= 10 + journals.UNUSED_EVENTS_MAX
        assert not chat._journal.is_loaded
        assert [one.content[0] for one in chat.messages()] == [f"message {number}" for number in range(300)]

    async def test_looking_now_and_then_reads_little(self, log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
        """The events read again are no more than those appended, however often somebody looks."""
        read, counted = log.read_events, []

        def counting(stream: str, **bounds: Any) -> Any:
            events = read(stream, **bounds)
            counted.append(len(events))
            return events

        monkeypatch.setattr(journals, "UNUSED_EVENTS_MAX", 4)
        monkeypatch.setattr(log, "read_events", counting)
        chat = Store(log, MemoryProjectionStore(), durability="enqueue").chat("a")
        for number in range(600):
            chat.add_message("user", f"message {number}")
            if not number % 7:
                assert len(chat.items) == number + 1
        chat.flush()

        assert sum(counted) < 2 * 600

    @pytest.mark.long
    @pytest.mark.parametrize("durability", ["commit", "enqueue"])
    @pytest.mark.parametrize("kind", KINDS)
    async def test_contexts_that_are_dropped(
        self, log: LiveLog, kind: str, durability: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Opened, written and let go of, flushed or not: a bounded number of them stays in memory."""
        monkeypatch.setattr(journals, "SETTLED_KEPT_MAX", 8)
        made: WeakSet[Journal[Any]] = WeakSet()
        begin = Journal.__init__

        def noted(journal: Journal[Any], *args: Any, **named: Any) -> None:
            made.add(journal)
            begin(journal, *args, **named)

        monkeypatch.setattr(Journal, "__init__", noted)
        store = Store(log, MemoryProjectionStore(), durability=durability)
        most = 0
        for number in range(20):
            await change_of(store, kind, f"c{number}")(number)
            assert not any(_failure_of(journal) for journal in list(store._unflushed))
            most = max(most, len(store._unflushed))
        store.flush()
        for pause in PAUSES_SECONDS:
            gc.collect()
            if len(made) <= LEFT_MAX:
                break
            # A thread of the pool lets go of its last piece of work when it gets another.
            await asyncio.sleep(pause)

        assert most <= (8 if durability == "enqueue" else 0)
        assert not store._unflushed
        assert len(made) <= LEFT_MAX

    @pytest.mark.parametrize("is_meta", [False, True])
    def test_an_event_over_the_limit(self, log: LiveLog, is_meta: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """Refused with the name of the limit; what else is in the batch is not written, and what is smaller is."""
        monkeypatch.setattr(envelope, "PAYLOAD_BYTES_MAX", 10_000)
        monkeypatch.setattr(envelope, "META_BYTES_MAX", 1_000)
        large = new("chat:a", said(2, "hello" if is_meta else "x" * 10_001))
        if is_meta:
            large = msgspec.structs.replace(large, metas=(Meta("x" * 1_000),))

        for batch in ([large], [new("chat:b", said(1)), large]):
            error = log.append(batch).exception(30)
            assert isinstance(error, LimitExceededError)
            assert error.limit == ("META_BYTES_MAX" if is_meta else "PAYLOAD_BYTES_MAX")
        assert everything(log) == 0
        append(log, "chat:a", said(2, "x" * 9_900))
        assert everything(log) == 1

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("durability", ["commit", "enqueue", "transaction"])
    async def test_a_change_over_the_limit(
        self, log: LiveLog, kind: str, durability: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Refused at the call, though it is only queued or part of a transaction; the next one goes in."""
        is_queued = durability == "enqueue"
        store = Store(log, MemoryProjectionStore(), durability="enqueue" if is_queued else "commit")
        change = change_of(store, kind)
        store.flush()
        before = everything(log)
        with store.transaction() if durability == "transaction" else nullcontext():
            with monkeypatch.context() as patch:
                patch.setattr(envelope, "PAYLOAD_BYTES_MAX", 10_000)
                with pytest.raises(LimitExceededError):
                    await change(TOO_LARGE)
            await change(2)
        store.flush()

        assert everything(log) == before + 1

    @pytest.mark.parametrize("length", [256, 1_000_000])
    async def test_ids_that_are_too_long(self, log: LiveLog, length: int) -> None:
        """Refused at the call with a short message, whichever id it is; nothing is recorded."""
        store = Store(log, MemoryProjectionStore())
        chat, pool = store.chat("a"), store.pool("p")
        run = store.run("mia", "s")

        def calls(long: str, letters: str, key: str) -> list[Callable[[], Any]]:
            return [
                lambda: chat.add_message("user", "hello", message_id=long),
                lambda: chat.add_message("user", "hello", idempotency_key=key),
                lambda: chat.add_items([ChatMessage(id=long, role=ChatRole.USER, content=["hello"])]),
                lambda: chat.insert(ChatMessage(id=long + "2", role=ChatRole.USER, content=["hello"])),
                lambda: chat.add_function_call("f", "{}", call_id=long),
                lambda: chat.add_function_output("f", "{}", long),
                lambda: store.transaction(idempotency_key=key).__enter__(),
                lambda: run.register_query("why?", idempotency_key=key),
                lambda: store.memory().scope("s").put(about("k"), idempotency_key=key),
                lambda: append(log, "chat:a", said(1), key=key),
                lambda: store.chat(long),
                lambda: store.run(long, "s"),
                lambda: store.memory().scope(long),
                lambda: store.agent_context(long, "/ask"),
                lambda: store.subscribe(name=letters),
                lambda: store.name_moment(letters),
                lambda: chat.name_version(letters),
            ]

        before = everything(log)
        for call in calls("ü" * (length // 2), "u" * length, "k" * max(length, 1_001)):
            with pytest.raises(InvalidInputError) as caught:
                call()
            assert len(str(caught.value)) < 3_000
        with pytest.raises(InvalidInputError):
            await pool.add(ContextItem("x", "an item", "ü" * (length // 2)))
        assert everything(log) == before
        chat.add_message("user", "hello", message_id="ü" * 127, idempotency_key="ä" * 500)
        chat.add_function_call("f", "{}", call_id="x" * 255)
        await pool.add(ContextItem("x", "an item", "x" * 255))
        assert everything(log) == before + 3


class KindsContract(LimitsContract):
    """What contexts of each kind do before their events come to a log: any one log shows it."""

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_transaction_of_many_changes(self, log: LiveLog, kind: str) -> None:
        """As for a chat."""
        await super().test_a_transaction_of_many_changes(log, kind)

    @pytest.mark.parametrize("kind", KINDS)
    async def test_a_long_queue(self, log: LiveLog, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """As for a chat."""
        await super().test_a_long_queue(log, kind, monkeypatch)


def everything(log: LiveLog) -> int:
    """Return how many events there are."""
    return sum(log.head(stream) for stream in log.streams())
