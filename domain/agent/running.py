"""Running turns one after the other, and routing what their tools give."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing, suppress
from queue import Queue
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..errors import InvalidInputError, RefusedError
from ..hooks import AgentHook, Hook, HookDecorator, HookRegistry, TurnHook
from ..hooks.injecting import handing_out
from ..log.acting import acting, current_meta
from ..pool import ContextItem, ContextPool, ContextQueue
from .errors import UnroutableItemError
from .guarding import Guarded, safe_execution
from .registries import AgentRegistry
from .tool import AsyncGenTool, BaseTool
from .turn import Turn

if TYPE_CHECKING:
    import asyncio


class Gate:
    """
    Holds up one task while it is closed.

    An `asyncio.Event` would belong to the first loop that waited for it, and could be set in its thread only.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def close(self) -> None:
        """Hold up who comes by; closing a closed gate is fine."""
        self.is_closed = True

    def open(self) -> None:
        """Let through who waits; opening an open gate is fine."""
        self.is_closed = False
        # Read once: whoever waits may go on in another thread at this moment.
        waiting = self._waiting
        if waiting is not None:
            loop, opened = waiting
            # Nobody waits any more in a loop that was closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(opened.set)

    async def passed(self) -> None:
        """Wait until the gate is open."""
        import asyncio

        try:
            while self.is_closed:
                opened = asyncio.Event()
                self._waiting = asyncio.get_running_loop(), opened
                # It may have been opened between the question and the event.
                if self.is_closed:
                    await opened.wait()
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
            UnroutableItemError: one has an id and no description, or holds what cannot be stored.
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
    Return what a value is routed as, or None where it is a plain value.

    A list or tuple is routed when it holds nothing but items and turns.
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


END = object()


