"""
The common part of models over official clients: streaming an answer, and their errors as Refold's.

The errors of all three clients have the HTTP status. An error without one means that the request did not arrive or the
answer broke off.
"""

from __future__ import annotations

import asyncio
import os
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from json import JSONDecodeError
from typing import Any

import msgspec

from ...domain.chat.pairing import PendingRule
from ...domain.chat.roles import ChatRole
from ...domain.chat.view import ChatView
from ...domain.errors import reason_of
from ...domain.llm.base import (
    LLM,
    LLMAuthenticationError,
    LLMError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponse,
    LLMUnavailableError,
    TokenBudget,
)
from ...domain.llm.tools import ToolSchema, names_sent, tool_schemas

# Top-level packages of errors from the provider or the network, by name because not all of them are installed.
FOREIGN = {"aiohttp", "anthropic", "google", "httpcore", "httpcore2", "httpx", "httpx2", "openai"}
# Google's reason for a wrong key, sent with status 400.
WRONG_KEY = "API_KEY_INVALID"


def translated(error: Exception, provider: str) -> LLMError | None:
    """Return Refold's error for an error of a client, or None if it does not come from the provider."""
    foreign = type(error).__module__.split(".")[0] in FOREIGN
    if not foreign and not isinstance(error, OSError | JSONDecodeError | UnicodeDecodeError):
        return None
    status, reason = _status(error), reason_of(error)
    if status in (401, 403) or WRONG_KEY in reason:
        return LLMAuthenticationError(provider, reason, status=status)
    if status == 429:
        return LLMRateLimitError(provider, reason, status=status, retry_after_seconds=_retry_after(error))
    if status is not None and 400 <= status < 500 and status not in (408, 409):
        return LLMRequestError(provider, reason, status=status)
    return LLMUnavailableError(provider, reason, status=status)


def _status(error: Any) -> int | None:
    found = getattr(error, "status_code", None) or getattr(error, "code", None)
    # Status 200 belongs to a stream that reported its error later.
    return found if isinstance(found, int) and found >= 400 else None


def _retry_after(error: Any) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        # It may also be a date, which no provider sends.
        return float(headers.get("retry-after", ""))
    except ValueError:
        return None


Request = dict[str, Any]


class Ending:
    """The end of an answer, after its text; the last piece carries it."""

    def __init__(self) -> None:
        self.usage = TokenBudget()
        self.finish_reason: str | None = None
        self.tool_calls: list[dict[str, Any]] = []
        # The whole answer in the provider's form, where it is more than text and calls.
        self.answer: dict[str, Any] | None = None

    def response(self, provider: str) -> LLMResponse:
        """
        Return the last piece: no text, and all else as metadata.

        Raises:
            LLMUnavailableError: the provider did not say that the answer was complete.
        """
        if self.finish_reason is None:
            raise LLMUnavailableError(provider, "the answer broke off before its end")
        metadata: dict[str, Any] = {"finish_reason": self.finish_reason, "usage": self.usage}
        if self.tool_calls:
            metadata["tool_calls"] = self.tool_calls
        if self.answer:
            metadata["answer"] = self.answer
        return spoken("", metadata)


class ClientLLM(LLM):
    """Base of the adapters; a subclass makes the request and reads the client's stream."""

    provider = "the provider"
    # Makes a name of a tool one that the provider accepts; calls in the answer get the tool's own name again.
    function_name: Callable[[str], str] = staticmethod(str)

    def __init__(
        self, model: str, client: Any, *, owns_client: bool, pending: PendingRule, options: dict[str, Any]
    ) -> None:
        super().__init__()
        self.model, self.client, self.options = model, client, options
        self.pending = pending
        self._owns_client = owns_client
        self._running: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def request(self, messages: ChatView[Any], tools: Sequence[ToolSchema], options: dict[str, Any]) -> Request:
        """Return the request for a context, tools and the options of the call."""

    @abstractmethod
    def answer(self, request: Request) -> AsyncIterator[LLMResponse]:
        """Send a request and yield the answer."""

    def name_calls(self, metadata: dict[str, Any], names: Mapping[str, str]) -> None:
        """Give the calls in an answer the own names of their tools, by the names that were sent."""
        for call in metadata.get("tool_calls", ()):
            call["name"] = names.get(call["name"], call["name"])

    async def close_client(self) -> None:
        """Close the client's connections."""
        await self.client.close()

    async def chat(
        self,
        messages: ChatView[Any],
        tools: Sequence[Any] | None = None,
        conversational_graph: Any | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[LLMResponse]:
        """
        Yield the text as it comes, then one piece with `usage`, `finish_reason`, `tool_calls` and `answer` in its
        metadata.

        `kwargs` are parameters of the provider's API and override the adapter's own; the graph is not used. Each error
        is also an "error" event.

        Raises:
            LLMError: there is no answer, or it broke off.
            PendingCallsError: calls of the context have no output, and the adapter was made with `pending="refuse"`.
            InvalidInputError: a tool has an unknown form, or two would be sent under one name.
        """
        schemas = tool_schemas(tools)
        names = names_sent(schemas, self.function_name)
        sent = [msgspec.structs.replace(schema, name=self.function_name(schema.name)) for schema in schemas]
        request = await self.request(messages, sent, self.options | kwargs)
        pieces: asyncio.Queue[LLMResponse | None] = asyncio.Queue()
        task = asyncio.create_task(self._fetch(request, pieces))
        self._running.add(task)
        try:
            while (piece := await pieces.get()) is not None:
                self.name_calls(piece.metadata or {}, names)
                yield piece
            await asyncio.wait({task})
            self._check(task)
        finally:
            self._running.discard(task)
            await _stop({task})

    async def cancel_current_generation(self) -> None:
        """Stop all running answers: they end after the text that has arrived."""
        await _stop(set(self._running))

    async def aclose(self) -> None:
        """Stop, and close the client unless the caller passed it in."""
        await super().aclose()
        if self._owns_client:
            await self.close_client()

    async def _fetch(self, request: Request, pieces: asyncio.Queue[LLMResponse | None]) -> None:
        try:
            async for piece in self.answer(request):
                pieces.put_nowait(piece)
        finally:
            pieces.put_nowait(None)

    def _check(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        meaning = translated(error, self.provider) if isinstance(error, Exception) else None
        self.emit("error", str(meaning or error))
        if meaning is None:
            raise error
        raise meaning from error


async def _stop(tasks: set[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def spoken(text: str, metadata: dict[str, Any] | None = None) -> LLMResponse:
    """Return a piece of an answer."""
    return LLMResponse(content=text, role=ChatRole.ASSISTANT, metadata=metadata)


def missing_package(package: str, extra: str) -> ImportError:
    """Return the error that says which extra to install."""
    return ImportError(f'this model needs the package {package}: pip install "refold[{extra}]"')


def key_from(provider: str, key: str | None, *variables: str) -> str:
    """
    Return the key that was given, or one from the environment.

    Raises:
        LLMAuthenticationError: there is no key; the message names the variables.
    """
    found = key or next((value for name in variables if (value := os.environ.get(name))), None)
    if found is None:
        raise LLMAuthenticationError(provider, f"there is no key: pass api_key=, or set {' or '.join(variables)}")
    return found
