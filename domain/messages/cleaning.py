"""
Messages that a model can be shown again: no system messages, and no call without its result or result without its
call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .reading import calls_of, field, is_blank, kind_of
from .records import AIMessage

CALL_KEYS = ("tool_calls", "function_call")
# Some providers repeat calls among the parts of the content.
CALL_PARTS = ("tool_use", "server_tool_use", "function_call", "tool_call")


class _Waiting:
    """An assistant message whose calls are being answered, and the answers so far, in the order they came."""

    def __init__(self, message: Any, ids: Iterable[str]) -> None:
        self.message = message
        self.results: list[Any] = []
        self._missing = Counter(ids)

    @property
    def is_answered(self) -> bool:
        return not self._missing

    def take(self, result: Any) -> None:
        """Keep a result that was waited for; another one, or the same again, is nobody's."""
        answered = str(field(result, "tool_call_id"))
        if answered in self._missing:
            self._missing -= Counter([answered])
            self.results.append(result)


def clean_messages(messages: Iterable[Any]) -> list[Any]:
    """
    Return the messages that can be replayed, the very objects that were given, in their order.

    System messages are left out. An assistant message with calls is kept as it is if a result of every call follows
    before anybody else speaks. Else its calls and their results are left out, and a copy with its text alone stays if
    it has any. Calls without an id wait for nothing.
    """
    kept: list[Any] = []
    waiting: _Waiting | None = None
    for message in messages:
        kind = kind_of(message)
        if kind == "system":
            continue
        if kind == "tool":
            if waiting is not None:
                waiting.take(message)
            continue
        kept += _settled(waiting)
        ids = _ids_called(message) if kind == "assistant" else []
        waiting = _Waiting(message, ids) if ids else None
        if waiting is None:
            kept.append(message)
    return kept + _settled(waiting)


def _settled(waiting: _Waiting | None) -> list[Any]:
    if waiting is None:
        return []
    if waiting.is_answered:
        return [waiting.message, *waiting.results]
    text = _without_calls(field(waiting.message, "content"))
    return [_said_only(waiting.message, text)] if text else []


def _ids_called(message: Any) -> list[str]:
    ids = [field(call, "id") for call in calls_of(message)]
    return [str(call_id) for call_id in ids if not is_blank(call_id)]


def _without_calls(content: Any) -> Any:
    """Return content without the calls among its parts; nothing where only blank texts are left."""
    if isinstance(content, str):
        return content if content.strip() else ""
    given = content if isinstance(content, Sequence) else ()
    parts = [part for part in given if field(part, "type") not in CALL_PARTS]
    return parts if any(map(_says_something, parts)) else []


def _says_something(part: Any) -> bool:
    text = part if isinstance(part, str) else field(part, "text")
    return bool(text.strip()) if isinstance(text, str) else True


def _said_only(message: Any, content: Any) -> Any:
    """Return a message with this content and no calls, of the same make where that is possible."""
    extra = field(message, "additional_kwargs") or {}
    change: dict[str, Any] = {
        "content": content,
        "tool_calls": [],
        "invalid_tool_calls": [],
        "additional_kwargs": {key: value for key, value in extra.items() if key not in CALL_KEYS},
    }
    if isinstance(message, Mapping):
        return {**message, **{key: value for key, value in change.items() if key in message}}
    if hasattr(message, "model_copy"):
        return message.model_copy(update=change)
    own = {key: field(message, key) for key in ("name", "response_metadata", "id")}
    return AIMessage(**change, **{key: value for key, value in own.items() if value is not None})
