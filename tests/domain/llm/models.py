"""Models that answer as they are told to, a clock that is set by hand, and reading their answers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from refold.domain.chat.context import ChatContext
from refold.domain.chat.roles import ChatRole
from refold.domain.chat.view import ChatView
from refold.domain.llm.base import LLM, LLMResponse
from refold.domain.llm.fallback import FallbackLLM


class Emitted:
    """A step that is an "error" event."""

    def __init__(self, text: str) -> None:
        self.text = text


Step = str | float | Exception | LLMResponse | Emitted


class SetClock:
    """Time that passes only when somebody says so."""

    def __init__(self) -> None:
        self.time = 100.0

    def monotonic(self) -> float:
        """Return the time it was set to."""
        return self.time


class ScriptedLLM(LLM):
    """
    Plays one script for each call, the last one again and again: texts are said, errors raised, numbers are
    milliseconds that pass on `clock`.
    """

    def __init__(self, *scripts: Sequence[Step], clock: SetClock | None = None) -> None:
        super().__init__()
        self.scripts = list(scripts)
        self.clock = clock or SetClock()
        self.prompts: list[list[tuple[str, Any]]] = []
        self.kwargs: list[dict[str, Any]] = []
        self.cancelled = self.closed_streams = 0

    async def chat(self, messages: ChatView[Any], *args: Any, **kwargs: Any) -> AsyncIterator[LLMResponse]:
        """Play the next script."""
        self.prompts.append([(item.role.value, item.content) for item in messages.messages()])
        self.kwargs.append(kwargs)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        try:
            for step in script:
                for response in self._take(step):
                    yield response
        finally:
            self.closed_streams += 1

    def _take(self, step: Step) -> list[LLMResponse]:
        if isinstance(step, Emitted):
            self.emit("error", step.text)
        elif isinstance(step, Exception):
            raise step
        elif isinstance(step, float | int):
            self.clock.time += step / 1_000
        else:
            return [said(step) if isinstance(step, str) else step]
        return []

    async def cancel_current_generation(self) -> None:
        """Count it."""
        self.cancelled += 1


def said(text: str, **metadata: Any) -> LLMResponse:
    """Return a piece of an answer."""
    return LLMResponse(content=text, role=ChatRole.ASSISTANT, metadata=metadata or None)


async def pieces(model: LLM, **kwargs: Any) -> list[LLMResponse]:
    """Return what a model answers to an empty context."""
    return [piece async for piece in model.chat(ChatContext(), **kwargs)]


def ask(model: LLM, **kwargs: Any) -> list[str]:
    """Return the texts a model answers, as a consumer that knows nothing of metadata sees them."""
    return [piece.content for piece in asyncio.run(pieces(model, **kwargs)) if piece.content]


def errors_of(model: FallbackLLM) -> list[str]:
    """Return a list that each "error" event of a model is put into."""
    heard: list[str] = []
    model.on("error", heard.append)
    return heard


def failing(text: str) -> ScriptedLLM:
    """Return a model that always fails before it says a word."""
    return ScriptedLLM([RuntimeError(text)])
