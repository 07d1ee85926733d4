"""What left a container is in its log, and no longer in memory."""

import gc
from typing import Any

import pytest

from refold.domain.ordered_map import OrderedMap
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue


async def filled(container: Any, count: int) -> Any:
    """Put items into a container, and return it."""
    for number in range(count):
        if isinstance(container, ContextQueue):
            await container.append(ContextItem(number))
        else:
            await container.add(ContextItem(number, "a number", str(number)))
    return container


@pytest.mark.parametrize("kind", [ContextQueue, ContextPool])
async def test_what_left_is_let_go_of(kind: Any) -> None:
    """However many came and went, there is one version of each map."""
    container = await filled(kind(2), 300)
    gc.collect()

    present = [container._state.items, container._state.ids]
    mine = {one._lock for one in present}
    maps = [one for one in gc.get_objects() if isinstance(one, OrderedMap) and one._lock in mine]
    assert container._state.items in maps
    assert [one for one in maps if not any(one is kept for kept in present)] == []
    assert len(container.evicted()) == 298
