"""A writer of items in a process of its own: `main(KIND, PLACE, WRITER, COUNT)`."""

import asyncio
from typing import Any

from refold.domain.pool.items import ContextItem

from ..domain.pool.containers import item, pool_on, queue_on
from .stores import log_at


async def write(container: Any, texts: list[str]) -> None:
    """Put items in, one by one, and print each."""
    for text in texts:
        if hasattr(container, "add"):
            await container.add(item(text))
        else:
            await container.append(ContextItem(text))
        print(text, flush=True)


def main(kind: str, place: str, writer: str, count: str) -> None:
    """Write to a queue or a pool that exists."""
    log = log_at(place)
    container = queue_on(log) if kind == "queue" else pool_on(log)
    asyncio.run(write(container, [f"{writer}-{number}" for number in range(int(count))]))
    log.close()
