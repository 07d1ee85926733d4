"""What a model is told about tools, in whichever form they come (SPEC V4.5)."""

from types import SimpleNamespace
from typing import Any

import pytest

from refold.domain.errors import InvalidInputError
from refold.domain.llm.tools import ToolSchema, tool_schemas

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
INNER = {"name": "look_up", "description": "Find an order."}


def look_up(id: int, city: str = "Rome") -> str:
    """Find an order."""
    return f"{id} {city}"


@pytest.mark.parametrize(
    "tool",
    [
        {**INNER, "parameters": SCHEMA},
        {**INNER, "input_schema": SCHEMA},
        {"type": "function", "function": {**INNER, "parameters": SCHEMA}},
        {"type": "function", **INNER, "parameters": SCHEMA},
    ],
)
def test_dicts(tool: dict[str, Any]) -> None:
    """A plain schema, and the forms of OpenAI and Anthropic."""
    assert tool_schemas([tool]) == [ToolSchema("look_up", "Find an order.", SCHEMA)]


def test_what_is_left_out() -> None:
    """No description is an empty one, no parameters are none."""
    assert tool_schemas([{"name": "now"}]) == [ToolSchema("now", "", {"type": "object", "properties": {}})]
    assert tool_schemas(None) == tool_schemas([]) == []


def test_functions() -> None:
    """The info says it; where it has no schema, the signature does."""

    def tool(id: int) -> None:
        """Do."""

    tool._tool_info = SimpleNamespace(name="n", description="d", parameters_schema=SCHEMA)  # type: ignore[attr-defined]
    assert tool_schemas([tool]) == [ToolSchema("n", "d", SCHEMA)]

    tool._tool_info = SimpleNamespace(name="n")  # type: ignore[attr-defined]
    (found,) = tool_schemas([tool])
    assert (found.name, found.description, found.parameters["required"]) == ("n", "", ["id"])
    assert found.parameters["properties"]["id"]["type"] == "integer"


def test_methods() -> None:
    """The info of a method lies on its function; `self` is not a parameter."""

    class Desk:
        """Has a tool."""

        def find(self, id: int) -> None:
            """Find."""

        find._tool_info = SimpleNamespace(name="find", description="d")  # type: ignore[attr-defined]

    (found,) = tool_schemas([Desk().find])

    assert list(found.parameters["properties"]) == ["id"]


@pytest.mark.parametrize("tool", [look_up, "look_up", {"type": "web_search", "name": "w"}, {"function": 1}, {}])
def test_other_forms_are_refused(tool: Any) -> None:
    """The error shows it and says what would do."""
    with pytest.raises(InvalidInputError, match="_tool_info"):
        tool_schemas([tool])


def test_a_signature_that_cannot_be_told() -> None:
    """The error says what to do about it."""

    def tool(one: object, two: SimpleNamespace) -> None:
        """Do."""

    tool._tool_info = SimpleNamespace(name="n")  # type: ignore[attr-defined]

    with pytest.raises(InvalidInputError, match="parameters_schema"):
        tool_schemas([tool])
