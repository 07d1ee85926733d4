"""Lone surrogates: halves of a character that JSON can write and Unicode text cannot hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

LONE = re.compile("[\ud800-\udfff]")
REPLACEMENT = "\ufffd"


class Surrogate(NamedTuple):
    """Where one was found: the path of the field, and the index in its text."""

    path: str
    offset: int
    code: int


def first_surrogate(value: Any) -> Surrogate | None:
    """Return the first lone surrogate in a JSON value, keys included."""
    return next(_surrogates(value, ""), None)


def _surrogates(value: Any, path: str) -> Iterator[Surrogate]:
    if isinstance(value, str):
        found = LONE.search(value)
        if found:
            yield Surrogate(path, found.start(), ord(found.group()))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _surrogates(inner, f"{path}[{index}]")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _surrogates(key, f"{path}.(a key)".strip("."))
            yield from _surrogates(inner, f"{path}.{key}".strip("."))


def replace_surrogates(value: Any) -> Any:
    """Return a JSON value with U+FFFD in place of every lone surrogate."""
    if isinstance(value, str):
        return LONE.sub(REPLACEMENT, value)
    if isinstance(value, list):
        return [replace_surrogates(inner) for inner in value]
    if isinstance(value, dict):
        return {replace_surrogates(key): replace_surrogates(inner) for key, inner in value.items()}
    return value
