"""Agents over a few functions, and running them."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from refold.domain.agent.agent import Agent, AgentRegistry
from refold.domain.agent.tool import BaseTool, ToolRegistry, tool
from refold.domain.agent.turn import Turn
from refold.domain.hooks.registry import HookRegistry

REGISTRIES = (AgentRegistry, HookRegistry, ToolRegistry)


@contextmanager
def empty_registries() -> Iterator[None]:
    """Forget all agents, hooks and tools before and after the block."""
    for registry in REGISTRIES:
        registry.clear()
    try:
        yield
    finally:
        for registry in REGISTRIES:
            registry.clear()


def agent_with(*functions: Callable[..., Any] | BaseTool, name: str = "ann", **given: Any) -> Agent:
    """Return an agent whose tools are these functions, or tools."""
    tools = [one if isinstance(one, BaseTool) else tool(one) for one in functions]
    return Agent(name, "tests", tools, **given)


def turn_of(one: str | Turn[Any]) -> Turn[Any]:
    """Return a turn, or one for the tool of this name."""
    return Turn(one) if isinstance(one, str) else one


async def ran(agent: Agent, *turns: str | Turn[Any]) -> list[Any]:
    """Put turns to an agent, run it, and return what it yields."""
    for turn in turns:
        await agent.put(turn_of(turn))
    return [value async for _, value in agent.run()]


def run(agent: Agent, *turns: str | Turn[Any]) -> list[Any]:
    """Do so in an event loop of its own."""
    return asyncio.run(ran(agent, *turns))
