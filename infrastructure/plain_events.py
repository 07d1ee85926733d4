"""Events as plain data, for JSON that people and other programs read."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from ..domain.canonical import parse_json
from ..domain.spans import Ref, Span


def plain_fields(event: Any, stream: str = "") -> dict[str, Any]:
    """
    Return an event of `stream` as plain data, without the fields that have their default.

    Items are named by the stream and version that brought them: `versions` are ranges, both ends included.
    """
    pairs = ((name, getattr(event, name), default) for name, default in _fields(event.__class__))
    return {name: _plain(value, stream) for name, value, default in pairs if value != default}


@cache
def _fields(event_type: Any) -> tuple[tuple[str, Any], ...]:
    """Return the fields of a type of events, each with its default: to ask for them takes longer than all else."""
    return tuple((field.name, field.default) for field in msgspec.structs.fields(event_type))


def _plain(value: Any, stream: str) -> Any:
    if isinstance(value, Span):
        versions = [[run.start, run[-1]] for run in value.ranges()]
        return {"stream": value.stream or stream, "versions": versions}
    if isinstance(value, Ref):
        return {"stream": value.stream or stream, "version": value.version}
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        # An item within an event is one of several types.
        return {**({"type": str(tag)} if tag else {}), **plain_fields(value, stream)}
    if isinstance(value, bytes):
        # Bytes in events are open JSON in its canonical form.
        return parse_json(value)
    if isinstance(value, tuple | list):
        return [_plain(inner, stream) for inner in value]
    return value
