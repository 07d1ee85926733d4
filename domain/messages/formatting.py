"""Messages as a compact text for a model to read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from .cleaning import CALL_PARTS
from .reading import Kind, calls_of, field, invalid_calls_of, kind_of

HEADING = "=== CURRENT CONTEXT ===\n"
SEPARATOR = "\n\n---\n\n"
NOTHING = "None"
# Within parts that are not text: a picture's data would drown what is said.
VALUE_CHARACTERS_MAX = 200
VALUE_CHARACTERS_SHOWN = 40


def build_current_context(messages: Iterable[Any]) -> str:
    """
    Return messages as blocks of text under a heading, "None" for none at all.

    The first message, the user's query, is left out, whatever it is. Of calls only names and arguments are shown.
    """
    given = list(messages)
    if not given:
        return NOTHING
    return HEADING + SEPARATOR.join(map(_block, given[1:]))


def _block(message: Any) -> str:
    kind = kind_of(message)
    if kind is not None:
        return _BLOCKS[kind](message)
    if hasattr(message, "content"):
        return f"[{type(message).__name__}]\n{_text(message.content)}"
    return str(message)


def _system(message: Any) -> str:
    return f"[System]\n{_text(field(message, 'content'))}"


def _user(message: Any) -> str:
    return f"[User]\n{_text(field(message, 'content'))}"


def _tool(message: Any) -> str:
    # The blank before the line's end is the seed's.
    return f"<results>\n[Tool:{field(message, 'name') or 'tool'}]\n{_text(field(message, 'content'))} \n</results>"


def _assistant(message: Any) -> str:
    text = _text(field(message, "content"))
    lines = [f"[Assistant]\n{text}"] if text.strip() else []
    if calls := calls_of(message):
        lines.append(f"[Assistant:tool_calls]\n{_json([_compact_call(call) for call in calls])}")
    if invalid := invalid_calls_of(message):
        lines.append(f"[Assistant:invalid_tool_calls]\n{_json([_compact_invalid(call) for call in invalid])}")
    return "\n".join(lines) or "[Assistant]\n(Empty)"


_BLOCKS: dict[Kind, Callable[[Any], str]] = {
    "system": _system,
    "user": _user,
    "tool": _tool,
    "assistant": _assistant,
}


def _compact_call(call: Any) -> dict[str, Any]:
    # In `additional_kwargs` a call lies one level deeper, under `function`.
    said = field(call, "function") or call
    args = field(said, "args")
    return {"name": field(said, "name"), "args": field(said, "arguments") if args is None else args}


def _compact_invalid(call: Any) -> dict[str, Any]:
    return {"name": field(call, "name"), "error": field(call, "error")}


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _text(content: Any) -> str:
    """Return content as text: of a list, texts as they are and other parts as JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        return str(content)
    return "\n".join(_part(part) for part in content if field(part, "type") not in CALL_PARTS)


def _part(part: Any) -> str:
    text = part if isinstance(part, str) else field(part, "text")
    return text if isinstance(text, str) else _json(_shortened(part))


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > VALUE_CHARACTERS_MAX:
        return f"{value[:VALUE_CHARACTERS_SHOWN]}... ({len(value):,} characters)"
    if isinstance(value, dict):
        return {key: _shortened(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(inner) for inner in value]
    return value
