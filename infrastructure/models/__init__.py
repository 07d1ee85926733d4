"""Ready-made models over the official clients; each needs its extra, and imports it only when one is made."""

from __future__ import annotations

from .anthropic_llm import AnthropicLLM
from .google_llm import GoogleLLM
from .openai_llm import OpenAILLM

__all__ = ["AnthropicLLM", "GoogleLLM", "OpenAILLM"]
