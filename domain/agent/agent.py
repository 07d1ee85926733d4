"""
Agents: the waiting turns, the queue and pool for their results, and the loop that runs them.

An agent is an interface to queues and pools, not a framework: it runs one turn after the other, routes the values of
their tools, and gives tools a view of its queue and pool.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from queue import Queue
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from ..arguments import require_instance, require_several, require_tags
from ..concurrency.threads import wake
from ..errors import InvalidInputError, NotFoundError, RefusedError
from ..hooks.hook import AgentHook, Hook, TurnHook, injecting
from ..hooks.registry import (
    HookDecorator,
    HookRegistry,
    Registry,
    rebuild_hooks_from_serialization,
    serialize_hooks_by_type,
)
from ..ids import stream_id
from ..log.envelope import acting, current_meta
from ..pool.container import QUEUE_LIMIT
from ..pool.items import ContextItem
from ..pool.pool import ContextPool
from ..pool.queue import ContextQueue
from .context_store import ContextStore, context_id_of, kept_as, restored_contexts
from .errors import UnregisteredAgentError, UnroutableItemError
from .tool import AsyncGenTool, BaseTool, ToolRegistry
from .turn import Guarded, Turn, safe_execution

if TYPE_CHECKING:
    import asyncio

# Marks the end of a turn's values.
END = object()


class AgentRegistry(Registry["Agent"]):
    """All agents by name; creating an agent registers it."""

    _registry: ClassVar[dict[str, Any]] = {}
    _name_attribute: ClassVar[str] = "name"
    _not_found: ClassVar[type[NotFoundError]] = UnregisteredAgentError


class PauseGate:
    """
    Blocks one task while it is closed.

    An `asyncio.Event` would belong to the first loop that waited for it, and could be set only in that loop's thread.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._waiting: asyncio.Future[None] | None = None

    def close(self) -> None:
        """Block callers of `passed`; closing a closed gate has no effect."""
        self.is_closed = True

    def open(self) -> None:
        """Release the waiting task; opening an open gate has no effect."""
        self.is_closed = False
        # Read once, because the waiting task may set it to None in another thread at this moment.
        waiting = self._waiting
        if waiting is not None:
            wake(waiting)

    async def passed(self) -> None:
        """Wait until the gate is open."""
        import asyncio

        try:
            while self.is_closed:
                self._waiting = opened = asyncio.get_running_loop().create_future()
                # The gate may have been opened since the condition of the loop was checked.
                if self.is_closed:
                    await opened
        finally:
            self._waiting = None


class Routing(NamedTuple):
    """The destinations of a tool's result: each list in the order in which the tool gave it."""

    queued: list[ContextItem[Any]]
    pooled: list[ContextItem[Any]]
    turns: list[Turn[Any]]

    def require_items(self, agent: str, tool: str, queue: ContextQueue[Any], pool: ContextPool[Any]) -> None:
        """
        Refuse items that the queue or the pool would refuse, before any of them is routed.

        Raises:
            UnroutableItemError: an item has an id and no description, or content that cannot be stored.
        """
        for item in self.pooled:
            if item.description is None:
                why = (
                    f"has the id {item.id!r} and no description: give it a description, by which it is chosen from "
                    "the pool, or no id, so that it goes into the queue"
                )
                raise UnroutableItemError(agent, tool, item, why)
        for container, items in ((queue, self.queued), (pool, self.pooled)):
            for item in items:
                try:
                    container.added_event(item)
                except RefusedError as error:
                    raise UnroutableItemError(agent, tool, item, f"cannot be kept: {error}") from error


def routing_of(value: object) -> Routing | None:
    """
    Return the routing of a value, or None for a plain value.

    A list or tuple is routed if it holds only items and turns.
    """
    parts = value if isinstance(value, list | tuple) else (value,)
    if not parts or not all(isinstance(part, ContextItem | Turn) for part in parts):
        return None
    items = [part for part in parts if isinstance(part, ContextItem)]
    return Routing(
        queued=[item for item in items if item.id is None],
        pooled=[item for item in items if item.id is not None],
        turns=[part for part in parts if isinstance(part, Turn)],
    )


