"""A model that can be asked: the base of every adapter, and of what users write themselves."""

from __future__ import annotations

import inspect
import logging
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, cast, overload

from ..errors import InvalidInputError
from .responses import LLMResponse

if TYPE_CHECKING:
    # Contexts ask models for summaries, so at run time this would be a circle.
    from ..chat.view import ChatView


EventName = TypeVar("EventName", bound=str)
Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

logger = logging.getLogger(__name__)


class EventEmitter(Generic[EventName]):
    """Something that can be listened to."""

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


class LLM(EventEmitter[Literal["error"]]):
    """
    Base of models.

    A subclass writes `chat` as an async generator of `LLMResponse`, and `cancel_current_generation`. One that
    notices an error outside of a call tells it with `emit("error", text)`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._label = f"{type(self).__module__}.{type(self).__name__}"

    @property
    def label(self) -> str:
        """Which adapter this is: `module.Class`."""
        return self._label

    @abstractmethod
    def chat(
        self,
        messages: ChatView[Any],
        tools: Sequence[Any] | None = None,
        conversational_graph: Any | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[LLMResponse]:
        """
        Yield the answer to a context piece by piece.

        `tools` are functions with `_tool_info` or JSON schemas, `kwargs` go to the provider, and
        `conversational_graph` is for adapters that know what to do with it.

        Raises:
            NotImplementedError: when the base's own is awaited.
        """
        return cast("AsyncIterator[LLMResponse]", _missing_chat(self.label))

    @abstractmethod
    async def cancel_current_generation(self) -> None:
        """Stop the answers that are being given; the base has none."""

    async def aclose(self) -> None:
        """Stop and let go of what the model holds."""
        await self.cancel_current_generation()

    async def __aenter__(self) -> Self:
        """Return the model, to be closed at the end of the block."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the model."""
        await self.aclose()


async def _missing_chat(label: str) -> AsyncIterator[LLMResponse]:
    raise NotImplementedError(f"{label} has no chat(): write it as an async generator of LLMResponse")
