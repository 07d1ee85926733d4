"""
Tools: async functions with a name, which agents run in turns.

A call merges the fixed arguments with the given ones, passes the agent's queue and pool where annotations ask for them,
leaves out arguments that the function does not accept, and calls the tool's hooks.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, get_args, get_origin, overload

from pydantic import Field, create_model
from pydantic.errors import PydanticUserError

from ..arguments import require_tags
from ..clock import REAL_SYSTEM
from ..errors import InvalidInputError, NotFoundError
from ..hooks.hook import Hook, Injection, NotAsyncError, ToolHook, merge_kwargs, new_lock
from ..hooks.registry import HookDecorator, HookRegistry, Registry
from ..pool.container import Container
from .errors import UnregisteredToolError

R = TypeVar("R")
Y = TypeVar("Y")
ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class ToolRegistry(Registry["BaseTool"]):
    """All tools by name; `tool` registers the tools that it creates."""

    _registry: ClassVar[dict[str, Any]] = {}
    _not_found: ClassVar[type[NotFoundError]] = UnregisteredToolError

    @classmethod
    def all(cls) -> list[BaseTool]:
        """Return all tools, in the order of their registration."""
        return list(cls._registry.values())

    @classmethod
    def definitions(cls) -> list[dict[str, Any]]:
        """Return the `doc_tree` of each tool that is not another tool's subtool."""
        return [made.doc_tree() for made in cls.all() if not made.is_subtool]


def utc_now() -> datetime:
    """Return the current time, in UTC."""
    return datetime.fromtimestamp(REAL_SYSTEM.now(), UTC)


@dataclass
class ToolMetadata:
    """A tool's name and description, and the times of its last run."""

    name: str
    description: str | None
    start_time: datetime | None = None
    end_time: datetime | None = None

    def dict(self) -> dict[str, Any]:
        """Return the fields as a dict, times as ISO text."""
        started, ended = self.start_time, self.end_time
        return {
            "name": self.name,
            "description": self.description,
            "start_time": started.isoformat() if started else None,
            "end_time": ended.isoformat() if ended else None,
        }


class ToolInfo(NamedTuple):
    """A tool as a model sees it."""

    name: str
    description: str | None
    parameters_schema: dict[str, Any]


