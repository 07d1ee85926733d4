"""A turn: one call of a tool, to be run later, and its output."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from numbers import Real
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from ..arguments import require_instance, require_tags
from ..hooks.hook import Hook, TurnHook, eval_args, eval_kwargs
from ..hooks.registry import HookDecorator, HookRegistry, rebuild_hooks_from_serialization, serialize_hooks_by_type
from ..pool.items import T
from .errors import SafeExecutionError, TurnTimeoutError, WrongRunMethodError
from .tool import AsyncGenTool, BaseTool, ToolRegistry, utc_now

C = TypeVar("C", bound=Callable[..., Any])


class Guarded:
    """Base of objects whose public attributes cannot be set while they run."""

    _kind: ClassVar[str]
    _settable_while_running: ClassVar[frozenset[str]] = frozenset()
    # Attributes that are checked when they are set, not when they are used: the class, and what to give.
    _classes: ClassVar[Mapping[str, tuple[Any, str]]] = {"hooks": (list | tuple, "give a list of hooks")}
    _is_running = False

    def _why_guarded(self) -> str | None:
        """Return why attributes cannot be set now, or None."""
        return "running" if self._is_running else None

    def __setattr__(self, name: str, value: Any) -> None:
        """
        Set an attribute.

        Raises:
            SafeExecutionError: the attribute is public and the object is running.
            InvalidInputError: the value is of another class than the attribute.
        """
        is_free = name.startswith("_") or name in self._settable_while_running
        why = None if is_free else self._why_guarded()
        if why is not None:
            raise SafeExecutionError(f"Cannot change property '{name}' while the {self._kind} is {why}.")
        if name in self._classes:
            kind, remedy = self._classes[name]
            require_instance(value, kind, f"{name} of the {self._kind}", remedy)
        super().__setattr__(name, value)


def safe_execution(method: C) -> C:
    """
    Refuse calls of an async method, or async generator, while its object is running.

    Raises:
        SafeExecutionError: raised by the call or, for a generator, by the first request for a value.
    """

    def refuse_if_running(owner: Any) -> None:
        if getattr(owner, "_is_running", False):
            raise SafeExecutionError(f"{method.__name__}() cannot be called: {owner!r} is running.")

    @functools.wraps(method)
    async def generate(self: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_if_running(self)
        # Closed here, so that the cleanup is complete before the caller continues after leaving early.
        async with aclosing(method(self, *args, **kwargs)) as values:
            async for value in values:
                yield value

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        refuse_if_running(self)
        return method(self, *args, **kwargs)

    return cast("C", generate if inspect.isasyncgenfunction(method) else call)


class ExpiredError(Exception):
    """The time limit was reached."""


async def within(seconds: float, awaitable: Awaitable[T]) -> T:
    """
    Return the result of `awaitable`.

    Raises:
        ExpiredError: it took longer. A TimeoutError that it raises itself is passed on unchanged.
    """
    import asyncio

    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await awaitable
    except TimeoutError:
        if limit.expired():
            raise ExpiredError from None
        raise


async def produced(start: Callable[[], AsyncGenerator[T]], seconds: float) -> AsyncGenerator[T]:
    """
    Yield the values of `start()`, which may take `seconds` in total, without the time of the consumer between values.

    Raises:
        ExpiredError: it took longer.
    """
    import asyncio

    values: asyncio.Queue[Any] = asyncio.Queue()
    end = object()

    async def produce() -> None:
        try:
            async with aclosing(start()) as started:
                async for value in started:
                    values.put_nowait(value)
                    # The tool continues only when the consumer asks for the next value.
                    await values.join()
        finally:
            values.put_nowait(end)

    now = asyncio.get_running_loop().time
    producer = asyncio.create_task(produce())
    try:
        while True:
            asked = now()
            value = await within(seconds, values.get())
            seconds -= now() - asked
            if value is end:
                break
            yield value
            values.task_done()
        await producer
    finally:
        producer.cancel()
        await asyncio.wait([producer])
        # The producer may have raised an error when it was stopped. The error is read only to avoid asyncio's warning.
        if not producer.cancelled():
            producer.exception()


class StopReason(str, Enum):  # noqa: UP042 - the seed's base classes
    """The reason why a turn ended."""

    COMPLETED = "completed"
    TIMEOUT = "timeout"
    ERROR = "error"
    CANCELLED = "cancelled"


@dataclass
class TurnMetadata:
    """When a turn ran, and why it stopped."""

    start_time: datetime | None = None
    end_time: datetime | None = None
    stop_reason: StopReason | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as text."""
        return {
            "start_time": self.start_time.isoformat() if self.start_time else None,
            "end_time": self.end_time.isoformat() if self.end_time else None,
            "stop_reason": self.stop_reason.value if self.stop_reason else None,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, str | None]) -> TurnMetadata:
        """Return the metadata of `to_dict()`."""
        start, end, reason = (data.get(name) for name in ("start_time", "end_time", "stop_reason"))
        return cls(
            datetime.fromisoformat(start) if start else None,
            datetime.fromisoformat(end) if end else None,
            StopReason(reason) if reason else None,
        )


