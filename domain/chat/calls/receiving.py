"""The part of a chat context that is made of what providers take and give: from each format back to items."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ...clock import REAL_SYSTEM
from ...formats.anthropic.receive import items_from_anthropic
from ...formats.google.receive import items_from_google
from ...formats.openai.receive import items_from_openai_messages
from ...formats.responses.receive import items_from_openai_responses
from ..events import ChatItemEvent
from .writing import WritableChat

Self = TypeVar("Self", bound="ReceivingChat")


class ReceivingChat(WritableChat):
    """Detached contexts of other programs' messages; what an item has no field for is kept beside it."""

    record_items: Callable[..., object]

    @classmethod
    def from_openai_messages(cls: type[Self], messages: Iterable[Any]) -> Self:
        """
        Return a detached context of messages of OpenAI chat completions; `to_openai_messages` gives them back.

        Raises:
            InvalidInputError: something is no message; the error names its index and field.
        """
        return _holding(cls, items_from_openai_messages(messages, system_clock=REAL_SYSTEM))

    @classmethod
    def from_openai_responses(cls: type[Self], entries: Iterable[Any], instructions: str | None = None) -> Self:
        """
        Return a detached context of the input or output items of OpenAI's Responses API.

        Raises:
            InvalidInputError: an entry that no item can stand for; the error names it.
        """
        return _holding(cls, items_from_openai_responses(entries, instructions, system_clock=REAL_SYSTEM))

    @classmethod
    def from_anthropic_messages(cls: type[Self], messages: Iterable[Any], system: Any = None) -> Self:
        """
        Return a detached context of Anthropic messages and system text.

        Raises:
            InvalidInputError: something is no message; the error names its index and field.
        """
        return _holding(cls, items_from_anthropic(messages, system, system_clock=REAL_SYSTEM))

    @classmethod
    def from_google_contents(cls: type[Self], contents: Iterable[Any], system_instruction: Any = None) -> Self:
        """
        Return a detached context of Google contents, plain or as `google.genai.types.Content`.

        Raises:
            InvalidInputError: something is no content; the error names its index and field.
        """
        return _holding(cls, items_from_google(contents, system_instruction, system_clock=REAL_SYSTEM))


def _holding(made: type[Self], items: list[ChatItemEvent]) -> Self:
    context = made()  # type: ignore[call-arg]  # a whole context needs no arguments
    context.record_items(items)
    return context
