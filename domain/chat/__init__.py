"""The chat context: its events, its rules, its folded state and its public classes."""

from __future__ import annotations

from .context import ChatContext
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
from .past import ReadOnlyChatContext

__all__ = [
    "AgentConfigUpdate",
    "AgentHandoff",
    "ChatContent",
    "ChatContext",
    "ChatItem",
    "ChatMessage",
    "ChatRole",
    "EncodeOptions",
    "FunctionCall",
    "FunctionCallOutput",
    "ImageContent",
    "ReadOnlyChatContext",
    "ResizeOptions",
]
