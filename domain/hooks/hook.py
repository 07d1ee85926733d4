"""
A hook: an async function, the moments at which it is called, and the arguments that its annotations ask for.

A parameter that is annotated as a context queue or pool gets that of the running agent. The agent sets both while one
of its turns runs; annotations are read when a tool or hook is called. An argument that the call gives is never
replaced, not even an explicit None. Tools get a read-only view; hooks get the queue or pool itself.

    RefusedError
    ├── InvalidInputError
    │   └── UnserializableHookError  a hook that cannot be found by its name (also a ValueError)
    ├── NotFoundError
    │   └── UnregisteredHookError    nothing is registered under this name and type (also a KeyError)
    └── NotAsyncError                a plain function where an async one is needed (also a TypeError)
"""

from __future__ import annotations

import functools
import inspect
import logging
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from enum import Enum
from types import FunctionType, SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Any, TypeAlias, get_args, get_origin

from ..arguments import require_tags
from ..errors import InvalidInputError, NotFoundError, RefusedError

BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

# The objects to inject, each with the enum of the hooks of its class; the enum identifies the kind of class.
Injected: TypeAlias = list[tuple[type[Enum], Any]]

logger = logging.getLogger(__name__)

# The queue and the pool of the running turn, or None. If only these two are set, without an agent, hooks and tools get
# the objects themselves.
current_context_queue: ContextVar[Any] = ContextVar("refold.context_queue", default=None)
current_context_pool: ContextVar[Any] = ContextVar("refold.context_pool", default=None)
_is_read_only_for_tools: ContextVar[bool] = ContextVar("refold.is_read_only_for_tools", default=False)


class UnregisteredHookError(NotFoundError):
    """No hook is registered under this name and type."""


class UnserializableHookError(InvalidInputError):
    """A hook that is not the one registered under its name, so that it cannot be restored."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"hook {name!r} is not the one registered under that name (a closure or a duplicate); "
            "define it at module level to save its owner"
        )


class NotAsyncError(RefusedError, TypeError):
    """A function that cannot be awaited was given where an async one is needed."""

    def __init__(self, what: str, given: object) -> None:
        name = getattr(given, "__name__", None) or repr(given)
        super().__init__(f"{what} must be async, and {name!r} is not: define it with `async def`")


@contextmanager
def injecting(queue: object, pool: object) -> Iterator[None]:
    """
    Inject these two into hooks and tools that are called within the block: hooks get the objects, tools `readonly`
    views.

    The block must not contain the `yield` of an async generator, because the generator may continue in another context.
    """
    tokens = current_context_queue.set(queue), current_context_pool.set(pool), _is_read_only_for_tools.set(True)
    try:
        yield
    finally:
        current_context_queue.reset(tokens[0])
        current_context_pool.reset(tokens[1])
        _is_read_only_for_tools.reset(tokens[2])


@dataclass
class _Unresolved:
    """An annotation with a name that does not exist at run time."""

    annotation: Any
    error: Exception
    is_logged: bool = False


class Injection:
    """The injected parameters of one function; `label` names the function in log messages. A tool gets views."""

    def __init__(self, fn: Callable[..., Any], label: str, *, is_tool: bool) -> None:
        self._fn, self._label, self._is_tool = fn, label, is_tool
        self._hints: dict[str, Any] | None = None

    def complete(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return `kwargs`, with the injected arguments for parameters that the call does not give."""
        injected = _injected()
        if not injected:
            return dict(kwargs)
        if self._hints is None:
            self._hints = _hints_of(self._fn)
        given = _given_names(self._fn, args, kwargs)
        is_read_only = self._is_tool and _is_read_only_for_tools.get()
        found = {}
        for name, hint in self._hints.items():
            value = None if name in given else self._fitting(name, hint, injected)
            if value is not None:
                found[name] = value.readonly if is_read_only else value
        return found | dict(kwargs)

    def _fitting(self, name: str, hint: Any, injected: Injected) -> Any:
        if not isinstance(hint, _Unresolved):
            return _fitting(hint, injected)
        if not hint.is_logged:
            hint.is_logged = True
            logger.warning(
                "The annotation %r of the parameter %r of %s cannot be resolved (%s), so no queue or pool is passed "
                "to it: import its names at module level, not only for type checkers.",
                hint.annotation,
                name,
                self._label,
                hint.error,
            )
        return None


