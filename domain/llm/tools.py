"""The description of a tool for a model, from any of the known forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from ..errors import InvalidInputError

FORMS = "a function with _tool_info, or a dict with name, description and parameters (a JSON schema)"
NO_PARAMETERS = {"type": "object", "properties": {}}


class ToolSchema(msgspec.Struct, frozen=True):
    """A tool's name, its purpose, and its parameters as a JSON schema."""

    name: str
    description: str
    parameters: Mapping[str, Any]


def tool_schemas(tools: Sequence[Any] | None) -> list[ToolSchema]:
    """
    Return the descriptions of tools for a model; tools are functions with `_tool_info`, or schemas as dicts.

    Dicts may have OpenAI's form, `{"type": "function", "function": {...}}`, or Anthropic's `input_schema`.

    Raises:
        InvalidInputError: a tool of another form.
    """
    return [_of_dict(tool) if isinstance(tool, Mapping) else _of_function(tool) for tool in tools or ()]


def names_sent(tools: Sequence[ToolSchema], function_name: Callable[[str], str]) -> dict[str, str]:
    """
    Return the names of tools by the names under which they are sent, which `function_name` gives.

    Raises:
        InvalidInputError: two tools would be sent under one name.
    """
    names: dict[str, str] = {}
    for tool in tools:
        other = names.setdefault(function_name(tool.name), tool.name)
        if other != tool.name:
            sent = function_name(tool.name)
            raise InvalidInputError(f"the tools {other!r} and {tool.name!r} would both be sent as {sent!r}: rename one")
    return names


def _of_dict(tool: Mapping[str, Any]) -> ToolSchema:
    inner = tool.get("function", tool)
    is_function = tool.get("type") in (None, "function", "custom")
    if not is_function or not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise InvalidInputError(f"{dict(tool)!r} is not a tool: pass {FORMS}")
    parameters = inner.get("parameters") or inner.get("input_schema") or NO_PARAMETERS
    return ToolSchema(inner["name"], inner.get("description") or "", parameters)


def _of_function(tool: Any) -> ToolSchema:
    # The info of a method is an attribute of its function.
    info = getattr(getattr(tool, "__func__", tool), "_tool_info", None)
    if info is None:
        raise InvalidInputError(f"{tool!r} is not a tool: pass {FORMS}")
    parameters = getattr(info, "parameters_schema", None)
    description = getattr(info, "description", None) or ""
    return ToolSchema(info.name, description, _signature_schema(tool) if parameters is None else parameters)


def _signature_schema(function: Any) -> Mapping[str, Any]:
    try:
        return TypeAdapter[Any](function).json_schema()
    except (PydanticUserError, NameError, TypeError) as error:
        raise InvalidInputError(
            f"the parameters of {function!r} cannot be described to a model: annotate them with plain types, "
            "or give its _tool_info a parameters_schema"
        ) from error
