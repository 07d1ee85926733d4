"""The chat context: its events, its rules, its folded state and its public classes."""

from __future__ import annotations

from .context import ChatContext, ReadOnlyChatContext
from .eviction import Eviction
from .items import (
    AgentConfigUpdate,
    AgentHandoff,
    ChatContent,
    ChatItem,
    ChatMessage,
    ChatRole,
    EncodeOptions,
    FunctionCall,
    FunctionCallOutput,
    ImageContent,
    ResizeOptions,
)
from .state.sequence import RunningTokens
from .summarising import (
    SUMMARIZE_PROMPT,
    SummaryAnswer,
    ask_for_summary,
    generate_summary,
    render_context_as_text,
    render_items,
)
from .tokens import CHARACTERS, SCRIPTS, TokenCounter, tiktoken_counter
from .view import EvictedItem
from .window import ContextWindow

__all__ = [
    "CHARACTERS",
    "SCRIPTS",
    "SUMMARIZE_PROMPT",
    "AgentConfigUpdate",
    "AgentHandoff",
    "ChatContent",
    "ChatContext",
    "ChatItem",
    "ChatMessage",
    "ChatRole",
    "ContextWindow",
    "EncodeOptions",
    "EvictedItem",
    "Eviction",
    "FunctionCall",
    "FunctionCallOutput",
    "ImageContent",
    "ReadOnlyChatContext",
    "ResizeOptions",
    "RunningTokens",
    "SummaryAnswer",
    "TokenCounter",
    "ask_for_summary",
    "generate_summary",
    "render_context_as_text",
    "render_items",
    "tiktoken_counter",
]
