"""What is no OpenAI message is refused with its place: which message, which field, found and expected."""

from typing import Any

import pytest

from refold.domain.errors import InvalidInputError
from tests.importing.shapes import answered, asked, call, said, shaped

ROLES = "expected one of system, developer, user, assistant, tool, function"


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("hello", "found text, expected an object"),
        (None, "found null, expected an object"),
        ({"content": "hello"}, f"role: missing, {ROLES}"),
        (said("robot"), f"role: 'robot' is no role, {ROLES}"),
        (said(7), f"role: found a number, {ROLES}"),  # type: ignore[arg-type]
        (said("user", 7), "content: found a number, expected text, a list of parts, or null"),
        (said("user", {"a": 1}), "content: found an object, expected text, a list of parts, or null"),
        (said("user", ["hello"]), "content[0]: found text, expected an object"),
        (said("user", [{}, {"type": "text"}]), "content[1].text: missing, expected text"),
        (answered("a", [{"type": "text", "text": 1}]), "content[0].text: found a number, expected text"),
        (said("assistant", tool_calls={}), "tool_calls: found an object, expected a list"),
        (said("assistant", tool_calls=[True]), "tool_calls[0]: found true or false, expected an object"),
        (asked({**call("a"), "id": None}), "tool_calls[0].id: found null, expected text"),
        (asked(call("a"), {"id": "b"}), "tool_calls[1].function: missing, expected an object"),
        (asked({"id": "a", "function": []}), "tool_calls[0].function: found a list, expected an object"),
        (
            asked(call("a", arguments={"id": 7})),  # type: ignore[arg-type]
            "tool_calls[0].function.arguments: found an object, expected text",
        ),
        (
            asked({"id": "a", "function": {"arguments": ""}}),
            "tool_calls[0].function.name: missing, expected text",
        ),
        (asked({"id": "a", "custom": {"name": "x"}}), "tool_calls[0].custom.input: missing, expected text"),
        (said("assistant", function_call="x"), "function_call: found text, expected an object"),
        (said("assistant", function_call={"name": "x"}), "function_call.arguments: missing, expected text"),
        ({"role": "tool", "content": "found"}, "tool_call_id: missing, expected text"),
        (answered(7), "tool_call_id: found a number, expected text"),  # type: ignore[arg-type]
        ({"role": "function", "content": "found"}, "name: missing, expected text"),
    ],
)
def test_a_wrong_field_is_named(message: Any, fault: str) -> None:
    """The error says where it is, what stands there, and what should."""
    with pytest.raises(InvalidInputError) as caught:
        shaped(said("user"), message)

    found = str(caught.value)
    assert found in (f"messages[1]: {fault}", f"messages[1].{fault}")


def test_a_number_that_json_has_not_is_refused() -> None:
    """What cannot be written as JSON cannot be kept."""
    with pytest.raises(InvalidInputError, match=r"messages\[0\] cannot be stored as JSON"):
        shaped(said("user", logprob=float("inf")))
