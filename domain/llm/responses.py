"""The answer of a model: pieces of text as they come, then their cost and the tools that the model asks for."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

from pydantic import BaseModel

from ..chat.items import ChatRole


class TokenBudget(BaseModel):
    """Tokens of one answer as the provider counted them."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0


class LLMResponse(BaseModel):
    """
    A piece of an answer.

    Known keys of `metadata`: `usage` (a TokenBudget), `finish_reason`, `tool_calls` (a list of what
    `ChatContext.add_function_call(**call)` takes), and `restart`: true where an answer starts again, so that
    the text before it is to be thrown away.
    """

    content: str
    role: ChatRole
    metadata: dict[str, Any] | None = None


class ResponseChunk(str):
    """A piece of text that knows its metadata and role."""

    metadata: dict[str, Any] | None
    role: str | None

    def __new__(
        cls, content: str | None, metadata: dict[str, Any] | None = None, role: str | None = None
    ) -> ResponseChunk:
        """Make a chunk; None counts as no text."""
        chunk = super().__new__(cls, content or "")
        chunk.metadata, chunk.role = metadata, role
        return chunk

    @property
    def content(self) -> str:
        """The text, as a plain string."""
        return str(self)


async def collect(answer: AsyncIterable[LLMResponse | ResponseChunk]) -> LLMResponse:
    """
    Return the whole of an answer: its text joined, and the metadata of all its pieces, later ones winning.

    What came before a piece with `restart` in its metadata is thrown away (`FallbackLLM(buffer=False)`).
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