class Agent(Guarded):
    """
    Runs turns one after the other.

    The values of tools are routed: an item without an id is appended to `context_queue`, an item with an id is added to
    `context_pool`, and a turn is put behind the waiting turns. A list of items and turns is routed part by part; its
    items for the queue are appended all or none. `run()` yields all other values.

    With `store`, the queue and the pool are stored under `context_id`, or else under `agent-` and the name, and an
    agent of the same name continues with them. A queue or pool that is given is used as it is.

    Raises:
        InvalidInputError: the name is in use, or a tool is not the one that is registered (a ValueError).
        UnregisteredToolError: a tool is not registered (a KeyError).
    """

    _kind: ClassVar[str] = "agent"
    _classes: ClassVar[Mapping[str, tuple[Any, str]]] = {**Guarded._classes, "turn_hooks": Guarded._classes["hooks"]}

    before_turn = HookDecorator(AgentHook.BEFORE_TURN, "Before the next turn is taken: (agent).")
    after_turn = HookDecorator(AgentHook.AFTER_TURN, "After a turn, its values routed: (agent, turn).")
    on_turn_value = HookDecorator(AgentHook.ON_TURN_VALUE, "For each value, once routed: (agent, turn, value).")
    before_put = HookDecorator(AgentHook.BEFORE_PUT, "Before a turn is put in line: (agent, turn).")
    after_put = HookDecorator(AgentHook.AFTER_PUT, "After it was put in line: (agent, turn).")
    on_pause = HookDecorator(AgentHook.ON_PAUSE, "When the run stops at a pause: (agent).")
    on_resume = HookDecorator(AgentHook.ON_RESUME, "When it continues: (agent).")
    on_error = HookDecorator(TurnHook.ON_ERROR, "For every turn: (turn, exception).", into="turn_hooks")
    on_timeout = HookDecorator(TurnHook.ON_TIMEOUT, "For every turn: (turn).", into="turn_hooks")
    on_complete = HookDecorator(TurnHook.ON_COMPLETE, "For every turn: (turn, stop_reason).", into="turn_hooks")

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
        known_tags = frozenset(require_tags(tags))
        AgentRegistry.require_free(name)
        if store is not None:
            kept_id = context_id_of(name) if context_id is None else context_id
            context_pool = store.pool(kept_id) if context_pool is None else context_pool
            context_queue = store.queue(kept_id) if context_queue is None else context_queue
        context_pool = ContextPool() if context_pool is None else context_pool
        context_queue = ContextQueue(QUEUE_LIMIT) if context_queue is None else context_queue
        self._gate = PauseGate()
        self._queue: Queue[Turn[Any]] = Queue()
        self._current_turn: Turn[Any] | None = None
        self._tool_names = {tool.__name__ for tool in tools}
        self.name, self.description, self.tools = name, description, list(tools)
        self.context_pool, self.context_queue = context_pool, context_queue
        self.tags = known_tags
        self.hooks: list[Hook] = []
        self.turn_hooks: list[Hook] = []
        self._store = store
        AgentRegistry.register(self)

    def __repr__(self) -> str:
        """Show the name and the names of the tools."""
        return f"Agent(name={self.name!r}, tools={[tool.metadata.name for tool in self.tools]})"

    def __iter__(self) -> Iterator[Turn[Any]]:
        """Iterate over the waiting turns."""
        return iter(self.turns)

    @property
    def turns(self) -> list[Turn[Any]]:
        """The waiting turns, in order."""
        return list(self._queue.queue)

    # Pausing

    @property
    def is_paused(self) -> bool:
        """Whether the agent starts no turn until it is resumed."""
        return self._gate.is_closed

    def pause(self) -> None:
        """Start no turn after the running one; meanwhile no attribute of the agent can be set."""
        self._gate.close()

    def resume(self) -> None:
        """Continue with the waiting turns."""
        self._gate.open()

    def _why_guarded(self) -> str | None:
        # A subclass may set attributes before the gate is created.
        is_paused = "_gate" in self.__dict__ and self.is_paused
        return super()._why_guarded() or ("paused" if is_paused else None)

    # Turns

    async def put(self, turn: Turn[Any]) -> None:
        """
        Put a turn behind the waiting ones.

        Raises:
            InvalidInputError: its tool is not one of this agent's (a ValueError).
        """
        self._require_accepted(turn)
        await self._run_hooks(AgentHook.BEFORE_PUT, self, turn)
        self._queue.put_nowait(turn)
        await self._run_hooks(AgentHook.AFTER_PUT, self, turn)

    async def send(self, agent_name: str, turn: Turn[Any]) -> None:
        """
        Put a turn into another agent's queue of turns.

        Raises:
            UnregisteredAgentError: no agent has this name (a KeyError).
            InvalidInputError: the tool is not one of that agent's (a ValueError).
        """
        await AgentRegistry.get(agent_name).put(turn)

    @safe_execution
    async def run(self) -> AsyncGenerator[tuple[Turn[Any], Any]]:
        """
        Run turns until none waits, and yield each value that is not routed, with its turn.

        An error of a tool ends its turn and the run; the turns behind it wait for the next run. Leaving the run early
        has the same effect: the running turn stops, as `StopReason.CANCELLED`, and is not put back.

        Raises:
            SafeExecutionError: the agent is already running.
            TurnTimeoutError: a turn took too long.
            UnroutableItemError: a tool returned an item that neither queue nor pool can hold (a ValueError).
            InvalidInputError: a tool returned a turn whose tool is not one of this agent's.
            Exception: any error of a tool or a hook.
        """
        self._is_running = True
        try:
            while self._current_turn is not None or not self._queue.empty():
                await self._pass_gate()
                await self._run_hooks(AgentHook.BEFORE_TURN, self)
                # An agent of `from_dict` begins with the turn that was running when it was saved.
                turn = self._queue.get_nowait() if self._current_turn is None else self._current_turn
                self._current_turn = turn
                async with aclosing(self._values_of(turn)) as values:
                    async for value in values:
                        yield turn, value
                self._current_turn = None
                await self._run_hooks(AgentHook.AFTER_TURN, self, turn)
        finally:
            self._is_running, self._current_turn = False, None

    async def _pass_gate(self) -> None:
        if self.is_paused:
            await self._run_hooks(AgentHook.ON_PAUSE, self)
            await self._gate.passed()
            await self._run_hooks(AgentHook.ON_RESUME, self)

    async def _values_of(self, turn: Turn[Any]) -> AsyncGenerator[Any]:
        with turn.lending(self.turn_hooks):
            values = _tool_values(turn)
            try:
                while (value := await self._next_value(turn, values)) is not END:
                    if routing_of(value) is None:
                        yield value
            finally:
                with self._injecting():
                    await values.aclose()

    async def _next_value(self, turn: Turn[Any], values: AsyncGenerator[Any]) -> Any:
        with self._injecting():
            value = await anext(values, END)
            if value is not END:
                routing = routing_of(value)
                if routing is not None:
                    await self._route(turn, routing)
                await self._run_hooks(AgentHook.ON_TURN_VALUE, self, turn, value)
            return value

    async def _route(self, turn: Turn[Any], routing: Routing) -> None:
        routing.require_items(self.name, turn.tool.__name__, self.context_queue, self.context_pool)
        for given in routing.turns:
            self._require_accepted(given)
        # The actor is the one that the caller of `run()` set, or else the agent.
        actor = current_meta(default_actor=self.name, idempotency_key=None).actor
        with acting(actor=actor):
            if routing.queued:
                await self.context_queue.append(*routing.queued)
            for item in routing.pooled:
                await self.context_pool.add(item)
            for given in routing.turns:
                await self.put(given)

    def _injecting(self) -> AbstractContextManager[None]:
        return injecting(self.context_queue, self.context_pool)

    def _require_accepted(self, turn: Turn[Any]) -> None:
        if turn.tool is None:
            raise InvalidInputError("Turn has no tool")
        if turn.tool.__name__ not in self._tool_names:
            raise InvalidInputError(f"Agent {self.name!r} does not accept tool {turn.tool.__name__!r}")

    async def _run_hooks(self, hook_type: AgentHook, *args: Any) -> None:
        own = HookRegistry.get_by_type(hook_type, self.hooks)
        await HookRegistry.fire(hook_type, own, *args, _source_tags=self.tags)

    # Copies

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
        Return a new agent that begins with the state of this one; later changes of either do not affect the other.

        It has branches of the queue and pool, and copies of the waiting turns, but not the running turn. In a store the
        branches are stored like those of a new agent, so `Agent(name, ..., store=store)` continues with them.

        Raises:
            InvalidInputError: the name or the id is in use, or a tool is not the one that is registered (a ValueError).
        """
        given = self.tools if tools is None else list(tools)
        _require_registered(given)
        AgentRegistry.require_free(name)
        if context_id is None and self._store is not None:
            context_id = context_id_of(name)
        if context_id is not None:
            # Both ids are checked before one of the contexts is branched.
            for context in (self.context_pool, self.context_queue):
                if context.log.head(stream := stream_id(context.kind.name, context_id)):
                    raise InvalidInputError(f"{stream} exists already: branch under another id, or open it")
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

        If the queue or the pool is in a store, `kept_as` has its id. A turn that is running has no `output`: it will be
        run again.

        Raises:
            UnserializableHookError: a hook could not be found again by its name.
        """
        kept = kept_as(self.context_pool, self.context_queue)
        return {
            "name": self.name,
            "description": self.description,
            "tool_names": [tool.__name__ for tool in self.tools],
            "queue": [turn.to_dict() for turn in self.turns],
            "current_turn": self._current_turn.to_dict() | {"output": None} if self._current_turn else None,
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

        Without a store, its queue and pool are detached, with the content of the dict. With a store, it continues with
        the stored queue and pool that the dict names, in their present state; a detached queue or pool is stored from
        now on, like that of a new agent.

        Raises:
            InvalidInputError: the name is in use (a ValueError), or the store already has a queue or a pool under the
                id that a detached one would get.
            NotFoundError: the store does not have a context that the dict names (a KeyError).
            UnregisteredToolError, UnregisteredHookError: a tool or a hook is not registered (KeyErrors).
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


async def _tool_values(turn: Turn[Any]) -> AsyncGenerator[Any]:
    if not isinstance(turn.tool, AsyncGenTool):
        yield await turn.returning()
        return
    async with aclosing(turn.yielding()) as values:
        async for value in values:
            yield value


def _require_registered(tools: Iterable[BaseTool]) -> None:
    for tool in require_several(tools, "the tools"):
        require_instance(tool, BaseTool, "a tool of the agent", "make one of an async function with `tool`")
        if ToolRegistry.get(tool.__name__) is not tool:
            raise InvalidInputError(
                f"another tool is registered as {tool.__name__!r}, not the instance given: unregister that one first"
            )
