"""A hook: an async function together with when it is to be called and how."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import InvalidInputError
from .errors import NotAsyncError
from .injecting import Injection

if TYPE_CHECKING:
    from .loop_lock import LoopLock


class _Moments(str, Enum):  # noqa: UP042 - the seed's base classes: str(kind) stays "TurnHook.BEFORE_RUN"
    """The base of all enums of moments: their values are texts."""


class TurnHook(_Moments):
    """Moments in the run of one turn."""

    BEFORE_RUN = "before_run"
    AFTER_RUN = "after_run"
    ON_TIMEOUT = "on_timeout"
    ON_ERROR = "on_error"
    ON_COMPLETE = "on_complete"


class AgentHook(_Moments):
    """Moments in the run of an agent."""

    BEFORE_TURN = "before_turn"
    AFTER_TURN = "after_turn"
    ON_TURN_VALUE = "on_turn_value"
    BEFORE_PUT = "before_put"
    AFTER_PUT = "after_put"
    ON_PAUSE = "on_pause"
    ON_RESUME = "on_resume"


class ToolHook(_Moments):
    """Moments in one call of a tool."""

    BEFORE_INVOKE = "before_invoke"
    AFTER_INVOKE = "after_invoke"
    ON_YIELD = "on_yield"
    ON_ERROR = "on_error"


class ContextQueueHook(_Moments):
    """Changes of a context queue."""

    BEFORE_APPEND = "before_append"
    AFTER_APPEND = "after_append"
    BEFORE_CLEAR = "before_clear"
    AFTER_CLEAR = "after_clear"
    ON_EVICT = "on_evict"


class ContextPoolHook(_Moments):
    """Changes of a context pool."""

    BEFORE_ADD = "before_add"
    AFTER_ADD = "after_add"
    BEFORE_REMOVE = "before_remove"
    AFTER_REMOVE = "after_remove"
    BEFORE_CLEAR = "before_clear"
    AFTER_CLEAR = "after_clear"
    ON_EVICT = "on_evict"


HookType: TypeAlias = TurnHook | AgentHook | ToolHook | ContextQueueHook | ContextPoolHook


logger = logging.getLogger(__name__)


def eval_args(args: Iterable[Any]) -> list[Any]:
    """Return the arguments; a function among them is called now, and what it returns stands for it."""
    return [value() if isinstance(value, FunctionType) else value for value in args]


def eval_kwargs(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments, functions called as in `eval_args`."""
    return dict(zip(kwargs, eval_args(kwargs.values()), strict=True))


def merge_kwargs(fixed: Mapping[str, Any], given: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Return fixed and given keyword arguments; a given one wins, and the log has a warning that names `label`."""
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
    An async function that is called at moments of one type or several.

    With `lock`, one run waits for the other. `fixed_kwargs` go into every call. `tags` matter where the hook is
    global: it then fires only for owners that share one of them.

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
        name = require_async(fn, "a hook")
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.type = type
        self.lock = new_lock() if lock else None
        self.fixed_kwargs = dict(fixed_kwargs or {})
        self.tags = frozenset(tags) if tags else None
        self.metadata = HookMetadata(name, fn.__doc__)
        self._injection = Injection(fn, f"hook {name!r}", is_tool=False)

    async def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Call the function with the fixed arguments and these, of which these win."""
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
        """Return whether a hook made of these would do the same at these moments."""
        has_same_options = (self.lock is not None) == lock and self.fixed_kwargs == fixed
        return self.fn is fn and self.is_for(types) and has_same_options

    def __repr__(self) -> str:
        """Show the type and the name."""
        return f"Hook(type={self.type!r}, metadata={self.metadata!r})"


def types_of(hook: object) -> tuple[Any, ...]:
    """Return the types of a hook, or of any callable with a `type`; none without one."""
    found = getattr(hook, "type", None)
    if found is None:
        return ()
    return tuple(found) if isinstance(found, tuple | frozenset | list) else (found,)


def require_async(fn: Callable[..., Any], what: str) -> str:
    """
    Return the name of what can be awaited when it is called.

    Functions are looked at; of another callable only a call could tell.

    Raises:
        NotAsyncError: it is a function that is not async, as `what` must be (a TypeError).
        InvalidInputError: it has no name, by which it could be found again.
    """
    plain = fn.func if isinstance(fn, functools.partial) else fn
    is_async = inspect.iscoroutinefunction(plain) or inspect.iscoroutinefunction(inspect.unwrap(plain))
    if (inspect.isroutine(plain) or inspect.isclass(plain)) and not is_async:
        raise NotAsyncError(what, fn)
    name = getattr(fn, "__name__", None)
    if not isinstance(name, str):
        raise InvalidInputError(f"{fn!r} has no __name__, by which it would be found again: wrap it in an `async def`")
    return name


def new_lock() -> LoopLock:
    """Return a lock that is an `asyncio.Lock` as well, for those who have users that may look."""
    # asyncio takes a third of the time of `import refold`, and most hooks and tools need no lock.
    from .loop_lock import LoopLock

    return LoopLock()
