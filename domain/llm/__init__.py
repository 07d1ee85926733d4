"""Asking models: the base of adapters, their answers and errors, and several of them behind one."""

from __future__ import annotations

from .base import LLM, EventEmitter
from .errors import LLMAuthenticationError, LLMError, LLMRateLimitError, LLMRequestError, LLMUnavailableError
from .fallback import FallbackLLM
from .responses import LLMResponse, ResponseChunk, TokenBudget, collect

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
