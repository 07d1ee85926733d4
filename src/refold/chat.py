"""The chat context and the models under their seed's names: code moves over by changing its import."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refold.domain.chat.context import ChatContext, ReadOnlyChatContext, ask_for_summary, generate_summary
from refold.domain.chat.eviction import EvictedItem, Eviction
from refold.domain.chat.items import (
    AgentConfigUpdate,
    AgentHandoff,
    ChatContent,
    ChatItem,
    ChatMessage,
    EncodeOptions,
    FunctionCall,
    FunctionCallOutput,
    ImageContent,
    ResizeOptions,
)
from refold.domain.chat.pairing import Approval, PendingAnswer, PendingCall
from refold.domain.chat.roles import ChatRole
from refold.domain.chat.state.sequence import RunningTokens
from refold.domain.chat.summary_texts import SUMMARIZE_PROMPT, SummaryAnswer, render_context_as_text, render_items
from refold.domain.chat.tokens import CHARACTERS, SCRIPTS, TokenCounter, tiktoken_counter
from refold.domain.chat.window import ContextWindow
from refold.domain.llm.base import (
    LLM,
    EventEmitter,
    LLMAuthenticationError,
    LLMError,
    LLMRateLimitError,
    LLMRequestError,
    LLMResponse,
    LLMUnavailableError,
    ResponseChunk,
    TokenBudget,
    collect,
)
from refold.domain.llm.fallback import FallbackLLM
from refold.infrastructure.models.anthropic_llm import AnthropicLLM
from refold.infrastructure.models.google_llm import GoogleLLM
from refold.infrastructure.models.openai_llm import OpenAILLM


def to_openai_messages(ctx: ChatContext, *, reasoning_model: bool = False) -> list[dict[str, Any]]:
    """Return the messages of a context for OpenAI; `ctx.to_openai_messages` has more options."""
    return ctx.to_openai_messages(reasoning_model=reasoning_model)


def to_anthropic_messages(
    ctx: ChatContext, *, caching: bool = False
) -> tuple[list[dict[str, Any]], str | list[dict[str, Any]] | None]:
    """Return (messages, system) of a context for Anthropic; `ctx.to_anthropic_messages` has more options."""
    return ctx.to_anthropic_messages(caching=caching)


async def to_google_contents(
    ctx: ChatContext, *, thought_signatures: Mapping[str, str | bytes] | None = None
) -> tuple[list[Any], str | None]:
    """Return (contents, system instruction) of a context for Google; `ctx.to_google_contents` has more options."""
    return await ctx.to_google_contents(thought_signatures=thought_signatures)


__all__ = [
    "CHARACTERS",
    "LLM",
    "SCRIPTS",
    "SUMMARIZE_PROMPT",
    "AgentConfigUpdate",
    "AgentHandoff",
    "AnthropicLLM",
    "Approval",
    "ChatContent",
    "ChatContext",
    "ChatItem",
    "ChatMessage",
    "ChatRole",
    "ContextWindow",
    "EncodeOptions",
    "EventEmitter",
    "EvictedItem",
    "Eviction",
    "FallbackLLM",
    "FunctionCall",
    "FunctionCallOutput",
    "GoogleLLM",
    "ImageContent",
    "LLMAuthenticationError",
    "LLMError",
    "LLMRateLimitError",
    "LLMRequestError",
    "LLMResponse",
    "LLMUnavailableError",
    "OpenAILLM",
    "PendingAnswer",
    "PendingCall",
    "ReadOnlyChatContext",
    "ResizeOptions",
    "ResponseChunk",
    "RunningTokens",
    "SummaryAnswer",
    "TokenBudget",
    "TokenCounter",
    "ask_for_summary",
    "collect",
    "generate_summary",
    "render_context_as_text",
    "render_items",
    "tiktoken_counter",
    "to_anthropic_messages",
    "to_google_contents",
    "to_openai_messages",
]
