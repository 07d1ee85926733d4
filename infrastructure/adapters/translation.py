"""
From the errors of the clients and of what carries their bytes to those of `refold.domain.llm.errors`.

All three clients give the HTTP status with their errors; what has none never arrived, or broke off.
"""

from __future__ import annotations

from json import JSONDecodeError
from typing import Any

from ...domain.llm.errors import (
    LLMAuthenticationError,
    LLMError,
    LLMRateLimitError,
    LLMRequestError,
    LLMUnavailableError,
)

# By name, since which of them is installed is the clients' business.
FOREIGN = {"aiohttp", "anthropic", "google", "httpcore", "httpcore2", "httpx", "httpx2", "openai"}
# Google says this of a wrong key, with status 400.
WRONG_KEY = "API_KEY_INVALID"


def translated(error: Exception, provider: str) -> LLMError | None:
    """Return what an error of a client means, or None where it is not the provider's."""
    foreign = type(error).__module__.split(".")[0] in FOREIGN
    if not foreign and not isinstance(error, OSError | JSONDecodeError):
        return None
    status, reason = _status(error), str(error) or type(error).__name__
    if status in (401, 403) or WRONG_KEY in reason:
        return LLMAuthenticationError(provider, reason, status=status)
    if status == 429:
        return LLMRateLimitError(provider, reason, status=status, retry_after_seconds=_retry_after(error))
    if status is not None and 400 <= status < 500 and status not in (408, 409):
        return LLMRequestError(provider, reason, status=status)
    return LLMUnavailableError(provider, reason, status=status)


def _status(error: Any) -> int | None:
    found = getattr(error, "status_code", None) or getattr(error, "code", None)
    # 200 is that of a stream which told of its error later.
    return found if isinstance(found, int) and found >= 400 else None


def _retry_after(error: Any) -> float | None:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    try:
        # It may also be a date, which nobody sends.
        return float(headers.get("retry-after", ""))
    except ValueError:
        return None
