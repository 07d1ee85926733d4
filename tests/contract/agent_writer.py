"""
An agent in a process of its own: `main(PLACE, NAME, COUNT, [kill])`.

Its tool gives items for a pool that is shared, and prints each when it was routed; at the end it may kill the process.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

from refold.domain.agent.agent import Agent
from refold.domain.agent.tool import tool
from refold.domain.agent.turn import Turn
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from ..domain.pool.containers import item
from .stores import log_at


@tool
async def find(name: str, count: int, kill: bool) -> AsyncIterator[Any]:
    """Give items, one by one."""
    for number in range(count):
        yield item(f"{name}-{number}")
        print(f"{name}-{number}", flush=True)
    if kill:
        os.kill(os.getpid(), signal.SIGKILL)


async def run(agent: Agent, *arguments: Any) -> None:
    """Run the tool in a turn."""
    await agent.put(Turn("find", args=arguments))
    async for _ in agent.run():
        raise AssertionError("items are routed")


def main(place: str, name: str, count: str, kill: str = "") -> None:
    """Run an agent on the shared pool."""
    log = log_at(place)
    agent = Agent(name, "tests", [find], store=Store(log, MemoryProjectionStore()), context_id="shared")
    asyncio.run(run(agent, name, int(count), bool(kill)))
    log.close()