class _Call(NamedTuple):
    """The arguments of a tool's function, and the keyword arguments for its hooks."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    for_hooks: dict[str, Any]


class BaseTool:
    """
    The base of tools; `tool` creates them.

    `hooks` are pairs of a type and a hook. `subtool` adds a tool below this one, with the name `PARENT.NAME`.
    """

    __name__: str
    hooks: list[tuple[ToolHook, Hook]]

    before_invoke = HookDecorator(ToolHook.BEFORE_INVOKE, "Before the tool runs: its own arguments.", paired=True)
    after_invoke = HookDecorator(
        ToolHook.AFTER_INVOKE, "After it ran: (result), or the list of what it yielded.", paired=True
    )
    on_error = HookDecorator(ToolHook.ON_ERROR, "When it raised: (exc).", paired=True)

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        lock: bool = False,
        fixed_kwargs: Mapping[str, Any] | None = None,
        tags: Iterable[str] | None = None,
        parent: BaseTool | None = None,
    ) -> None:
        functools.update_wrapper(self, fn)  # type: ignore[arg-type]  # the subclasses can be called
        self.fn = fn
        self.is_subtool = parent is not None
        self._subtools: list[BaseTool] = []
        if parent is not None:
            self.__name__ = f"{parent.__name__}.{fn.__name__}"
        self.metadata = ToolMetadata(fn.__name__, fn.__doc__)
        self.lock = new_lock() if lock else None
        self.hooks = []
        self.tags = frozenset(require_tags(tags))
        self._fixed_kwargs = dict(fixed_kwargs or {})
        self._injection = Injection(fn, f"tool {fn.__name__!r}", is_tool=True)

    def __repr__(self) -> str:
        """Show the class and the name."""
        return f"{type(self).__name__}({self.__name__!r})"

    def subtool(self, *, lock: bool = False, tags: Iterable[str] | None = None, **fixed_kwargs: Any) -> ToolDecorator:
        """
        Return a decorator that makes a tool below this one; its arguments are those of `tool`.

        The tool is registered as `PARENT.NAME`, and its metadata have its short name.
        """
        made: ToolDecorator = _decorator(lock=lock, tags=tags, fixed_kwargs=fixed_kwargs, parent=self)
        return made

    def doc_tree(self) -> dict[str, Any]:
        """Return name, description and subtools, each of them in the same form: what a model needs to choose."""
        subtools = [below.doc_tree() for below in self._subtools]
        return {"name": self.metadata.name, "description": self.metadata.description, "subtools": subtools}

    def schema(self) -> dict[str, Any]:
        """
        Return name, description and parameters (a JSON schema) for a model, as an element of `tools`.

        Fixed arguments, and queues and pools that the tool gets from its agent, are no parameters of it.

        Raises:
            InvalidInputError: an annotation cannot be resolved, or has no JSON schema.
        """
        return {"name": self.__name__, "description": self.__doc__ or "", "parameters": self._parameters()}

    def _parameters(self) -> dict[str, Any]:
        try:
            hints = typing.get_type_hints(self.fn, include_extras=True)
            # A field of a model cannot have every name that a parameter can, so the parameter's name is an alias.
            fields: dict[str, Any] = {
                f"field_{name}": (
                    Annotated[hints.get(name, Any), Field(alias=name)],
                    ... if one.default is one.empty else one.default,
                )
                for name, one in inspect.signature(self.fn).parameters.items()
                if one.kind not in ANY_NUMBER and name not in self._fixed_kwargs and not _is_injected(hints.get(name))
            }
            found: dict[str, Any] = create_model(self.__name__, **fields).model_json_schema()
            return found
        except (PydanticUserError, NameError, TypeError, AttributeError, KeyError) as error:
            raise InvalidInputError(
                f"the parameters of tool {self.__name__!r} have no JSON schema: annotate them with "
                f"plain types ({error})"
            ) from error

    @property
    def _tool_info(self) -> ToolInfo:
        # Adapters of models read this attribute, and so do contexts that are filtered by tools.
        return ToolInfo(self.__name__, self.__doc__, self._parameters())

    async def _run_hooks(self, hook_type: ToolHook, *args: Any, **kwargs: Any) -> None:
        own = [hook for kind, hook in self.hooks if kind is hook_type]
        await HookRegistry.fire(hook_type, own, *args, _source_tags=self.tags, **kwargs)

    def _prepare(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Call:
        merged = merge_kwargs(self._fixed_kwargs, kwargs, f"tool {self.__name__!r}")
        taken_args, taken_kwargs = _accepted(self.fn, args, merged)
        completed = self._injection.complete(taken_args, taken_kwargs)
        return _Call(taken_args, completed, merged | completed)

    def _locked(self) -> AbstractAsyncContextManager[None]:
        return nullcontext() if self.lock is None else self.lock.hold()

    @contextmanager
    def _timed(self) -> Iterator[None]:
        started = utc_now()
        try:
            yield
        finally:
            # Set together, so that both times are of the same run.
            self.metadata.start_time, self.metadata.end_time = started, utc_now()


class Tool(BaseTool, Generic[R]):
    """A tool that returns one value."""

    fn: Callable[..., Awaitable[R]]

    async def __call__(self, *args: Any, **kwargs: Any) -> R:
        """Run the tool."""
        with self._timed():
            call = self._prepare(args, kwargs)
            await self._run_hooks(ToolHook.BEFORE_INVOKE, *args, **call.for_hooks)
            try:
                async with self._locked():
                    result = await self.fn(*call.args, **call.kwargs)
            except Exception as error:
                await self._run_hooks(ToolHook.ON_ERROR, exc=error)
                raise
        await self._run_hooks(ToolHook.AFTER_INVOKE, result=result)
        return result


class AsyncGenTool(BaseTool, Generic[Y]):
    """A tool that yields values."""

    fn: Callable[..., AsyncGenerator[Y]]

    on_yield = HookDecorator(ToolHook.ON_YIELD, "For each value: (value).", paired=True)

    async def __call__(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Y]:
        """Run the tool; if it is closed early, the hooks after it also get the values yielded so far."""
        yielded: list[Y] = []
        try:
            with self._timed():
                call = self._prepare(args, kwargs)
                await self._run_hooks(ToolHook.BEFORE_INVOKE, *args, **call.for_hooks)
                try:
                    async with self._locked(), aclosing(self.fn(*call.args, **call.kwargs)) as values:
                        async for value in values:
                            await self._run_hooks(ToolHook.ON_YIELD, value)
                            yielded.append(value)
                            yield value
                except Exception as error:
                    await self._run_hooks(ToolHook.ON_ERROR, exc=error)
                    raise
        except Exception:
            raise
        except BaseException:
            # The tool was closed or cancelled, which is not a failure of the tool.
            await self._run_hooks(ToolHook.AFTER_INVOKE, yielded)
            raise
        await self._run_hooks(ToolHook.AFTER_INVOKE, yielded)


class ToolDecorator(Protocol):
    """The decorator that `tool(...)` returns: it turns a function into a tool."""

    @overload
    def __call__(self, fn: Callable[..., AsyncIterator[Y]]) -> AsyncGenTool[Y]: ...

    @overload
    def __call__(self, fn: Callable[..., Awaitable[R]]) -> Tool[R]: ...


@overload
def tool(
    func: None = None, *, lock: bool = False, tags: Iterable[str] | None = None, **fixed_kwargs: Any
) -> ToolDecorator: ...


@overload
def tool(func: Callable[..., AsyncIterator[Y]]) -> AsyncGenTool[Y]: ...


@overload
def tool(func: Callable[..., Awaitable[R]]) -> Tool[R]: ...


def tool(
    func: Callable[..., Any] | None = None,
    *,
    lock: bool = False,
    tags: Iterable[str] | None = None,
    **fixed_kwargs: Any,
) -> Any:
    """
    Turn an async function into a tool and register it by its name; use `@tool` or `@tool(...)`.

    With `lock`, calls run one after the other. The fixed keyword arguments are passed to every call; arguments of the
    call override them, and a lambda among them is called each time. Global hooks can select tools by `tags`.

    Raises:
        NotAsyncError: the function is neither a coroutine function nor an async generator (a TypeError).
        InvalidInputError: the name is in use (a ValueError).
    """
    decorate = _decorator(lock=lock, tags=tags, fixed_kwargs=fixed_kwargs)
    return decorate if func is None else decorate(func)


def _decorator(
    *, lock: bool, tags: Iterable[str] | None, fixed_kwargs: Mapping[str, Any], parent: BaseTool | None = None
) -> Any:
    def decorate(fn: Callable[..., Any]) -> BaseTool:
        if not (inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn)):
            raise NotAsyncError("Tool", fn)
        kind = AsyncGenTool[Any] if inspect.isasyncgenfunction(fn) else Tool[Any]
        made = kind(fn, lock=lock, fixed_kwargs=fixed_kwargs, tags=tags, parent=parent)
        ToolRegistry.register(made)
        if parent is not None:
            parent._subtools.append(made)
        return made

    return decorate


def _is_injected(hint: Any) -> bool:
    """Return whether a parameter with this annotation gets the queue or the pool of the agent."""
    if isinstance(hint, type) and issubclass(hint, Container):
        return True
    origin = get_origin(hint)
    inner = (origin, *get_args(hint)) if origin is None or not isinstance(origin, type) else (origin,)
    return origin is not None and any(map(_is_injected, inner))


def _accepted(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Leave out arguments that `fn` does not accept; missing ones are not added."""
    parameters = inspect.signature(fn).parameters.values()
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        args = args[: sum(kind < inspect.Parameter.VAR_POSITIONAL for kind in kinds)]
    if inspect.Parameter.VAR_KEYWORD in kinds:
        return args, dict(kwargs)
    names = {parameter.name for parameter in parameters if parameter.kind not in ANY_NUMBER}
    return args, {name: value for name, value in kwargs.items() if name in names}
