"""Messages and their records (SPEC D12.1 to D12.5)."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from refold.domain.canonical import canonical_json
from refold.domain.errors import DecisionRefusedError, InvalidInputError
from refold.domain.messages import (
    AIMessage,
    HumanMessage,
    Message,
    SystemMessage,
    ToolMessage,
    kind_of,
    message_from_dict,
    message_of,
    message_to_dict,
)
from refold.domain.trajectory.describe import describe
from refold.domain.trajectory.events import MessageRecorded

CALL = {"name": "f", "args": {"x": 1}, "id": "1", "type": "tool_call"}


@pytest.mark.parametrize(
    ("message", "record"),
    [
        (
            HumanMessage("h", name="n"),
            {"type": "HumanMessage", "content": "h", "name": "n", "additional_kwargs": {}, "response_metadata": {}},
        ),
        (
            AIMessage("a", tool_calls=[CALL]),
            {"type": "AIMessage", "content": "a", "name": "", "additional_kwargs": {}, "response_metadata": {},
             "tool_calls": [CALL], "invalid_tool_calls": []},
        ),
        (
            ToolMessage("r", name="f", tool_call_id="1"),
            {"type": "ToolMessage", "content": "r", "name": "f", "additional_kwargs": {}, "response_metadata": {},
             "tool_call_id": "1"},
        ),
        (
            SystemMessage(["s"]),
            {"type": "SystemMessage", "content": ["s"], "name": "", "additional_kwargs": {}, "response_metadata": {}},
        ),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_records(message: Message, record: dict[str, Any]) -> None:
    """D12.1, D12.2: a message is written as its record, and read from it; D12.3, repaired: system messages too."""
    assert list(message.to_dict().items()) == list(record.items())
    assert message_from_dict(record) == message
    assert type(message_from_dict(record)) is type(message)


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("h", id="m1", name="mia"),
        AIMessage("a", id="m2", response_metadata={"model": "x"}, invalid_tool_calls=[{"name": "f", "error": "e"}]),
        ToolMessage("r", tool_call_id="1", status="error", additional_kwargs={"a": [1]}),
    ],
)
def test_nothing_is_lost(message: Message) -> None:
    """D12.4, repaired: id, name, the status of a result and its further fields come back."""
    assert message_from_dict(message.to_dict()) == message


@pytest.mark.parametrize(
    "record",
    [
        {"type": "Unknown", "content": "x"},
        {"content": "x"},
        {"type": "ToolMessage", "content": "x"},
        {"type": "ToolMessage", "content": "x", "tool_call_id": " "},
        "text",
        None,
    ],
)
def test_what_is_skipped(record: Any) -> None:
    """D12.3: unknown types and a tool's message without an id."""
    assert message_from_dict(record) is None


def test_messages_are_frozen() -> None:
    """A message owns what it was made of, and does not change."""
    calls = [{"name": "f", "args": {"x": [1]}}]
    message = AIMessage("a", tool_calls=calls)
    calls[0]["args"]["x"].append(2)  # type: ignore[index]

    assert message.tool_calls == [{"name": "f", "args": {"x": [1]}}]
    with pytest.raises(DecisionRefusedError):
        message.tool_calls[0]["args"].clear()
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.content = ""  # type: ignore[misc]


def test_a_record_is_a_copy() -> None:
    """What is written can be changed freely."""
    message = HumanMessage([{"type": "text", "text": "t"}])

    message.to_dict()["content"][0]["text"] = "other"

    assert message.content == [{"type": "text", "text": "t"}]


def test_messages_of_any_make() -> None:
    """D12.14: what has the fields of a message is one; calls may lie in `additional_kwargs` (D12.5)."""
    like = SimpleNamespace(type="ai", content=None, additional_kwargs={"tool_calls": [CALL]}, id="m")

    assert message_of(like) == AIMessage("", additional_kwargs={"tool_calls": [CALL]}, tool_calls=[CALL], id="m")
    assert message_to_dict({"role": "user", "content": "h"})["type"] == "HumanMessage"


@pytest.mark.parametrize("value", [7, "text", {"type": "Unknown"}, {"type": 7}])
def test_what_is_no_message(value: Any) -> None:
    """It is refused by name."""
    with pytest.raises(InvalidInputError, match=f"a {type(value).__name__} is no message: give a HumanMessage"):
        message_of(value)


def test_objects_are_known_by_their_classes_first() -> None:
    """A class of the name says whose it is without any field, a base class too; else `type` or `role` says it."""
    named = type("HumanMessage", (), {})()
    derived = type("Chunk", (type("AIMessage", (), {}),), {"type": "human"})()

    assert (kind_of(named), kind_of(derived)) == ("user", "assistant")
    assert (kind_of(SimpleNamespace(type="tool")), kind_of(SimpleNamespace(role="system"))) == ("tool", "system")
    assert (kind_of({"type": "ai"}), kind_of({"role": "user"}), kind_of({"type": 1})) == ("assistant", "user", None)
    assert kind_of(object()) is None


@pytest.mark.parametrize(
    "record",
    [{}, {"content": 0}, {"role": "assistant", "tool_calls": 7, "invalid_tool_calls": {"a": 1}},
     {"type": "ai", "tool_calls": [7], "additional_kwargs": "x"}, {"additional_kwargs": {"tool_calls": "x"}}],
)  # fmt: skip
def test_a_recorded_object_that_is_no_message(record: dict[str, Any]) -> None:
    """A log takes any object, and a line about it ends no list of events."""
    said = describe(MessageRecorded(record=canonical_json(record, what="it"))).words(repr)

    assert said.startswith("assistant: " if "type" in record or "role" in record else "None: ")
