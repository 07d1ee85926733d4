"""
Redaction: secrets are hidden in texts before they are shown, written to a log line, exported or sent to a model.

A hook takes a text and returns what may leave. There is one for the process, and a store may have its own; `Redactor`
in `detectors.py` is one. Nothing of this changes what is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .errors import InvalidInputError

Redact = Callable[[str], str]


class _Process:
    """The hook of this process, for all its threads."""

    hook: Redact | None = None


def hide_by(hook: Redact | None) -> None:
    """Set the hook of this process; None ends it."""
    _Process.hook = hook


def redacted(value: Any, *own: Redact | None) -> Any:
    """
    Return plain data with its texts as they may be shown: each goes through the hooks in `own`, such as that of a
    store, and then through the hook of the process.

    Keys that are identifiers are names of fields, and stay. Other keys are texts like any other.
    """
    hooks = [hook for hook in (*own, _Process.hook) if hook is not None]
    return _mapped(value, hooks) if hooks else value


def redacted_text(text: str) -> str:
    """Return a text as it may be shown by this process."""
    return text if _Process.hook is None else _hooked(text, [_Process.hook])


def _mapped(value: Any, hooks: list[Redact]) -> Any:
    if isinstance(value, str):
        return _hooked(value, hooks)
    if isinstance(value, Mapping):
        return {_key(name, hooks): _mapped(one, hooks) for name, one in value.items()}
    if isinstance(value, list | tuple):
        mapped = [_mapped(one, hooks) for one in value]
        return tuple(mapped) if type(value) is tuple else mapped
    return value


def _key(name: Any, hooks: list[Redact]) -> Any:
    return name if not isinstance(name, str) or name.isidentifier() else _hooked(name, hooks)


def _hooked(text: str, hooks: list[Redact]) -> str:
    for hook in hooks:
        text = hook(text)
        if not isinstance(text, str):
            raise InvalidInputError(f"the hook returned {type(text).__name__}: return the text that may be shown")
    return text