class RunningAgent(Guarded):
    """The half of an agent that runs turns."""

    _kind: ClassVar[str] = "agent"

    before_turn = HookDecorator(AgentHook.BEFORE_TURN, "Before the next turn is taken: (agent).")
    after_turn = HookDecorator(AgentHook.AFTER_TURN, "After a turn, its values routed: (agent, turn).")
    on_turn_value = HookDecorator(AgentHook.ON_TURN_VALUE, "For each value, once routed: (agent, turn, value).")
    before_put = HookDecorator(AgentHook.BEFORE_PUT, "Before a turn is put in line: (agent, turn).")
    after_put = HookDecorator(AgentHook.AFTER_PUT, "After it was put in line: (agent, turn).")
    on_pause = HookDecorator(AgentHook.ON_PAUSE, "When the run stops at a pause: (agent).")
    on_resume = HookDecorator(AgentHook.ON_RESUME, "When it goes on: (agent).")
    on_error = HookDecorator(TurnHook.ON_ERROR, "For every turn: (turn, exception).", into="turn_hooks")
    on_timeout = HookDecorator(TurnHook.ON_TIMEOUT, "For every turn: (turn).", into="turn_hooks")
    on_complete = HookDecorator(TurnHook.ON_COMPLETE, "For every turn: (turn, stop_reason).", into="turn_hooks")

    def __init__(
        self,
        name: str,
        description: str,
        tools: Sequence[BaseTool],
        context_pool: ContextPool[Any],
        context_queue: ContextQueue[Any],
        tags: Iterable[str] | None,
    ) -> None:
        self._gate = Gate()
        self._queue: Queue[Turn[Any]] = Queue()
        self._current_turn: Turn[Any] | None = None
        self._tool_names = {tool.__name__ for tool in tools}
        self.name, self.description, self.tools = name, description, list(tools)
        self.context_pool, self.context_queue = context_pool, context_queue
        self.tags = frozenset(tags or ())
        self.hooks: list[Hook] = []
        self.turn_hooks: list[Hook] = []

    def __repr__(self) -> str:
        """Show the name and the names of the tools."""
        return f"Agent(name={self.name!r}, tools={[tool.metadata.name for tool in self.tools]})"

    def __iter__(self) -> Iterator[Turn[Any]]:
        """Iterate over the turns that wait."""
        return iter(self.turns)

    @property
    def turns(self) -> list[Turn[Any]]:
        """The turns that wait, in order."""
        return list(self._queue.queue)

    # Pausing

    @property
    def is_paused(self) -> bool:
        """Whether the agent starts no turn until it is resumed."""
        return self._gate.is_closed

    def pause(self) -> None:
        """Start no turn after the one that runs; nothing of the agent can be set meanwhile."""
        self._gate.close()

    def resume(self) -> None:
        """Go on with the turns that wait."""
        self._gate.open()

    def _why_guarded(self) -> str | None:
        # A subclass may set things before there is a gate.
        is_paused = "_gate" in self.__dict__ and self.is_paused
        return super()._why_guarded() or ("paused" if is_paused else None)

    # Turns

    async def put(self, turn: Turn[Any]) -> None:
        """
        Put a turn behind those that wait.

        Raises:
            InvalidInputError: its tool is none of this agent's (a ValueError).
        """
        self._require_accepted(turn)
        await self._run_hooks(AgentHook.BEFORE_PUT, self, turn)
        self._queue.put_nowait(turn)
        await self._run_hooks(AgentHook.AFTER_PUT, self, turn)

    async def send(self, agent_name: str, turn: Turn[Any]) -> None:
        """
        Put a turn to another agent.

        Raises:
            UnregisteredAgentError: no agent has this name (a KeyError).
            InvalidInputError: the tool is none of that agent's (a ValueError).
        """
        await AgentRegistry.get(agent_name).put(turn)

    @safe_execution
    async def run(self) -> AsyncGenerator[tuple[Turn[Any], Any]]:
        """
        Run the turns until none waits, and yield each value that is not routed, with its turn.

        What a tool raises ends the run and its turn; the turns behind it wait for the next run. So it is when the
        run is left early: the turn that runs is stopped, as `StopReason.CANCELLED`, and is not put back.

        Raises:
            SafeExecutionError: the agent runs already.
            TurnTimeoutError: a turn took too long.
            UnroutableItemError: a tool gave an item that neither queue nor pool can take (a ValueError).
            InvalidInputError: a tool gave a turn for a tool that is none of this agent's.
            whatever a tool or a hook raises.
        """
        self._is_running = True
        try:
            while self._current_turn is not None or not self._queue.empty():
                await self._pass_gate()
                await self._run_hooks(AgentHook.BEFORE_TURN, self)
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
            values = _given_by(turn)
            try:
                while (value := await self._next_value(turn, values)) is not END:
                    if routing_of(value) is None:
                        yield value
            finally:
                with self._handing_out():
                    await values.aclose()

    async def _next_value(self, turn: Turn[Any], values: AsyncGenerator[Any]) -> Any:
        with self._handing_out():
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
        # Whoever runs the agent may have said who acts; else it is the agent.
        actor = current_meta(default_actor=self.name, idempotency_key=None).actor
        with acting(actor=actor):
            if routing.queued:
                await self.context_queue.append(*routing.queued)
            for item in routing.pooled:
                await self.context_pool.add(item)
            for given in routing.turns:
                await self.put(given)

    def _handing_out(self) -> AbstractContextManager[None]:
        return handing_out(self.context_queue, self.context_pool)

    def _require_accepted(self, turn: Turn[Any]) -> None:
        if turn.tool is None:
            raise InvalidInputError("Turn has no tool")
        if turn.tool.__name__ not in self._tool_names:
            raise InvalidInputError(f"Agent {self.name!r} does not accept tool {turn.tool.__name__!r}")

    async def _run_hooks(self, hook_type: AgentHook, *args: Any) -> None:
        own = HookRegistry.get_by_type(hook_type, self.hooks)
        await HookRegistry.fire(hook_type, own, *args, _source_tags=self.tags)


async def _given_by(turn: Turn[Any]) -> AsyncGenerator[Any]:
    if not isinstance(turn.tool, AsyncGenTool):
        yield await turn.returning()
        return
    async with aclosing(turn.yielding()) as values:
        async for value in values:
            yield value
