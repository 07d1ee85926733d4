"""
Handing out by annotation: a parameter that is declared as a context queue or pool gets the running agent's own.

The agent says what there is while a turn of its runs; tools and hooks are asked for their annotations when they
are called. What a call gives itself is never replaced, not even an explicit None. Tools get
a view of it, as they are to read only; hooks get the thing itself.
"""

from __future__ import annotations

import inspect
import logging
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import SimpleNamespace, UnionType
from typing import Any, TypeAlias, get_args, get_origin

BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)

Handed: TypeAlias = list[tuple[type, Any]]

logger = logging.getLogger(__name__)

# What the running turn hands out, or None. Who sets these two alone, and no agent, means the thing itself.
current_context_queue: ContextVar[Any] = ContextVar("refold.context_queue", default=None)
current_context_pool: ContextVar[Any] = ContextVar("refold.context_pool", default=None)
_is_read_only_for_tools: ContextVar[bool] = ContextVar("refold.is_read_only_for_tools", default=False)


@contextmanager
def handing_out(queue: object, pool: object) -> Iterator[None]:
    """
    Hand out these to what is called within the block: to hooks themselves, to tools their `readonly` views.

    The block must not span the `yield` of an async generator: it would then be left in another context.
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
    """An annotation that names something which is not there at run time."""

    annotation: Any
    error: Exception
    is_told: bool = False


class Injection:
    """The parameters that one function wants injected; `label` names it in log messages. A tool gets views."""

    def __init__(self, fn: Callable[..., Any], label: str, *, is_tool: bool) -> None:
        self._fn, self._label, self._is_tool = fn, label, is_tool
        self._hints: dict[str, Any] | None = None

    def complete(self, args: Iterable[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return `kwargs`, completed by what is handed out for parameters that the call does not give."""
        handed = _handed_out()
        if not handed:
            return dict(kwargs)
        if self._hints is None:
            self._hints = _hints_of(self._fn)
        given = _given_names(self._fn, args, kwargs)
        is_read_only = self._is_tool and _is_read_only_for_tools.get()
        found = {}
        for name, hint in self._hints.items():
            value = None if name in given else self._fitting(name, hint, handed)
            if value is not None:
                found[name] = value.readonly if is_read_only else value
        return found | dict(kwargs)

    def _fitting(self, name: str, hint: Any, handed: Handed) -> Any:
        if not isinstance(hint, _Unresolved):
            return _fitting(hint, handed)
        if not hint.is_told:
            hint.is_told = True
            logger.warning(
                "The annotation %r of the parameter %r of %s cannot be resolved (%s), so no queue or pool is handed "
                "to it: import its names at module level, not only for type checkers.",
                hint.annotation,
                name,
                self._label,
                hint.error,
            )
        return None


def inject_context_deps(fn: Callable[..., Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments for one call of the tool function `fn`, completed by what is handed out."""
    return Injection(fn, f"function {getattr(fn, '__name__', fn)!r}", is_tool=True).complete((), kwargs)


def _handed_out() -> Handed:
    queue, pool = current_context_queue.get(), current_context_pool.get()
    if queue is None and pool is None:
        return []
    # Queues and pools are built on hooks, so they cannot be imported where hooks are.
    from ..pool import ContextPool, ContextQueue

    return [(kind, value) for kind, value in ((ContextQueue, queue), (ContextPool, pool)) if value is not None]


def _hints_of(fn: Callable[..., Any]) -> dict[str, Any]:
    names = getattr(inspect.unwrap(fn), "__globals__", {})
    hints: dict[str, Any] = {}
    for name, parameter in inspect.signature(fn).parameters.items():
        annotation = parameter.annotation
        if parameter.kind not in BY_NAME or annotation is inspect.Parameter.empty:
            continue
        try:
            # One by one, so that one that cannot be resolved does not take the others with it.
            hints[name] = typing.get_type_hints(SimpleNamespace(__annotations__={name: annotation}), names)[name]
        except Exception as error:
            # Anything may stand in an annotation, and so anything may be raised.
            hints[name] = _Unresolved(annotation, error)
    return hints


def _fitting(hint: Any, handed: Handed) -> Any:
    origin = get_origin(hint)
    if origin in (typing.Union, UnionType):
        found = (_fitting(part, handed) for part in get_args(hint))
        return next((value for value in found if value is not None), None)
    declared = origin if origin is not None else hint
    if not isinstance(declared, type):
        return None
    # Where a subclass is asked for, the agent's own is handed out only when it is one.
    fits = (value for kind, value in handed if issubclass(declared, kind) and isinstance(value, declared))
    return next(fits, None)


def _given_names(fn: Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any]) -> set[str]:
    try:
        return set(inspect.signature(fn).bind_partial(*args, **kwargs).arguments)
    except TypeError:
        # The call does not fit, and says so itself when it is made.
        return set(kwargs)
