"""Which recorded messages and items are sent again as they are: those that the API would take."""

from typing import Any

import pytest

from refold.domain.formats.openai.send import is_image_address, is_sound, unique_call_ids
from refold.domain.formats.responses.source_shape import is_sound_item

TEXT = {"type": "text", "text": "Hello."}
CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CUSTOM = {"id": "c", "type": "custom", "custom": {"name": "look", "input": "here"}}


def image(url: Any, **more: Any) -> dict[str, Any]:
    """Return a part of a message of a user."""
    return {"type": "image_url", "image_url": {"url": url, **more}}


def user(*parts: Any, **more: Any) -> dict[str, Any]:
    """Return a message of a user."""
    return {"role": "user", "content": list(parts), **more}


def answer(content: Any = None, **more: Any) -> dict[str, Any]:
    """Return a message of a model."""
    return {"role": "assistant", "content": content, **more}


SOUND: list[dict[str, Any]] = [
    {"role": "system", "content": "Be short."},
    {"role": "developer", "content": [TEXT], "name": "kim"},
    {"role": "user", "content": "Hello."},
    user(TEXT, TEXT, name="kim"),
    user(image("https://host/a.png")),
    user(image("data:image/png;base64,AA", detail="low")),
    user({"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}),
    user({"type": "input_audio", "input_audio": {"data": "AA==", "format": "mp3"}}),
    user({"type": "file", "file": {"file_id": "f"}}),
    user({"type": "file", "file": {"file_data": "AA==", "filename": "a.pdf"}}),
    user({"type": "file", "file": {}}),
    answer("Hello."),
    answer([TEXT, {"type": "refusal", "refusal": "No."}]),
    answer(refusal="No."),
    answer(audio={"id": "a"}),
    answer("Hello.", audio=None, function_call=None, refusal=None),
    answer(tool_calls=[CALL, CUSTOM]),
    answer(function_call={"name": "look", "arguments": "{}"}),
    {"role": "tool", "tool_call_id": "c", "content": "out"},
    {"role": "tool", "tool_call_id": "c", "content": [TEXT]},
    {"role": "function", "name": "look", "content": "out"},
    {"role": "function", "name": "look", "content": None},
]
UNSOUND: list[dict[str, Any]] = [
    {"content": "Hello."},
    {"role": "model", "content": "Hello."},
    {"role": "system"},
    {"role": "system", "content": None},
    {"role": "system", "content": [image("https://host/a.png")]},
    {"role": "system", "content": "Be short.", "name": "a name"},
    {"role": "user", "content": "Hello.", "name": ""},
    {"role": "user", "content": "Hello.", "name": "n" * 65},
    user(),
    user("Hello."),
    user({"type": "text"}),
    user({"type": "text", "text": 7}),
    user({"type": "refusal", "refusal": "No."}),
    user({"text": "Hello."}),
    user(image("")),
    user(image(7)),
    user(image("data:;base64,AA")),
    user(image("DATA:image/png;base64,")),
    user(image("https://host/a.png", detail="most")),
    user({"type": "image_url", "image_url": "https://host/a.png"}),
    user({"type": "input_audio", "input_audio": {"data": "AA==", "format": "ogg"}}),
    user({"type": "input_audio", "input_audio": {"data": 7, "format": "wav"}}),
    user({"type": "input_audio", "input_audio": {"data": "AA=="}}),
    user({"type": "input_audio"}),
    user({"type": "file"}),
    user({"type": "file", "file": {"file_id": 7}}),
    user({"type": "file", "file": {"file_data": 7}}),
    user({"type": "file", "file": {"filename": 7}}),
    answer(),
    answer([]),
    answer([image("https://host/a.png")]),
    answer(refusal=""),
    answer(refusal=7),
    answer("Hello.", audio={}),
    answer("Hello.", tool_calls=[]),
    answer("Hello.", tool_calls=None),
    answer(tool_calls=[CALL], function_call={"name": "look", "arguments": "{}"}),
    answer(function_call={"name": "look"}),
    answer(function_call={"name": "look up", "arguments": "{}"}),
    answer(tool_calls=[CALL | {"id": 7}]),
    answer(tool_calls=[CALL | {"type": "other"}]),
    answer(tool_calls=[CALL | {"function": {"name": "n" * 65, "arguments": "{}"}}]),
    answer(tool_calls=[CALL | {"function": {"name": "look", "arguments": {}}}]),
    answer(tool_calls=[CUSTOM | {"custom": {"name": "look"}}]),
    answer(tool_calls=[CUSTOM | {"custom": None}]),
    answer(tool_calls=[{"type": "function", "function": CALL["function"]}]),
    answer("Hello.", name="a name"),
    {"role": "tool", "content": "out"},
    {"role": "tool", "tool_call_id": 7, "content": "out"},
    {"role": "tool", "tool_call_id": "c", "content": None},
    {"role": "function", "name": "look up", "content": "out"},
    {"role": "function", "name": "look"},
    {"role": "function", "name": "look", "content": []},
]


@pytest.mark.parametrize("message", SOUND, ids=str)
def test_sound(message: dict[str, Any]) -> None:
    """The API would take it in a suitable place."""
    assert is_sound(message) is True


@pytest.mark.parametrize("message", UNSOUND, ids=str)
def test_unsound(message: dict[str, Any]) -> None:
    """The API would refuse it wherever it stands."""
    assert is_sound(message) is False


@pytest.mark.parametrize(
    ("address", "is_taken"), [("x", True), ("data:a/b;base64,A", True), ("data:a;base64,A", False)]
)
def test_addresses_of_images(address: str, is_taken: bool) -> None:
    """A data URL needs a media type and data; others are not looked into."""
    assert is_image_address(address) is is_taken


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (["a"], ["a"]),
        (["abcdef"], ["abcdef"]),
        (["a", "b", "a", "a"], ["a", "b", "a-2", "a-3"]),
        (["a", "a-2", "a"], ["a", "a-2", "a-3"]),
        (["abcdef", "abcdef"], ["abcdef", "abcd-2"]),
    ],
)
def test_ids_of_calls(given: list[str], sent: list[str]) -> None:
    """One that repeats gets a number, and is cut so that it fits."""
    assert unique_call_ids(given, length_max=6) == sent


