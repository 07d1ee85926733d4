"""The base of every model adapter, also of those that users write: its answers and its errors."""

from __future__ import annotations

import inspect
import logging
from abc import abstractmethod
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, Self, TypeVar, cast, overload

from pydantic import BaseModel

from ..chat.roles import ChatRole
from ..errors import InvalidInputError, RefoldError

EventName = TypeVar("EventName", bound=str)
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
logger = logging.getLogger(__name__)


class LLMError(RefoldError):
    """A provider gave no complete answer; `status` is the HTTP status, if there was one."""

    advice = "look at its message"

    def __init__(self, provider: str, reason: str, *, status: int | None = None) -> None:
        self.provider, self.reason, self.status = provider, reason, status
        answered = f" answered {status}" if status else ""
        super().__init__(f"{provider}{answered}: {reason}; {self.advice}")


class LLMAuthenticationError(LLMError):
    """The key is missing, wrong, or lacks a permission."""

    advice = "check the API key and what it is allowed to do"


class LLMRateLimitError(LLMError):
    """Too many requests, or a quota is used up; `retry_after_seconds` is the provider's advice, or None."""

    advice = "wait, or let a FallbackLLM ask another provider"

    def __init__(
        self, provider: str, reason: str, *, status: int | None = None, retry_after_seconds: float | None = None
    ) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(provider, reason, status=status)


class LLMUnavailableError(LLMError):
    """The provider cannot be reached, is overloaded, or stopped in the middle of an answer."""

    advice = "try again, or let a FallbackLLM ask another provider"


class LLMRequestError(LLMError):
    """The provider does not accept this request: it is too long, or has an unknown model or a wrong parameter."""

    advice = "change the request"


class TokenBudget(BaseModel):
    """Token counts of one answer, as counted by the provider."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0


class LLMResponse(BaseModel):
    """
    A piece of an answer.

    Known keys of `metadata`: `usage` (a TokenBudget), `finish_reason`, `tool_calls` (a list of arguments for
    `ChatContext.add_function_call(**call)`), `answer` (for `ChatContext.add_messages`: the whole answer, if it has more
    than text and calls), and `restart`: true if an answer starts again, so that the text before this piece must be
    discarded.
    """

    content: str
    role: ChatRole
    metadata: dict[str, Any] | None = None


class ResponseChunk(str):
    """A piece of text with its metadata and role."""

    metadata: dict[str, Any] | None
    role: str | None

    def __new__(
        cls, content: str | None, metadata: dict[str, Any] | None = None, role: str | None = None
    ) -> ResponseChunk:
        """Return a chunk; None means no text."""
        chunk = super().__new__(cls, content or "")
        chunk.metadata, chunk.role = metadata, role
        return chunk

    @property
    def content(self) -> str:
        """The text, as a plain string."""
        return str(self)


async def collect(answer: AsyncIterable[LLMResponse | ResponseChunk]) -> LLMResponse:
    """
    Return the whole answer: its text joined, and the metadata of all its pieces; later values replace earlier ones.

    Pieces before one with `restart` in its metadata are discarded (`FallbackLLM(buffer=False)`).
    """
    texts: list[str] = []
    metadata: dict[str, Any] = {}
    async for piece in answer:
        known = dict(piece.metadata or {})
        if known.pop("restart", False):
            texts, metadata = [], {}
        texts.append(piece.content)
        metadata |= known
    return LLMResponse(content="".join(texts), role=ChatRole.ASSISTANT, metadata=metadata or None)


if TYPE_CHECKING:
    # Contexts ask models for summaries, so at run time this import would be a circle.
    from ..chat.view import ChatView


Handler = Callable[..., Any]
H = TypeVar("H", bound=Handler)


class EventEmitter(Generic[EventName]):
    """An object with events for which callbacks can be registered."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[Handler]] = {}

    @overload
    def on(self, event: EventName, callback: H) -> H: ...

    @overload
    def on(self, event: EventName, callback: None = None) -> Callable[[H], H]: ...

    def on(self, event: EventName, callback: Handler | None = None) -> Handler:
        """
        Call `callback` at each `event`; adding it again has no effect. Without a callback, return a decorator.

        Raises:
            InvalidInputError: the callback is an async function, which would never be awaited.
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
        """Stop calling `callback`; one that was never added is ignored."""
        handlers = self._handlers.get(event, [])
        if callback in handlers:
            handlers.remove(callback)
        if not handlers:
            self._handlers.pop(event, None)

    def emit(self, event: EventName, *args: Any) -> None:
        """Call the handlers of `event`, each with as many of `args` as it accepts; without args, with an empty dict."""
        for handler in list(self._handlers.get(event, ())):
            try:
                handler(*_accepted(handler, args or ({},)))
            except Exception:
                logger.exception("a handler of %r failed", event)


def _accepted(handler: Handler, args: tuple[Any, ...]) -> tuple[Any, ...]:
    try:
        kinds = [parameter.kind for parameter in inspect.signature(handler).parameters.values()]
    except (TypeError, ValueError):
        # Some built-in functions have no signature to inspect.
        return args
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return args
    return args[: sum(kind in POSITIONAL for kind in kinds)]


class LLM(EventEmitter[Literal["error"]]):
    """
    Base of models.

    A subclass implements `chat` as an async generator of `LLMResponse`, and `cancel_current_generation`. A subclass
    that detects an error outside of a call reports it with `emit("error", text)`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._label = f"{type(self).__module__}.{type(self).__name__}"

    @property
    def label(self) -> str:
        """The name of the adapter: `module.Class`."""
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

        `tools` are functions with `_tool_info` or JSON schemas, `kwargs` are passed to the provider, and
        `conversational_graph` is for adapters that support it.

        Raises:
            NotImplementedError: the subclass does not implement `chat`, and the result of this one is awaited or read.
        """
        return cast("AsyncIterator[LLMResponse]", _MissingChat(self.label))

    @abstractmethod
    async def cancel_current_generation(self) -> None:
        """Stop the answers in progress; the base class has none."""

    async def aclose(self) -> None:
        """Stop, and release the resources of the model."""
        await self.cancel_current_generation()

    async def __aenter__(self) -> Self:
        """Return the model, to be closed at the end of the block."""
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        """Close the model."""
        await self.aclose()


class _MissingChat(Coroutine[Any, Any, NoReturn]):
    """The answer of a model without `chat`, which raises the same error when it is awaited and when it is read."""

    def __init__(self, label: str) -> None:
        self._label = label

    def send(self, value: Any) -> NoReturn:
        raise NotImplementedError(f"{self._label} has no chat(): write it as an async generator of LLMResponse")

    def throw(self, *error: Any) -> NoReturn:
        self.send(None)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def __await__(self) -> NoReturn:
        self.send(None)

    __aiter__ = __await__
