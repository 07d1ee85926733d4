"""
Telling listeners, synchronously: an event has a name, and handlers that are called in their order (SPEC V14.6).

A handler that fails is logged and does not keep the others from hearing.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

from ..errors import InvalidInputError

EventName = TypeVar("EventName", bound=str)
Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

logger = logging.getLogger(__name__)


class EventEmitter(Generic[EventName]):
    """Something that can be listened to (SPEC V14.6)."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[Handler]] = {}

    @overload
    def on(self, event: EventName, callback: H) -> H: ...

    @overload
    def on(self, event: EventName, callback: None = None) -> Callable[[H], H]: ...

    def on(self, event: EventName, callback: Handler | None = None) -> Handler:
        """
        Call `callback` at each `event`, once however often it is added; without one, be a decorator.

        Raises:
            InvalidInputError: the callback is an async function, which nobody would await.
        """
        if callback is None:
            return lambda later: self.on(event, later)
        if inspect.iscoroutinefunction(callback):
            raise InvalidInputError("Async handlers are not supported. Use a sync wrapper.")
        handlers = self._handlers.setdefault(event, [])
        if callback not in handlers:
            handlers.append(callback)
        return callback

    def off(self, event: EventName, callback: Handler) -> None:
        """Call `callback` no more; one that was never added is fine."""
        handlers = self._handlers.get(event, [])
        if callback in handlers:
            handlers.remove(callback)
        if not handlers:
            self._handlers.pop(event, None)

    def emit(self, event: EventName, *args: Any) -> None:
        """Call the handlers of `event`, each with as many of `args` as it takes; without any, with an empty dict."""
        for handler in list(self._handlers.get(event, ())):
            try:
                handler(*_accepted(handler, args or ({},)))
            except Exception:
                logger.exception("a handler of %r failed", event)


def _accepted(handler: Handler, args: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        kinds = [parameter.kind for parameter in inspect.signature(handler).parameters.values()]
    except (TypeError, ValueError):
        # Some built-in functions do not say what they take.
        return args
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return args
    return args[: sum(kind in POSITIONAL for kind in kinds)]
