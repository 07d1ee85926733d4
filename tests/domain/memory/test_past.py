"""What was remembered when, by whom, and what it replaced; and what was forgotten, taken back."""

from datetime import UTC, datetime

import pytest

import refold
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.memory.memory import InMemoryMemoryStore
from refold.domain.memory.records import MemoryStore

from ..fakes import CountingSystem
from .remembering import about, found, told


async def lived() -> InMemoryMemoryStore:
    """Return a memory to which everything happened."""
    memory = InMemoryMemoryStore()
    for record in (about("a", 1), about("b", 2), about("a", 3)):
        await memory.put(record)
    await memory.forget(scope="s", key="b", reason="asked for")
    await memory.put(about("b", 4))
    await memory.forget(scope="s")
    await memory.restore(scope="s", key="a")
    memory.scope("s").name_version("named", 3)
    return memory


async def test_the_history_of_a_key() -> None:
    """Each change with what was before and what was after."""
    memory = await lived()

    assert told(await memory.history(scope="s", key="b")) == [
        ("b", "remembered", None, 2),
        ("b", "forgotten", 2, None),
        ("b", "remembered", None, 4),
        ("b", "forgotten", 4, None),
    ]
    assert told(await memory.history(scope="s"))[-3:] == [
        ("a", "forgotten", 3, None),
        ("b", "forgotten", 4, None),
        ("a", "restored", None, 3),
    ]
    assert [one.version for one in await memory.history(scope="s", key="a")] == [1, 3, 6, 7]
    assert await memory.history(scope="s", key="nobody") == await memory.history(scope="nobody") == []


async def test_who_changed_it() -> None:
    """And when, in which trace, because of what."""
    memory = InMemoryMemoryStore()
    before = datetime.now(UTC)
    with refold.acting(actor="mia", correlation_id="t1", because="chat:a@3"):
        await memory.put(about("k"))
    await memory.put(about("k", 2))

    first, second = await memory.history(scope="s", key="k")

    assert (first.actor, first.correlation_id, first.because) == ("mia", "t1", "chat:a@3")
    assert (second.actor, second.correlation_id, second.because) == (None, None, None)
    assert before <= first.recorded_at <= second.recorded_at
    assert second.old == first.new
    assert memory.scope("s").recorded_events()[1].event.replaced.version == 1


async def test_the_past() -> None:
    """By version, name, time and position; the whole memory, or one scope."""
    memory = await lived()
    scope = memory.scope("s")
    recorded = scope.recorded_events()
    time = datetime.fromtimestamp(recorded[2].recorded_at // 1_000_000, UTC)
    time = time.replace(microsecond=recorded[2].recorded_at % 1_000_000)

    keys = [await found(memory.at(version)) for version in range(9)]
    assert keys == ["", "a", "ba", "ab", "a", "ba", "", "a", "a"]
    for address in (3, "named", f"pos:{recorded[2].position}", 3 - scope.version):
        past = memory.at(address)
        assert [record.value for record in await past.search(scope="s")] == [3, 2]
        assert told(await past.history(scope="s", key="a")) == told(scope.at(address).history("a"))[:2]
        assert (scope.at(address).version, scope.at(address).get("b")) == (3, await past.get(scope="s", key="b"))
    by_then = max(one.version for one in recorded if one.recorded_at <= recorded[2].recorded_at)
    assert scope.at(time).version == by_then
    assert scope.names() == {"named": 3}


async def test_the_past_cannot_be_changed() -> None:
    """It is a memory all the same."""
    past = (await lived()).at(3)

    assert isinstance(past, MemoryStore)
    with pytest.raises(RuntimeError, match="cannot be changed"):
        await past.put(about("k"))
    with pytest.raises(RuntimeError, match="cannot be changed"):
        await past.forget(scope="s")


async def test_a_moment_that_is_none() -> None:
    """No such version or name, or no address at all; of a scope that is not there, too."""
    memory = await lived()

    for address in (99, "nobody"):
        with pytest.raises(NotFoundError):
            await memory.at(address).get(scope="s", key="a")
    with pytest.raises(NotFoundError):
        await memory.at(1).get(scope="nobody", key="a")
    with pytest.raises(InvalidInputError):
        await memory.at("2026-11-21T10:00").get(scope="s", key="a")


async def test_restore() -> None:
    """A key, or all that was forgotten and is not remembered anew; as it was, its times and its place too."""
    memory = InMemoryMemoryStore()
    for key in "abc":
        await memory.put(about(key))
    before = await memory.search(scope="s")
    await memory.forget(scope="s")

    assert await memory.restore(scope="s", key="b") == 1
    assert await memory.restore(scope="s") == 2
    assert await memory.search(scope="s") == before
    assert await memory.restore(scope="s") == 0


async def test_what_cannot_be_restored() -> None:
    """What is remembered, was never, or is remembered anew."""
    memory = InMemoryMemoryStore()
    await memory.put(about("a"))
    await memory.put(about("b"))
    await memory.forget(scope="s", key="b")
    await memory.put(about("b", 2))

    for key in ("a", "b", "nobody"):
        with pytest.raises(NotFoundError, match="nothing was forgotten"):
            await memory.restore(scope="s", key=key)
    assert await memory.restore(scope="s") == 0


async def test_a_repeated_call() -> None:
    """Under its key each is done once, and answers as it did."""
    memory = InMemoryMemoryStore()
    for _ in range(2):
        await memory.put(about("a"), idempotency_key="put")
    forgot = [await memory.forget(scope="s", idempotency_key="forget") for _ in range(2)]
    restored = [await memory.restore(scope="s", key="a", idempotency_key="restore") for _ in range(2)]

    assert (forgot, restored) == ([1, 1], [1, 1])
    assert memory.scope("s").version == 3


async def test_times_are_in_the_order_of_events() -> None:
    """One is newer than another where it came later, whatever the clocks of the writers say."""
    memory, slow = InMemoryMemoryStore(), CountingSystem(2e9)
    scope = memory.scope("s")
    for start in (2e9, 1e9, 1.5e9):
        slow.time = start
        scope._attachment.system = slow
        scope.put(about("abc"[scope.version]))

    records = scope.search()
    assert [record.key for record in records] == ["c", "b", "a"]
    assert records[0].updated_at > records[1].updated_at > records[2].updated_at


async def test_the_past_at_another_moment() -> None:
    """A view of the past gives another one, of an earlier or a later moment."""
    memory = await lived()
    view = memory.at("named")

    assert (await found(view), await found(view.at(1)), await found(memory.at(1).at("named"))) == ("ab", "a", "ab")