def test_ids_that_do_not_fit() -> None:
    """An empty or long one is replaced, the same way each time."""
    empty, long, again = unique_call_ids(["", "abcdefg", "abcdefg"], length_max=40)

    assert (long, again) == ("abcdefg", "abcdefg-2")
    assert empty.startswith("call_")
    assert len(unique_call_ids(["a" * 41], length_max=40)[0]) == len("call_") + 24


PICTURE = {"type": "input_image", "image_url": "https://host/a.png", "detail": "auto"}
REPLY = {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed"}
SAID = {"type": "output_text", "text": "Hello.", "annotations": []}
CALLED = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
RETURNED = {"type": "function_call_output", "call_id": "c", "output": "out"}
SOUND_ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": "Hello."},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello."}], "status": "completed"},
    {"role": "user", "content": [PICTURE]},
    {"role": "user", "content": [PICTURE | {"image_url": None, "file_id": "f"}]},
    {"role": "user", "content": [{"type": "input_file", "file_id": "f", "filename": None}]},
    {"role": "user", "content": [{"type": "input_file", "file_url": "https://host/a.pdf"}]},
    {"role": "user", "content": [{"type": "input_file", "file_data": "AA=="}]},
    {"role": "assistant", "content": "Hello."},
    REPLY | {"content": [SAID, {"type": "refusal", "refusal": "No."}]},
    REPLY | {"content": [SAID], "status": "in_progress"},
    REPLY | {"content": [SAID], "id": "msg_" + "1" * 60},
    CALLED,
    CALLED | {"id": "fc_1", "status": "incomplete"},
    RETURNED,
    RETURNED | {"id": None, "output": [{"type": "input_text", "text": "out"}]},
]
UNSOUND_ITEMS: list[dict[str, Any]] = [
    {"role": "user"},
    {"role": "user", "content": []},
    {"role": "user", "content": [SAID]},
    {"role": "user", "content": "Hello.", "status": "done"},
    {"role": "user", "content": "Hello.", "type": 7},
    {"role": "user", "content": [PICTURE | {"image_url": None}]},
    {"role": "user", "content": [PICTURE | {"image_url": 7}]},
    {"role": "user", "content": [PICTURE | {"file_id": 7}]},
    {"role": "user", "content": [PICTURE | {"detail": "most"}]},
    {"role": "user", "content": [{"type": "input_image", "image_url": "https://host/a.png"}]},
    {"role": "user", "content": [{"type": "input_file", "filename": "a.pdf"}]},
    {"role": "user", "content": [{"type": "input_file", "file_id": 7}]},
    {"role": "user", "content": [{"type": "input_text"}]},
    {"role": "assistant", "content": "Hello.", "id": "msg_1"},
    {"role": "assistant", "content": "Hello.", "status": "completed"},
    {"role": "assistant", "content": [SAID], "type": "message", "status": "completed"},
    REPLY | {"content": [SAID], "id": "1"},
    REPLY | {"content": [SAID], "id": "msg_" + "1" * 61},
    REPLY | {"content": [{"type": "output_text", "text": "Hello."}]},
    REPLY | {"content": [SAID | {"annotations": None}]},
    REPLY | {"content": [{"type": "refusal"}]},
    REPLY | {"content": [PICTURE]},
    CALLED | {"call_id": 7},
    CALLED | {"name": "look up"},
    CALLED | {"arguments": {}},
    CALLED | {"id": None},
    RETURNED | {"call_id": None},
    RETURNED | {"id": 7},
    RETURNED | {"output": None},
    RETURNED | {"output": [SAID]},
    {"type": "reasoning", "call_id": "c", "output": "out"},
]


@pytest.mark.parametrize("item", SOUND_ITEMS, ids=str)
def test_sound_items_of_responses(item: dict[str, Any]) -> None:
    """The Responses API would take it in a suitable place."""
    assert is_sound_item(item) is True


@pytest.mark.parametrize("item", UNSOUND_ITEMS, ids=str)
def test_unsound_items_of_responses(item: dict[str, Any]) -> None:
    """The Responses API would refuse it wherever it stands."""
    assert is_sound_item(item) is False
