"""Asking models: the base of adapters, their answers and errors, and several of them behind one."""

from __future__ import annotations

from .base import (
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
from .fallback import FallbackLLM

__all__ = [
    "LLM",
    "EventEmitter",
    "FallbackLLM",
    "LLMAuthenticationError",
    "LLMError",
    "LLMRateLimitError",
    "LLMRequestError",
    "LLMResponse",
    "LLMUnavailableError",
    "ResponseChunk",
    "TokenBudget",
    "collect",
]
