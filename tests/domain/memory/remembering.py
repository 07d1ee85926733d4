"""Short ways to remember things, and to say what is remembered."""

from typing import Any

from refold.domain.memory.records import MemoryChange, MemoryRecord


def about(key: str, value: Any = 1, *, scope: str = "s", **fields: Any) -> MemoryRecord:
    """Return a record."""
    return MemoryRecord(scope=scope, key=key, value=value, **fields)


async def found(memory: Any, *, scope: str = "s", **filters: Any) -> str:
    """Return the keys of the records that a search finds."""
    return "".join([record.key for record in await memory.search(scope=scope, **filters)])


def told(changes: list[MemoryChange]) -> list[tuple[str, str, Any, Any]]:
    """Return what changes say: the key, how, the old value and the new one."""
    return [(one.key, one.how, one.old and one.old.value, one.new and one.new.value) for one in changes]
