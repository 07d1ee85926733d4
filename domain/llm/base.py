"""A model that can be asked: the base of every adapter, and of what users write themselves."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from .emitter import EventEmitter
from .responses import LLMResponse

if TYPE_CHECKING:
    # Contexts ask models for summaries, so at run time this would be a circle.
    from ..chat.calls.reading import ChatView


class LLM(EventEmitter[Literal["error"]]):
    """
    Base of models (SPEC V14.3 to V14.5).

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
        messages: ChatView,
        tools: Sequence[Any] | None = None,
        conversational_graph: Any | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[LLMResponse]:
        """
        Yield the answer to a context piece by piece.

        `tools` are functions with `_tool_info` or JSON schemas, `kwargs` go to the provider, and
        `conversational_graph` is for adapters that know what to do with it.

        Raises:
            NotImplementedError: when the base's own is awaited (SPEC V14.3).
        """
        return cast("AsyncIterator[LLMResponse]", _missing_chat(self.label))

    @abstractmethod
    async def cancel_current_generation(self) -> None:
        """Stop the answers that are being given; the base has none."""

    async def aclose(self) -> None:
        """Stop and let go of what the model holds (SPEC V14.4)."""
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
