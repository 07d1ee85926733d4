"""Small questions about JSON values, of which the rules of formats are made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Check = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    """Return whether `value` is text."""
    return isinstance(value, str)


def is_maybe_text(value: Any) -> bool:
    """Return whether `value` is text or null."""
    return value is None or isinstance(value, str)


def has(value: Any, **checks: Check) -> bool:
    """Return whether `value` is an object with all these fields, each as its check wants it."""
    return isinstance(value, dict) and all(name in value and check(value[name]) for name, check in checks.items())


def where_given(value: dict[str, Any], **checks: Check) -> bool:
    """Return whether those of these fields that an object has are as their checks want them."""
    return all(name not in value or check(value[name]) for name, check in checks.items())


def are_parts(value: Any, kinds: dict[str, Check]) -> bool:
    """Return whether `value` is a list of one part or more, each of a `type` that is among `kinds`, and sound."""
    return isinstance(value, list) and bool(value) and all(_is_part(part, kinds) for part in value)


def _is_part(part: Any, kinds: dict[str, Check]) -> bool:
    kind = part.get("type") if isinstance(part, dict) else None
    return isinstance(kind, str) and kind in kinds and kinds[kind](part)
