"""
A context in the form of a provider: what would be sent.

`openai` and `anthropic` have two forms: as it was recorded, so that an import comes out as it came in, and as it would
be sent. A context that was not imported from Anthropic messages has the second of these alone. The others repair what
must be repaired.
"""

from __future__ import annotations

from typing import Any

from ...domain.chat.calls.past import ReadOnlyChatContext
from .shapes import print_json, print_json_list

PROVIDERS = ("openai", "openai-responses", "anthropic", "google")
# Those that an import comes out of as it came in.
EXACT = ("openai", "anthropic")


def print_for(provider: str, view: ReadOnlyChatContext, *, is_exact: bool, tail: int | None) -> None:
    """Print a view as one of PROVIDERS takes it: OpenAI messages as an array, the others as the fields of a request."""
    if provider == "openai":
        messages = view.to_openai_messages(exact=is_exact)
        print_json_list(messages[-tail:] if tail else messages)
    else:
        print_json(_request(provider, view, is_exact=is_exact))


def _request(provider: str, view: ReadOnlyChatContext, *, is_exact: bool) -> dict[str, Any]:
    if provider == "openai-responses":
        given, instructions = view.to_openai_responses()
        return _with("instructions", instructions, {"input": given})
    if provider == "anthropic":
        messages, system = view.to_anthropic_messages(exact=is_exact)
        return _with("system", system, {"messages": messages})
    contents, system_instruction = view.to_google_json()
    return _with("system_instruction", system_instruction, {"contents": contents})


def _with(name: str, instructions: Any, conversation: dict[str, Any]) -> dict[str, Any]:
    """A field that is null is refused by the providers: without instructions it is left out."""
    return conversation if instructions is None else {name: instructions, **conversation}