def inject_context_deps(fn: Callable[..., Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments for one call of the tool function `fn`, with the injected arguments."""
    return Injection(fn, f"function {getattr(fn, '__name__', fn)!r}", is_tool=True).complete((), kwargs)


def _injected() -> Injected:
    queue, pool = current_context_queue.get(), current_context_pool.get()
    if queue is None and pool is None:
        return []
    both = ((ContextQueueHook, queue), (ContextPoolHook, pool))
    return [(moments, value) for moments, value in both if value is not None]


def _hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    names = getattr(inspect.unwrap(fn), "__globals__", {})
    hints: dict[str, Any] = {}
    for name, parameter in inspect.signature(fn).parameters.items():
        annotation = parameter.annotation
        if parameter.kind not in BY_NAME or annotation is inspect.Parameter.empty:
            continue
        try:
            # Resolved one by one, so that an annotation that cannot be resolved does not affect the others.
            hints[name] = typing.get_type_hints(SimpleNamespace(__annotations__={name: annotation}), names)[name]
        except Exception as error:
            # An annotation can be any expression, so it can raise any error.
            hints[name] = _Unresolved(annotation, error)
    return hints


def _fitting(hint: Any, injected: Injected) -> Any:
    origin = get_origin(hint)
    if origin in (typing.Union, UnionType):
        found = (_fitting(part, injected) for part in get_args(hint))
        return next((value for value in found if value is not None), None)
    declared = origin if origin is not None else hint
    if not isinstance(declared, type):
        return None
    # Where a parameter asks for a subclass, the agent's object is injected only if it is an instance of it.
    wanted = getattr(declared, "hook_types", None)
    return next((value for moments, value in injected if moments is wanted and isinstance(value, declared)), None)


def _given_names(fn: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any]) -> set[str]:
    try:
        return set(inspect.signature(fn).bind_partial(*args, **kwargs).arguments)
    except TypeError:
        # The arguments do not fit the signature; Python reports that at the call.
        return set(kwargs)


if TYPE_CHECKING:
    from .loop_lock import LoopLock


class _Moments(str, Enum):  # noqa: UP042 - the seed's base classes: str(kind) stays "TurnHook.BEFORE_RUN"
    """The base of all enums of moments; their values are texts."""


class TurnHook(_Moments):
    """The moments in the run of one turn."""

    BEFORE_RUN = "before_run"
    AFTER_RUN = "after_run"
    ON_TIMEOUT = "on_timeout"
    ON_ERROR = "on_error"
    ON_COMPLETE = "on_complete"


class AgentHook(_Moments):
    """The moments in the run of an agent."""

    BEFORE_TURN = "before_turn"
    AFTER_TURN = "after_turn"
    ON_TURN_VALUE = "on_turn_value"
    BEFORE_PUT = "before_put"
    AFTER_PUT = "after_put"
    ON_PAUSE = "on_pause"
    ON_RESUME = "on_resume"


class ToolHook(_Moments):
    """The moments in one call of a tool."""

    BEFORE_INVOKE = "before_invoke"
    AFTER_INVOKE = "after_invoke"
    ON_YIELD = "on_yield"
    ON_ERROR = "on_error"


class ContextQueueHook(_Moments):
    """The changes of a context queue."""

    BEFORE_APPEND = "before_append"
    AFTER_APPEND = "after_append"
    BEFORE_CLEAR = "before_clear"
    AFTER_CLEAR = "after_clear"
    ON_EVICT = "on_evict"


class ContextPoolHook(_Moments):
    """The changes of a context pool."""

    BEFORE_ADD = "before_add"
    AFTER_ADD = "after_add"
    BEFORE_REMOVE = "before_remove"
    AFTER_REMOVE = "after_remove"
    BEFORE_CLEAR = "before_clear"
    AFTER_CLEAR = "after_clear"
    ON_EVICT = "on_evict"


HookType: TypeAlias = TurnHook | AgentHook | ToolHook | ContextQueueHook | ContextPoolHook


def eval_args(args: Iterable[Any]) -> list[Any]:
    """Return the arguments; a function among them is called now and replaced by its result."""
    return [value() if isinstance(value, FunctionType) else value for value in args]


def eval_kwargs(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments; functions among them are called as in `eval_args`."""
    return dict(zip(kwargs, eval_args(kwargs.values()), strict=True))


def merge_kwargs(fixed: Mapping[str, Any], given: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return fixed and given keyword arguments; a given one wins, and a warning with `label` is logged."""
    for name in given:
        if name in fixed:
            logger.warning("Fixed kwarg %r is overridden in a call of %s.", name, label)
    return eval_kwargs({name: value for name, value in fixed.items() if name not in given}) | dict(given)


HookFunction: TypeAlias = Callable[..., Awaitable[None]]


@dataclass
class HookMetadata:
    """A hook's name and description."""

    name: str
    description: str | None

    def dict(self) -> dict[str, Any]:
        """Return both as a dict."""
        return asdict(self)


class Hook:
    """
    An async function that is called at moments of one or several types.

    With `lock`, its calls run one at a time. `fixed_kwargs` are added to every call. `tags` are used for a global hook:
    it fires only for owners that have one of these tags.

    Raises:
        NotAsyncError: the function is not async (a TypeError).
        InvalidInputError: it has no name.
    """

    __name__: str

    def __init__(
        self,
        fn: HookFunction,
        type: HookType | tuple[HookType, ...],
        *,
        lock: bool = False,
        fixed_kwargs: Mapping[str, Any] | None = None,
        tags: Iterable[str] | None = None,
    ) -> None:
        name = require_async(fn)
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.type = type
        self.lock = new_lock() if lock else None
        self.fixed_kwargs = dict(fixed_kwargs or {})
        self.tags = frozenset(require_tags(tags)) or None
        self.metadata = HookMetadata(name, fn.__doc__)
        self._injection = Injection(fn, f"hook {name!r}", is_tool=False)

    async def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Call the function with the fixed arguments and the given ones; a given one wins."""
        merged = merge_kwargs(self.fixed_kwargs, kwargs, f"hook {self.__name__!r}")
        merged = self._injection.complete(args, merged)
        if self.lock is None:
            await self.fn(*args, **merged)
            return
        async with self.lock.hold():
            await self.fn(*args, **merged)

    def is_for(self, types: tuple[HookType, ...]) -> bool:
        """Return whether it is called for all these types."""
        own = types_of(self)
        return all(any(one is other for other in own) for one in types)

    def is_like(self, fn: HookFunction, types: tuple[HookType, ...], *, lock: bool, fixed: Mapping[str, Any]) -> bool:
        """Return whether a hook with these values would do the same at these moments."""
        has_same_options = (self.lock is not None) == lock and self.fixed_kwargs == fixed
        return self.fn is fn and self.is_for(types) and has_same_options

    def __repr__(self) -> str:
        """Show the type and the name."""
        return f"Hook(type={self.type!r}, metadata={self.metadata!r})"


def types_of(hook: object) -> tuple[Any, ...]:
    """Return the types of a hook, or of any callable with a `type`; an empty tuple without one."""
    found = getattr(hook, "type", None)
    if found is None:
        return ()
    return tuple(found) if isinstance(found, tuple | frozenset | list) else (found,)


def require_async(fn: Callable[..., Any]) -> str:
    """
    Return the name of a function or callable whose result can be awaited.

    Only functions are checked: another callable shows only when it is called whether it is async.

    Raises:
        NotAsyncError: it is a function that is not async (a TypeError).
        InvalidInputError: it has no name, by which it could be found again.
    """
    plain = fn.func if isinstance(fn, functools.partial) else fn
    is_async = inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(inspect.unwrap(plain))
    if (inspect.isroutine(plain) or inspect.isclass(plain)) and not is_async:
        raise NotAsyncError("a hook", fn)
    name = getattr(fn, "__name__", None)
    if not isinstance(name, str):
        raise InvalidInputError(f"{fn!r} has no __name__, by which it would be found again: wrap it in an `async def`")
    return name


def new_lock() -> LoopLock:
    """Return a lock that is also an `asyncio.Lock`, because users may check its type."""
    # The import of asyncio takes a third of the time of `import refold`, and most hooks and tools need no lock.
    from .loop_lock import LoopLock

    return LoopLock()