class Turn(Guarded, Generic[T]):
    """
    A call to be run: a tool, by its name or itself, and its arguments.

    Functions among the arguments are called when the turn runs. `timeout` limits the tool's time in seconds; the time
    of the consumer of a tool that yields does not count.

    Raises:
        UnregisteredToolError: no tool has this name (a KeyError).
    """

    _kind: ClassVar[str] = "turn"
    _settable_while_running: ClassVar[frozenset[str]] = frozenset({"metadata", "output"})
    _classes: ClassVar[Mapping[str, tuple[Any, str]]] = {
        **Guarded._classes,
        "args": (list | tuple, "give a list"),
        "kwargs": (Mapping, "give a dict"),
        "timeout": (Real | None, "give a number of seconds, or None"),
    }

    before_run = HookDecorator(TurnHook.BEFORE_RUN, "Before the tool runs: (turn).")
    after_run = HookDecorator(TurnHook.AFTER_RUN, "After it ran: (turn, output).")
    on_timeout = HookDecorator(TurnHook.ON_TIMEOUT, "When it took too long: (turn).")
    on_error = HookDecorator(TurnHook.ON_ERROR, "When it raised: (turn, exception).")
    on_complete = HookDecorator(TurnHook.ON_COMPLETE, "When the turn has ended, however: (turn, stop_reason).")

    def __init__(
        self,
        tool: str | BaseTool | Callable[..., Any],
        timeout: float = 60,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        tags: Iterable[str] | None = None,
    ) -> None:
        self.tool: BaseTool = ToolRegistry.get(tool if isinstance(tool, str) else tool.__name__)
        self.args = list(args or ())
        self.kwargs = dict(kwargs or {})
        self.timeout = timeout
        self.tags = frozenset(require_tags(tags))
        self.output: T | list[T] | None = None
        self.metadata = TurnMetadata()
        self.hooks: list[Hook] = []
        # The hooks of the agent for all its turns, while it runs this turn.
        self._lent_hooks: list[Hook] = []

    def __repr__(self) -> str:
        """Show the tool, the timeout and the metadata."""
        return f"Turn(tool={self.tool.metadata.name!r}, timeout={self.timeout}, metadata={self.metadata})"

    @contextmanager
    def lending(self, hooks: Iterable[Hook]) -> Iterator[None]:
        """
        Add these hooks behind the turn's own for the block; they are not saved with the turn.

        Hooks that are added within the block are removed at its end. Otherwise they would accumulate when the turn runs
        again.

        Raises:
            SafeExecutionError: the turn is already running, with the hooks of another run.
        """
        if self._is_running:
            raise SafeExecutionError(f"{self!r} is running: a turn runs once at a time")
        own, self._lent_hooks = list(self.hooks), list(hooks)
        try:
            yield
        finally:
            self._lent_hooks = []
            # A loop that shuts down closes generators in any order, so this may run while the turn is still running.
            if not self._is_running:
                self.hooks = own

    def copy(self) -> Self:
        """Return a separate turn for the same call, which is not running."""
        twin = copy.copy(self)
        twin.__dict__.update(_is_running=False, _lent_hooks=[])
        # `copy.copy` shares these, so they are copied one by one.
        twin.args, twin.kwargs, twin.hooks = list(self.args), dict(self.kwargs), list(self.hooks)
        twin.metadata = copy.copy(self.metadata)
        return twin

    @safe_execution
    async def returning(self) -> T | list[T] | None:
        """
        Run a tool that returns, and return its result.

        Raises:
            WrongRunMethodError: the tool yields; nothing was run.
            TurnTimeoutError: it took too long.
            SafeExecutionError: the turn is already running.
        """
        if isinstance(self.tool, AsyncGenTool):
            raise WrongRunMethodError(f"tool {self.tool.__name__!r} is an async generator: use yielding()")
        call: Any = self.tool
        async with self._running():
            self.output = await within(self.timeout, call(*eval_args(self.args), **eval_kwargs(self.kwargs)))
        return self.output

    @safe_execution
    async def yielding(self) -> AsyncGenerator[T]:
        """
        Run a tool that yields, and yield its values as they come; `output` has them all at the end.

        Raises:
            WrongRunMethodError: the tool returns; nothing was run.
            TurnTimeoutError: it took too long.
            SafeExecutionError: the turn is already running.
        """
        if not isinstance(self.tool, AsyncGenTool):
            raise WrongRunMethodError(f"tool {self.tool.__name__!r} is not an async generator: use returning()")
        call = self.tool
        output: list[T] = []
        async with self._running():
            args, kwargs = eval_args(self.args), eval_kwargs(self.kwargs)
            async with aclosing(produced(lambda: call(*args, **kwargs), self.timeout)) as values:
                async for value in values:
                    output.append(value)
                    yield value
            self.output = output

    @asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        self._is_running = True
        metadata = self.metadata
        metadata.start_time, metadata.end_time, metadata.stop_reason = utc_now(), None, None
        try:
            await self._run_hooks(TurnHook.BEFORE_RUN)
            yield
            metadata.stop_reason = StopReason.COMPLETED
            await self._run_hooks(TurnHook.AFTER_RUN, self.output)
        except ExpiredError:
            metadata.stop_reason = StopReason.TIMEOUT
            await self._run_hooks(TurnHook.ON_TIMEOUT)
            raise TurnTimeoutError(f"Turn timed out after {self.timeout}s") from None
        except Exception as error:
            metadata.stop_reason = StopReason.ERROR
            await self._run_hooks(TurnHook.ON_ERROR, error)
            raise
        except BaseException:
            metadata.stop_reason = StopReason.CANCELLED
            raise
        finally:
            metadata.end_time = utc_now()
            try:
                await self._run_hooks(TurnHook.ON_COMPLETE, metadata.stop_reason)
            finally:
                self._is_running = False

    async def _run_hooks(self, hook_type: TurnHook, *args: Any) -> None:
        own = HookRegistry.get_by_type(hook_type, [*self.hooks, *self._lent_hooks])
        await HookRegistry.fire(hook_type, own, self, *args, _source_tags=self.tags)

    def to_dict(self) -> dict[str, Any]:
        """
        Return the turn as a dict; functions among its arguments are called and replaced by their results.

        Raises:
            UnserializableHookError: a hook could not be found again by its name.
        """
        return {
            "tool_name": self.tool.__name__,
            "args": eval_args(self.args),
            "kwargs": eval_kwargs(self.kwargs),
            "timeout": self.timeout,
            "metadata": self.metadata.to_dict(),
            "output": self.output,
            "hooks": serialize_hooks_by_type(self.hooks),
            "tags": sorted(self.tags),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """
        Return the turn of `to_dict()`.

        Raises:
            UnregisteredToolError: its tool is not registered.
            UnregisteredHookError: one of its hooks is not registered.
        """
        turn = cls(data["tool_name"], data.get("timeout", 60), data.get("args"), data.get("kwargs"), data.get("tags"))
        turn.metadata = TurnMetadata.from_dict(data.get("metadata", {}))
        turn.output = data.get("output")
        turn.hooks = rebuild_hooks_from_serialization(data.get("hooks", {}), TurnHook)
        return turn
