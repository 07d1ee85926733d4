"""The contract of a memory that is kept in a log: handles, conflicts, the past, and what is taken along."""

import asyncio
from datetime import UTC, datetime

import pytest

from refold.domain.context.transaction import transaction
from refold.domain.errors import ConcurrencyError, DecisionRefusedError
from refold.domain.log.envelope import acting
from refold.domain.log.ports import LiveLog
from refold.domain.memory.memory import InMemoryMemoryStore
from refold.domain.memory.records import MemoryKind
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from ..domain.memory.remembering import about, found, told
from .writing import at_once, check_chain


class MemoryContract:
    """What holds for a memory, whatever log it lies in. Needs the fixture `log`."""

    def test_threads_share_a_scope(self, log: LiveLog) -> None:
        """Their transactions come one after the other, the first one too."""
        store = Store(log, MemoryProjectionStore())
        scope = store.memory().scope("s")

        def remember(writer: int) -> None:
            for number in range(5):
                with store.transaction():
                    scope.put(about(f"{writer}-{number}", number))
                    scope.put(about(f"{writer}-{number}-too", number))

        raised = at_once(*(lambda writer=writer: remember(writer) for writer in range(4)))

        assert raised == []
        assert scope.version == log.head("memory:s") == 40

    async def test_what_is_remembered_is_read(self, log: LiveLog) -> None:
        """Records with all they have, long ones too, by another handle; in scopes of any name."""
        memory = Store(log, MemoryProjectionStore()).memory()
        records = [
            about("long", "漢字\x00" * 5_000, scope="user:mia@example.org", tags=["ü"], kind=MemoryKind.PROCEDURAL),
            about("ключ", {"a": [1, None]}, scope="user:mia@example.org"),
            about("k", "", scope="漢字"),
        ]
        for record in records:
            await memory.put(record)

        again = Store(log, MemoryProjectionStore()).memory()
        for record in records:
            got = await again.get(scope=record.scope, key=record.key)
            assert got is not None
            assert got.model_dump(exclude={"updated_at"}) == record.model_dump(exclude={"updated_at"})
        assert await found(again, scope="user:mia@example.org", tag="ü") == "long"
        check_chain(log.read("memory:user:mia%40example.org"))

    def test_history_within_a_transaction(self, log: LiveLog) -> None:
        """What became of a key that it changed can be asked once it is over, whatever others record meanwhile."""
        scope, other = (Store(log, MemoryProjectionStore()).memory().scope("s") for _ in range(2))
        scope.put(about("a", 1))

        def overtaken() -> None:
            with transaction(log):
                scope.put(about("b", 1))
                at_once(lambda: other.put(about("c", 1)))
                assert [change.key for change in scope.history("a")] == ["a"]
                assert scope.history("c") == []
                for key in ("b", None):
                    with pytest.raises(DecisionRefusedError, match="transaction"):
                        scope.history(key)

        with pytest.raises(ConcurrencyError):
            overtaken()
        with transaction(log):
            scope.refresh()
            scope.put(about("b", 1))
        assert [change.key for change in scope.history()] == ["a", "c", "b"]

    async def test_every_moment_of_a_memory(self, log: LiveLog) -> None:
        """By version, by position and by time, what was remembered then; and who did what."""
        memory = Store(log, MemoryProjectionStore()).memory()
        with acting(actor="mia", correlation_id="t1"):
            await memory.put(about("a", 1))
            await memory.put(about("b", 2))
            await memory.put(about("a", 3))
        await memory.forget(scope="s", key="b", reason="asked for")
        await memory.forget(scope="s")
        await memory.restore(scope="s")

        again = Store(log, MemoryProjectionStore()).memory()
        recorded = again.scope("s").recorded_events()
        assert [await found(again.at(version)) for version in range(7)] == ["", "a", "ba", "ab", "a", "", "ab"]
        for event in recorded:
            time = datetime.fromtimestamp(event.recorded_at // 1_000_000, UTC)
            time = time.replace(microsecond=event.recorded_at % 1_000_000)
            by_then = max(one.version for one in recorded if one.recorded_at <= event.recorded_at)
            assert await found(again.at(f"pos:{event.position}")) == await found(again.at(event.version))
            assert await found(again.at(time)) == await found(again.at(by_then))
        changes = await again.history(scope="s", key="b")
        assert told(changes) == [("b", "remembered", None, 2), ("b", "forgotten", 2, None), ("b", "restored", None, 2)]
        assert [(one.actor, one.correlation_id) for one in changes] == [("mia", "t1"), (None, None), (None, None)]

    async def test_a_put_catches_up_and_a_forget_is_told(self, log: LiveLog) -> None:
        """What is replaced is what was there, whoever put it."""
        store = Store(log, MemoryProjectionStore())
        one, other = store.memory(), store.memory()
        for number in range(4):
            await (one, other)[number % 2].put(about("a", number))
        stale = one.scope("s")

        with pytest.raises(ConcurrencyError):
            stale.forget("a")
        assert [(change.old and change.old.value) for change in await one.history(scope="s")] == [None, 0, 1, 2]
        assert await one.forget(scope="s", key="a") == 1
        assert await other.get(scope="s", key="a") is None

    async def test_threads_remember_at_once(self, log: LiveLog) -> None:
        """Handles of their own, one scope: everything is in it, and each change follows from the one before."""
        store = Store(log, MemoryProjectionStore())

        def write(writer: int) -> None:
            scope = store.memory().scope("s")
            for number in range(5):
                scope.put(about(f"{writer}{number}", number))
                scope.put(about("shared", [writer, number]))

        raised = at_once(*(lambda writer=writer: write(writer) for writer in range(4)))

        memory = store.memory()
        changes = await memory.history(scope="s", key="shared")
        assert (raised, len(await memory.search(scope="s")), len(changes)) == ([], 21, 20)
        assert [one.old for one in changes[1:]] == [one.new for one in changes[:-1]]
        assert len({record.updated_at for record in await memory.search(scope="s")}) == 21

    async def test_tasks_remember_at_once(self, log: LiveLog) -> None:
        """Through one handle, while the loop goes on."""
        memory = Store(log, MemoryProjectionStore()).memory()

        await asyncio.gather(*(memory.put(about(f"{number:02}", number)) for number in range(20)))

        assert [record.value for record in sorted(await memory.search(scope="s"), key=lambda one: one.key)] == [
            *range(20)
        ]

    async def test_a_repeated_call_of_a_memory(self, log: LiveLog) -> None:
        """Under its key it is done once, also by a handle that is behind."""
        store = Store(log, MemoryProjectionStore())
        behind = store.memory()
        await behind.put(about("a", 1))
        for memory in (store.memory(), store.memory(), behind):
            await memory.put(about("b", 2), idempotency_key="put")
            assert await memory.forget(scope="s", idempotency_key="forget") == 2
            assert await memory.restore(scope="s", key="a", idempotency_key="restore") == 1
            assert await found(memory) == "a"

        assert log.head("memory:s") == 4

    async def test_a_scope_is_taken_along(self, log: LiveLog) -> None:
        """A detached one, with its whole past, into this log."""
        store = Store(log, MemoryProjectionStore())
        memory = InMemoryMemoryStore()
        await memory.put(about("a", 1))
        await memory.forget(scope="s")
        await memory.restore(scope="s")
        scope = store.adopt(memory.scope("s"), "s")
        scope.forget()
        scope.restore("a")

        assert told(await store.memory().history(scope="s")) == [
            ("a", "remembered", None, 1),
            *[("a", "forgotten", 1, None), ("a", "restored", None, 1)] * 2,
        ]
