"""Tools as callers name them: by name, or by a function that carries its description."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def tool_names(tools: Iterable[Any]) -> frozenset[str]:
    """
    Return the names of tools: texts, and whatever has `_tool_info`, methods too (SPEC V4.4, V4.5); all else is
    ignored.
    """
    names = (tool if isinstance(tool, str) else _name_of(tool) for tool in tools)
    return frozenset(name for name in names if name is not None)


def _name_of(tool: Any) -> str | None:
    function = getattr(tool, "__func__", tool)
    name = getattr(getattr(function, "_tool_info", None), "name", None)
    return name if isinstance(name, str) else None
