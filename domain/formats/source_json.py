"""JSON of a source: checks of values, what lies beside an item, and patches from a plain message to one that came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Check = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    return isinstance(value, str)


def is_maybe_text(value: Any) -> bool:
    """Return whether `value` is text or null."""
    return value is None or isinstance(value, str)


def has(value: Any, **checks: Check) -> bool:
    """Return whether `value` is an object that has all these fields, and each passes its check."""
    return isinstance(value, dict) and all(name in value and check(value[name]) for name, check in checks.items())


def where_given(value: dict[str, Any], **checks: Check) -> bool:
    """Return whether each of these fields is missing or passes its check."""
    return all(name not in value or check(value[name]) for name, check in checks.items())


def are_parts(value: Any, kinds: dict[str, Check]) -> bool:
    """Return whether `value` is a list of at least one part, each with a `type` in `kinds` that passes its check."""
    return isinstance(value, list) and bool(value) and all(_is_part(part, kinds) for part in value)


def _is_part(part: Any, kinds: dict[str, Check]) -> bool:
    kind = part.get("type") if isinstance(part, dict) else None
    return isinstance(kind, str) and kind in kinds and kinds[kind](part)


def with_parts(parts: list[Any], beside: dict[str, Any]) -> list[Any]:
    """Return parts with those between them for which items have no field: `parts` in `beside`, each with its index."""
    for index, part in beside.get("parts", ()):
        parts.insert(index, part)
    return parts


def listed_output(output: str, beside: dict[str, Any], kind: str) -> list[Any]:
    """Return the parts of an output that was a list: its texts, of this type, and those that are kept beside."""
    parts: list[Any] = []
    start = 0
    for length in beside["cuts"]:
        parts.append({"type": kind, "text": output[start : start + length]})
        start += length
    return with_parts(parts, beside)


def joined_output(parts: Sequence[dict[str, Any]], kinds: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the texts of an output that is a list, as one, and what is kept beside; `kinds` are the types of texts."""
    texts = [part["text"] for part in parts if part.get("type") in kinds]
    foreign = [[number, part] for number, part in enumerate(parts) if part.get("type") not in kinds]
    return "".join(texts), {"cuts": [len(text) for text in texts], **({"parts": foreign} if foreign else {})}


Patch = dict[str, Any]


def difference(plain: Any, wanted: Any) -> Patch:
    """
    Return the patch that turns `plain` into `wanted`; it is empty if they are equal.

    `plain` holds only texts, None, objects and lists, so Python's 1 == True does no harm.
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
    """Return whether two values are equal as JSON, where 1, 1.0 and true all differ."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        # A loop, since a generator costs as much as the comparison; most values are the same object in both.
        for key, value in one.items():
            if key not in other or not ((found := other[key]) is value or is_same(value, found)):
                return False
        return len(one) == len(other)
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
    """Return `plain` with `patch` applied; parts that the patch names and `plain` no longer has are ignored."""
    if not patch:
        return plain
    if "is" in patch:
        return patch["is"]
    inner: dict[str, Patch] = patch.get("in", {})
    if isinstance(plain, list):
        return [patched(value, inner.get(str(index), {})) for index, value in enumerate(plain)]
    if not isinstance(plain, dict):
        return plain
    dropped = patch.get("drop")
    kept = {key: value for key, value in plain.items() if key not in dropped} if dropped else plain.copy()
    for key in inner.keys() & kept.keys() if inner else ():
        kept[key] = patched(kept[key], inner[key])
    if "set" in patch:
        kept.update(patch["set"])
    return kept
