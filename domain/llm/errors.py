"""
What can go wrong when a model is asked, grouped by what the caller can do about it.

    LLMError                   no answer, or not a whole one
    ├── LLMAuthenticationError the key is missing, wrong, or not allowed to do this: mend it
    ├── LLMRateLimitError      too much for now: wait `retry_after_seconds`, or ask another provider
    ├── LLMUnavailableError    unreachable, overloaded, or the answer broke off: try again, or another provider
    └── LLMRequestError        the provider refuses this request: change it
"""

from __future__ import annotations

from ..errors import RefoldError


class LLMError(RefoldError):
    """A provider gave no whole answer; `status` is that of HTTP where there was one."""

    advice = "look at its message"

    def __init__(self, provider: str, reason: str, *, status: int | None = None) -> None:
        self.provider, self.reason, self.status = provider, reason, status
        answered = f" answered {status}" if status else ""
        super().__init__(f"{provider}{answered}: {reason}; {self.advice}")


class LLMAuthenticationError(LLMError):
    """The key is missing, wrong, or may not do this."""

    advice = "check the API key and what it is allowed to do"


class LLMRateLimitError(LLMError):
    """Too many requests, or a quota is used up; `retry_after_seconds` is what the provider asks for, or None."""

    advice = "wait, or let a FallbackLLM ask another provider"

    def __init__(
        self, provider: str, reason: str, *, status: int | None = None, retry_after_seconds: float | None = None
    ) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(provider, reason, status=status)


class LLMUnavailableError(LLMError):
    """The provider cannot be reached, is overloaded, or broke off in the middle of an answer."""

    advice = "try again, or let a FallbackLLM ask another provider"


class LLMRequestError(LLMError):
    """The provider does not take this request: too long, an unknown model, a wrong parameter."""

    advice = "change the request"
