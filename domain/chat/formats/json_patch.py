"""
What one JSON value has beyond another: a small patch, and nothing that is equal in both.

A patch is JSON too: `{"set": {key: value}, "drop": [key], "in": {key or index: patch}}` for objects and lists
of one length, `{"is": value}` for everything else.
"""

from __future__ import annotations

from typing import Any

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
