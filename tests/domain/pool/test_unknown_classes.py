"""Items of a class that this program has not imported: they can be changed, only not looked into."""

from dataclasses import dataclass
from typing import Any

import pytest

from refold.domain import content
from refold.domain.errors import InvalidInputError
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue


def forget_classes() -> None:
    """Make this process one that has not seen the classes of any content."""
    content._CLASSES.clear()


def report(text: str) -> Any:
    """Return an instance of a class that no module gives by name."""

    @dataclass
    class Report:
        text: str

    return Report(text)


async def test_a_pool() -> None:
    """Removed, restored, merged, saved: none of it needs the class; to look does, and says so."""
    pool: ContextPool[Any] = ContextPool()
    await pool.add(ContextItem(report("a"), "a report", "a"))
    branch = pool.branch()
    await branch.add(ContextItem(report("b"), "another", "b"))
    forget_classes()

    await pool.remove("a")
    assert [left.born for left in pool.evicted()] == ["pool:detached@2"]
    await pool.restore("a")
    await pool.merge(branch)

    assert sorted(pool.catalogue().splitlines()) == ["- [a] a report", "- [b] another"]
    assert pool.to_dict()["items"][0]["content"] == {"text": "a"}
    with pytest.raises(InvalidInputError, match="not loaded"):
        pool.get("a")


async def test_a_queue() -> None:
    """Evicted for want of room, restored, cleared."""
    queue: ContextQueue[Any] = ContextQueue(1)
    await queue.append(ContextItem(report("a")))
    forget_classes()

    await queue.append(ContextItem("b"))
    await queue.restore(queue.evicted()[0].born)
    await queue.clear()

    assert len(queue) == 0
    with pytest.raises(InvalidInputError, match="not loaded"):
        _ = [left.item for left in queue.evicted()]
