"""
Agents: the turns that wait, the queue and pool that their results go into, and the loop that runs them.

An agent is the way into queues and pools, and no framework: it runs one turn after the other, routes what their
tools give, and hands tools a view of what it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import EllipsisType
from typing import Any, Self

from ..errors import InvalidInputError
from ..hooks import AgentHook, Hook, TurnHook, rebuild_hooks_from_serialization, serialize_hooks_by_type
from ..pool import ContextPool, ContextQueue
from .registries import AgentRegistry, ToolRegistry
from .running import RunningAgent
from .storing import QUEUE_LIMIT, ContextStore, context_id_of, kept_as, require_new, restored_contexts
from .tool import BaseTool
from .turn import Turn


class Agent(RunningAgent):
    """
    Runs turns one after the other.

    What their tools give is routed: an item without an id is appended to `context_queue`, one with an id is added to
    `context_pool`, a turn is put behind the others. Of a list of these each is routed, its items for the queue all or
    none. All else `run()` yields.

    With `store` the queue and the pool are kept, under `context_id` or else `agent-` and the name, and an agent of
    the same name goes on with them; given ones are used as they are.

    Raises:
        InvalidInputError: the name is taken, or a tool is not the one that is registered (a ValueError).
        UnregisteredToolError: a tool is not registered (a KeyError).
    """

    def __init__(
        self,
        name: str,
        description: str,
        tools: Sequence[BaseTool],
        context_pool: ContextPool[Any] | None = None,
        context_queue: ContextQueue[Any] | None = None,
        tags: Iterable[str] | None = None,
        *,
        store: ContextStore | None = None,
        context_id: str | None = None,
    ) -> None:
        _require_registered(tools)
        AgentRegistry.require_free(name)
        if store is not None:
            kept_id = context_id_of(name) if context_id is None else context_id
            context_pool = store.pool(kept_id) if context_pool is None else context_pool
            context_queue = store.queue(kept_id) if context_queue is None else context_queue
        context_pool = ContextPool() if context_pool is None else context_pool
        context_queue = ContextQueue(QUEUE_LIMIT) if context_queue is None else context_queue
        super().__init__(name, description, tools, context_pool, context_queue, tags)
        self._store = store
        AgentRegistry.register(self)

    def branch(
        self,
        name: str,
        description: str | None = None,
        tools: Sequence[BaseTool] | None = None,
        hooks: list[Hook] | EllipsisType | None = ...,
        *,
        context_id: str | None = None,
    ) -> Agent:
        """
        Return an agent that begins as this one is, and goes its own way.

        It has branches of the queue and pool, and copies of the turns that wait, but not the one that runs. In a
        store the branches are kept as those of a new agent are, so `Agent(name, ..., store=store)` goes on with them.

        Raises:
            InvalidInputError: the name or the id is taken, or a tool is not the one that is registered (a ValueError).
        """
        given = self.tools if tools is None else list(tools)
        _require_registered(given)
        AgentRegistry.require_free(name)
        if context_id is None and self._store is not None:
            context_id = context_id_of(name)
        if context_id is not None:
            require_new(context_id, self.context_pool, self.context_queue)
        child = Agent(
            name,
            self.description if description is None else description,
            given,
            self.context_pool.branch(context_id=context_id),
            self.context_queue.branch(context_id=context_id),
            self.tags,
            store=self._store,
        )
        child.hooks = list(self.hooks if isinstance(hooks, EllipsisType) else hooks or ())
        child.turn_hooks = list(self.turn_hooks)
        for turn in self.turns:
            child._queue.put_nowait(turn.copy())
        return child

    def to_dict(self) -> dict[str, Any]:
        """
        Return the agent as a dict: names of its tools and hooks, its turns, its queue and pool.

        Where these are kept in a store, `kept_as` has their ids.

        Raises:
            UnserializableHookError: a hook could not be found again by its name.
        """
        kept = kept_as(self.context_pool, self.context_queue)
        return {
            "name": self.name,
            "description": self.description,
            "tool_names": [tool.__name__ for tool in self.tools],
            "queue": [turn.to_dict() for turn in self.turns],
            "current_turn": self._current_turn.to_dict() if self._current_turn else None,
            "hooks": serialize_hooks_by_type(self.hooks),
            "turn_hooks": serialize_hooks_by_type(self.turn_hooks),
            "context_pool": self.context_pool.to_dict(),
            "is_paused": self.is_paused,
            "context_queue": self.context_queue.to_dict(),
            "tags": sorted(self.tags),
            **({"kept_as": kept} if kept else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], *, store: ContextStore | None = None) -> Self:
        """
        Return the agent of `to_dict()`, registered.

        Without a store its queue and pool are detached, and hold what the dict does. With one it goes on with those
        that the dict names, as they are by now; what was detached is kept from now on, as that of a new agent is.

        Raises:
            InvalidInputError: the name is taken (a ValueError), or what was detached would be kept where the store
                has another.
            NotFoundError: the store does not have what the dict names (a KeyError).
            UnregisteredToolError, UnregisteredHookError: what it had is not registered (KeyErrors).
        """
        AgentRegistry.require_free(data["name"])
        tools = [ToolRegistry.get(name) for name in data["tool_names"]]
        turns: list[Turn[Any]] = [Turn.from_dict(turn) for turn in data.get("queue", ())]
        current = data.get("current_turn")
        hooks = rebuild_hooks_from_serialization(data.get("hooks", {}), AgentHook)
        turn_hooks = rebuild_hooks_from_serialization(data.get("turn_hooks", {}), TurnHook)
        now: Turn[Any] | None = None if current is None else Turn.from_dict(current)
        contexts = restored_contexts(data, store)
        agent = cls(data["name"], data["description"], tools, *contexts, data.get("tags"), store=store)
        agent.hooks, agent.turn_hooks, agent._current_turn = hooks, turn_hooks, now
        for turn in turns:
            agent._queue.put_nowait(turn)
        if data.get("is_paused"):
            agent.pause()
        return agent


def _require_registered(tools: Iterable[BaseTool]) -> None:
    for tool in tools:
        if ToolRegistry.get(tool.__name__) is not tool:
            raise InvalidInputError(
                f"another tool is registered as {tool.__name__!r}, not the instance given: unregister that one first"
            )
