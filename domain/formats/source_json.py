"""JSON as a source gave it: checks of values, and patches from a sent message to the imported one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ..chat.events import ChatItemEvent, Image, MessageAdded, Origin

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


Patch = dict[str, Any]


def difference(plain: Any, wanted: Any) -> Patch:
    """
    Return the patch that makes `wanted` of `plain`; an empty one where they are equal.

    `plain` holds texts, None, objects and lists only, so that Python's 1 == True cannot mislead.
    """
    if plain == wanted:
        return {}
    if isinstance(plain, dict) and isinstance(wanted, dict):
        return _object_difference(plain, wanted)
    if isinstance(plain, list) and isinstance(wanted, list) and len(plain) == len(wanted):
        changes = {str(index): difference(*pair) for index, pair in enumerate(zip(plain, wanted, strict=True))}
        return {"in": {index: change for index, change in changes.items() if change}}
    return {"is": wanted}


def is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON, where 1, 1.0 and true are three things."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)


def _object_difference(plain: dict[str, Any], wanted: dict[str, Any]) -> Patch:
    changes = {key: difference(plain[key], wanted[key]) for key in plain if key in wanted}
    patch = {
        "set": {key: value for key, value in wanted.items() if key not in plain},
        "drop": [key for key in plain if key not in wanted],
        "in": {key: change for key, change in changes.items() if change},
    }
    return {kind: entries for kind, entries in patch.items() if entries}


def patched(plain: Any, patch: Patch) -> Any:
    """Return what `patch` makes of `plain`; what it names and `plain` no longer has is passed over."""
    if not patch:
        return plain
    if "is" in patch:
        return patch["is"]
    inner: dict[str, Patch] = patch.get("in", {})
    if isinstance(plain, list):
        return [patched(value, inner.get(str(index), {})) for index, value in enumerate(plain)]
    if not isinstance(plain, dict):
        return plain
    dropped = patch.get("drop", ())
    kept = {key: patched(value, inner.get(key, {})) for key, value in plain.items() if key not in dropped}
    return {**kept, **patch.get("set", {})}


def with_prefix(items: Iterable[ChatItemEvent], prefix: str) -> list[ChatItemEvent]:
    """
    Return the items with `prefix` in front of the last user message, as "{prefix}\\n\\nUser: {text}".

    Its text parts become one, joined by spaces, and its images stay behind it. Without a user message, or with an
    empty prefix, nothing changes. The result goes to any of the conversions in place of the items.
    """
    overlaid = list(items)
    for index in range(len(overlaid) - 1, -1, -1) if prefix else ():
        item = overlaid[index]
        if isinstance(item, MessageAdded) and item.role == "user":
            overlaid[index] = _prefixed(item, prefix)
            break
    return overlaid


def _prefixed(message: MessageAdded, prefix: str) -> MessageAdded:
    parts = (message.content,) if isinstance(message.content, str) else message.content
    text = " ".join(part for part in parts if isinstance(part, str))
    images = [part for part in parts if isinstance(part, Image)]
    content = f"{prefix}\n\nUser: {text}"
    # The patch of an imported message was made for its text as it was.
    origin = None if message.origin is None else Origin(starts=message.origin.starts)
    return msgspec.structs.replace(message, content=(content, *images) if images else content, origin=origin)
