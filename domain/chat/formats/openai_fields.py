"""
The fields of an OpenAI message, taken out with care: a wrong one is an error that says where it stands, what was
found and what was expected.
"""

from __future__ import annotations

from typing import Any

from ...errors import InvalidInputError

MESSAGE_ROLES = ("system", "developer", "user", "assistant")
OUTPUT_ROLES = ("tool", "function")
ROLES = MESSAGE_ROLES + OUTPUT_ROLES
KINDS = {
    dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number",
    type(None): "null",
}  # fmt: skip


def kind_of(value: Any) -> str:
    """Return what JSON calls the kind of a value."""
    return KINDS.get(type(value), type(value).__name__)


def as_plain_data(value: Any) -> Any:
    """Return an object of the openai package as plain data with the fields that were set, anything else as it is."""
    return value.model_dump(mode="json", exclude_unset=True) if hasattr(value, "model_dump") else value


class Fields:
    """An object of a message: `where` names the message, `path` the object within it."""

    def __init__(self, where: str, value: Any, path: str = "") -> None:
        self.where, self.path = where, path
        if not isinstance(value, dict):
            raise self.unexpected("", value, "an object")
        self.value: dict[str, Any] = value

    def unexpected(self, name: str, found: Any, expected: str) -> InvalidInputError:
        """Return the error for a field that holds something else than `expected`."""
        return self._error(name, f"found {kind_of(found)}", expected)

    def unexpected_value(self, name: str, found: Any, expected: str) -> InvalidInputError:
        """Return the error for a field whose value is none of those that are `expected`."""
        return self._error(name, f"found {found!r}", expected)

    def _error(self, name: str, fault: str, expected: str) -> InvalidInputError:
        path = f"{self.path}.{name}".strip(".").replace(".[", "[")
        field = f", field {path}" if path else ""
        return InvalidInputError(f"{self.where}{field}: {fault}, expected {expected}")

    def text(self, name: str) -> str:
        """Return a field that must be text."""
        if name not in self.value:
            raise self._error(name, "missing", "text")
        if not isinstance(self.value[name], str):
            raise self.unexpected(name, self.value[name], "text")
        return str(self.value[name])

    def role(self) -> str:
        """Return the role."""
        expected = "one of " + ", ".join(ROLES)
        if "role" not in self.value:
            raise self._error("role", "missing", expected)
        role = self.value["role"]
        if not isinstance(role, str):
            raise self.unexpected("role", role, expected)
        if role not in ROLES:
            raise self._error("role", f"{role!r} is no role", expected)
        return role

    def content(self) -> str | list[dict[str, Any]] | None:
        """Return the content: text, checked parts, or None where there is none."""
        content = self.value.get("content")
        if content is None or isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise self.unexpected("content", content, "text, a list of parts, or null")
        for index, part in enumerate(content):
            fields = Fields(self.where, part, f"content[{index}]")
            if part.get("type") == "text":
                fields.text("text")
        return content

    def calls(self) -> list[Fields]:
        """Return the entries of `tool_calls`."""
        calls = self.value.get("tool_calls")
        if calls is None:
            return []
        if not isinstance(calls, list):
            raise self.unexpected("tool_calls", calls, "a list")
        return [Fields(self.where, call, f"tool_calls[{index}]") for index, call in enumerate(calls)]

    def legacy_call(self) -> list[Fields]:
        """Return the `function_call` of old, if there is one."""
        call = self.value.get("function_call")
        return [] if call is None else [Fields(self.where, call, "function_call")]

    def named_arguments(self) -> tuple[str, str]:
        """Return the name and the arguments of a call, or the name and the input of a custom one."""
        if "function" not in self.value and isinstance(self.value.get("custom"), dict):
            custom = Fields(self.where, self.value["custom"], f"{self.path}.custom")
            return custom.text("name"), custom.text("input")
        if "function" not in self.value:
            raise self._error("function", "missing", "an object")
        function = Fields(self.where, self.value["function"], f"{self.path}.function")
        return function.text("name"), function.text("arguments")
