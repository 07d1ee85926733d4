"""A memory as the seed has it (SPEC A4), repaired: put, get, search and forget."""

import enum
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from refold.domain.errors import InvalidInputError
from refold.domain.memory.memory import InMemoryMemoryStore
from refold.domain.memory.records import MemoryKind, MemoryStore

from .remembering import about, found


@pytest.fixture
def memory() -> InMemoryMemoryStore:
    """An empty memory."""
    return InMemoryMemoryStore()


async def test_put_and_get(memory: InMemoryMemoryStore) -> None:
    """What was put is got, all of it; what was not is None."""
    record = about("k", {"x": [1, None]}, scope="user:42", kind=MemoryKind.EPISODIC, tags=["b", "a", "b"])
    await memory.put(record)

    got = await memory.get(scope="user:42", key="k")

    assert got is not None
    assert got.model_dump(exclude={"updated_at"}) == record.model_dump(exclude={"updated_at"})
    assert await memory.get(scope="user:42", key="x") is None
    assert await memory.get(scope="user:43", key="k") is None
    assert isinstance(memory, MemoryStore)


async def test_put_again(memory: InMemoryMemoryStore) -> None:
    """A4.3: the key has one value; the first timestamp stays, and the time of the change is the memory's own."""
    long_ago, later = datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=2)))
    await memory.put(about("k", 1, timestamp=long_ago, updated_at=later, tags=["old"]))
    before = datetime.now(UTC)
    await memory.put(about("k", 2, timestamp=later, updated_at=long_ago))

    got = await memory.get(scope="s", key="k")

    assert got is not None
    assert (got.value, got.tags, got.timestamp) == (2, [], long_ago)
    assert before <= got.updated_at <= datetime.now(UTC) + timedelta(milliseconds=1)


async def test_search(memory: InMemoryMemoryStore) -> None:
    """A4.3: by kind, beginning of the key, and tag, the newest first; in one scope."""
    for key, kind, tags in (("aa", "semantic", ["x"]), ("ab", "episodic", ["x", "y"]), ("b", "semantic", [])):
        await memory.put(about(key, kind=MemoryKind(kind), tags=tags))
    await memory.put(about("other", scope="t"))
    await memory.put(about("aa", 2, tags=["x"]))

    assert await found(memory) == "aabab"
    assert await found(memory, kind=MemoryKind.SEMANTIC) == await found(memory, kind="semantic") == "aab"
    assert await found(memory, key_prefix="a") == "aaab"
    assert await found(memory, tag="x", kind=MemoryKind.EPISODIC) == "ab"
    assert await found(memory, tag="z") == await found(memory, scope="nobody") == ""


async def test_filters_come_before_the_limit(memory: InMemoryMemoryStore) -> None:
    """A4.5: the limit counts what passes; a prefix is taken as it stands."""
    for key in ("a_1", "a%2", "ab3"):
        await memory.put(about(key, tags=["old"]))
    for number in range(5):
        await memory.put(about(f"z{number}"))

    assert await found(memory, tag="old", limit=2) == "ab3a%2"
    assert await found(memory, key_prefix="a_") == "a_1"
    assert await found(memory, key_prefix="a%") == "a%2"
    assert await found(memory, limit=0) == ""
    for wrong in ({"limit": -1}, {"kind": "other"}):
        with pytest.raises(InvalidInputError):
            await found(memory, **wrong)


async def test_forget(memory: InMemoryMemoryStore) -> None:
    """A4.3: a key or a scope; how many records that were."""
    for key in "abc":
        await memory.put(about(key))
    await memory.put(about("d", scope="t"))

    forgot = [await memory.forget(scope="s", key=key) for key in ("a", "a", "nobody")]
    assert (forgot, await found(memory)) == ([1, 0, 0], "cb")
    assert [await memory.forget(scope=scope) for scope in ("s", "s", "nobody")] == [2, 0, 0]
    assert (await found(memory), await found(memory, scope="t")) == ("", "d")


class Colour(enum.StrEnum):
    """A text of a class."""

    RED = "red"


@dataclass
class Plan:
    """A dataclass."""

    steps: list[str]


class Order(BaseModel):
    """A model."""

    number: int


class Fact(msgspec.Struct):
    """A Struct."""

    text: str


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        "漢字\x00",
        0,
        1.5,
        True,
        [],
        {"a": {"b": [1, "x"]}},
        Plan(["a"]),
        Order(number=7),
        Fact("f"),
        Colour.RED,
    ],
)
async def test_any_value(memory: InMemoryMemoryStore, value: Any) -> None:
    """JSON, and instances of classes: what is got is equal to what was put."""
    await memory.put(about("k", value))

    got = await memory.get(scope="s", key="k")

    assert got is not None
    assert got.value == value
    assert (await memory.search(scope="s"))[0].value == value


@pytest.mark.parametrize("value", [object(), [float("nan")], float("nan"), "\ud800"])
async def test_a_value_that_would_not_come_back(memory: InMemoryMemoryStore, value: Any) -> None:
    """A4.5: it is refused, where the seed kept another one."""
    with pytest.raises(InvalidInputError, match="the value of 'k'"):
        await memory.put(about("k", value))

    assert await memory.get(scope="s", key="k") is None


async def test_what_else_is_refused(memory: InMemoryMemoryStore) -> None:
    """Texts that are no Unicode, and times without a zone, which would be guessed at."""
    broken = about("k")
    broken.tags = ["\ud800"]
    for wrong in (broken, about("k", timestamp=datetime(2026, 1, 1))):
        with pytest.raises(InvalidInputError):
            await memory.put(wrong)
    with pytest.raises(InvalidInputError, match="of the scope 't'"):
        memory.scope("s").put(about("k", scope="t"))

    assert memory.scope("s").version == 0


async def test_a_record_is_a_copy(memory: InMemoryMemoryStore) -> None:
    """To change one that was got changes nothing; to put it again does."""
    given = about("k", {"x": [1]})
    await memory.put(given)
    given.value["x"].append(2)
    got = await memory.get(scope="s", key="k")
    assert got is not None
    got.value["x"].append(3)
    got.tags.append("t")
    assert (await memory.search(scope="s"))[0].value == {"x": [1]}

    await memory.put(got)

    assert await found(memory, tag="t") == "k"


@pytest.mark.parametrize(
    "scope", ["user:mia@example.org", "a..b", "...", "50%", "%40", "a\nb", "漢字", "a b/c", "\x85"]
)
async def test_any_scope(memory: InMemoryMemoryStore, scope: str) -> None:
    """What an id cannot hold is percent-encoded, and comes back as it was."""
    await memory.put(about("k", scope=scope))

    assert [record.scope for record in await memory.search(scope=scope)] == [scope]
    assert await memory.search(scope=memory.scope(scope).id) == [] or memory.scope(scope).id == scope


@pytest.mark.parametrize("scope", ["", "x" * 256, "\ud800", "@" * 86])
async def test_a_scope_that_cannot_be(memory: InMemoryMemoryStore, scope: str) -> None:
    """Empty, no Unicode, or too long, also once it is encoded."""
    with pytest.raises(InvalidInputError, match="the scope"):
        await memory.get(scope=scope, key="k")
