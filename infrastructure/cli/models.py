"""
`openai:NAME` and the like: from what was typed to a model that can be asked.

Keys come from the environment alone: what is typed ends up in histories and lists of processes.
"""

from __future__ import annotations

import click

from ...domain.errors import DecisionRefusedError
from ...domain.llm.base import LLM
from ...domain.llm.errors import LLMAuthenticationError
from .options import checked_text

KEYS = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "google": "GOOGLE_API_KEY or GEMINI_API_KEY",
}


def model_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Check an option that is a provider and the name of one of its models."""
    if value is None:
        return None
    provider, colon, name = checked_text(value).partition(":")
    if provider not in KEYS or not colon or not name:
        raise click.BadParameter(f"{value!r} should be one of {', '.join(f'{known}:NAME' for known in KEYS)}")
    return value


def model_of(text: str) -> LLM:
    """
    Return the model that `provider:NAME` means; its key lies in the environment.

    Raises:
        DecisionRefusedError: there is no key, or the provider's package is not installed.
    """
    from ..models import AnthropicLLM, GoogleLLM, OpenAILLM

    provider, _, name = text.partition(":")
    adapters: dict[str, type[OpenAILLM | AnthropicLLM | GoogleLLM]] = {
        "openai": OpenAILLM,
        "anthropic": AnthropicLLM,
        "google": GoogleLLM,
    }
    try:
        return adapters[provider](name)
    except LLMAuthenticationError as error:
        raise DecisionRefusedError(f"{text} cannot be asked without a key: set {KEYS[provider]}") from error
    except ImportError as error:
        raise DecisionRefusedError(f"{text} cannot be asked: {error}") from error
