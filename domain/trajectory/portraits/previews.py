"""
The beginning of what a data node stands for, so that a model sees what it is to describe (SPEC D10.4).

Files are read as far as is needed and never waited for; one that is not there, or is no text, has no preview.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Any

from ...canonical import canonical_json

NO_PREVIEW = "No preview available."
CONTENT_CHARACTERS = 600
FILE_LINES = 50
# The first row of a table says how its columns are called.
TABLE_LINES = 1 + 50
COLUMN_VALUES = 50
READ_BYTES_MAX = 64 * 1024
LINE_CHARACTERS_MAX = 500
PREVIEW_CHARACTERS_MAX = 6_000
# More signs that are none than one in so many: it is no text.
BROKEN_SIGNS = 10
REPLACEMENT = "\ufffd"


def preview_of(node_type: str, attributes: Mapping[str, Any]) -> str:
    """Return the beginning of a node's data, or `NO_PREVIEW`; nothing is raised, whatever the attributes are."""
    return clipped(_preview(node_type, attributes), PREVIEW_CHARACTERS_MAX) or NO_PREVIEW


def _preview(node_type: str, attributes: Mapping[str, Any]) -> str:
    match node_type:
        case "Knowledge":
            return _text(attributes.get("knowledge_content"))[:CONTENT_CHARACTERS]
        case "Script":
            content = _text(attributes.get("script_content"))[:CONTENT_CHARACTERS]
            return content and f"Language: {_text(attributes['script_type'])}\n{content}"
        case "Tool":
            parameters, returns = attributes.get("tool_params"), attributes.get("tool_returns")
            return f"Parameters: {json_text(parameters)}\nReturns: {json_text(returns)}"
        case "Column":
            values = attributes.get("values")
            return json_text(values[:COLUMN_VALUES] if isinstance(values, list) else values) if values else ""
        case "Table":
            return _first_lines(attributes.get("path"), TABLE_LINES)
        case "Skill":
            return _first_lines(_skill_file(attributes.get("path")), FILE_LINES)
        case _:
            return _first_lines(attributes.get("path"), FILE_LINES)


def json_text(value: Any) -> str:
    """Return a value as JSON for a model to read."""
    return canonical_json(value, what="a value").decode()


def clipped(text: str, characters_max: int) -> str:
    """Return the beginning of a text, with a mark where something is left out."""
    return text if len(text) <= characters_max else f"{text[:characters_max]} [...]"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text(value)


def _skill_file(path: Any) -> Any:
    """Return the file that tells what a skill is: the path itself, or the one in that folder."""
    inside = os.path.join(path, "SKILL.md") if isinstance(path, str) else None
    return inside if inside is not None and os.path.exists(inside) else path


def _first_lines(path: Any, count: int) -> str:
    """Return the first lines of a file; no text where there is no such file, or none in it."""
    lines = _beginning(path).splitlines()[:count] if isinstance(path, str) else []
    return "\n".join(clipped(line, LINE_CHARACTERS_MAX) for line in lines)


def _beginning(path: str) -> str:
    try:
        # A pipe would be waited for, and a device has no end.
        if not stat.S_ISREG(os.stat(path).st_mode):
            return ""
        with open(path, "rb") as file:
            data = file.read(READ_BYTES_MAX)
    except (OSError, ValueError):
        return ""
    text = data.decode("utf-8-sig", errors="replace")
    is_text = b"\0" not in data and text.count(REPLACEMENT) * BROKEN_SIGNS <= len(text)
    return text if is_text else ""
