"""Idempotency keys: what is done twice under one is done once, and hooks hear of it once."""

from typing import Any

import pytest

import refold
from refold.domain.errors import InvalidInputError
from refold.domain.pool.items import ContextItem
from refold.infrastructure.store import Store

from .containers import VetoError, Witness, contents, item, queue_of


@pytest.fixture
def store() -> Store:
    """An empty store in memory."""
    return refold.open(":memory:")


REPEATED: dict[str, Any] = {
    "add": lambda pool: pool.add(item("x"), idempotency_key="k"),
    "remove": lambda pool: pool.remove("a", idempotency_key="k"),
    "clear": lambda pool: pool.clear(idempotency_key="k"),
    "evict": lambda pool: pool.evict("pool:p@2", idempotency_key="k"),
    "restore": lambda pool: pool.restore("b", idempotency_key="k"),
    "settings": lambda pool: pool.change_settings(limit=1, idempotency_key="k"),
}


@pytest.mark.parametrize("durability", ["commit", "enqueue"])
@pytest.mark.parametrize("call", REPEATED)
async def test_a_key_makes_a_call_repeatable(store: Store, call: str, durability: Any) -> None:
    """By the same handle, by one that is behind, by a new one: done once, and hooks hear of it once."""
    pool = store.pool("p", limit=5, durability=durability)
    for item_id in "ab":
        await pool.add(item(item_id))
    await pool.remove("b")
    await pool.aflush()
    behind = store.pool("p", durability=durability)
    witness = Witness(pool, behind)
    await REPEATED[call](pool)
    once, told = contents(pool), len(witness.told)
    for handle in (pool, behind, store.pool("p", durability=durability)):
        await REPEATED[call](handle)
        assert contents(handle) == once

    store.flush()
    assert contents(store.pool("p")) == once
    assert len(witness.told) == told


async def test_a_key_comes_before_the_version(store: Store) -> None:
    """Who lost the answer repeats what he expected then."""
    queue = store.queue("q")
    for _ in range(2):
        await queue.append(ContextItem("a"), expected_version=1, idempotency_key="k")

    assert contents(queue) == ["a"]


async def test_a_key_of_a_refused_call_is_free() -> None:
    """Nothing was recorded under it."""
    queue = await queue_of(2)
    witness = Witness(queue)
    witness.refuses = {"before_append"}
    with pytest.raises(VetoError):
        await queue.append(ContextItem("a"), idempotency_key="k")
    witness.refuses.clear()
    await queue.append(ContextItem("b"), idempotency_key="k")

    assert contents(queue) == ["b"]
    with pytest.raises(InvalidInputError, match="idempotency key"):
        await queue.append(ContextItem("c"), idempotency_key="\ud800")
