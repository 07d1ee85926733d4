"""From Google contents back to items."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given

from refold.domain.canonical import parse_json
from refold.domain.chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, MessageAdded
from refold.domain.errors import InvalidInputError
from refold.domain.formats.anthropic.send import anthropic_messages
from refold.domain.formats.google.receive import items_from_google
from refold.domain.formats.google.send import google_contents, to_google_types
from refold.domain.formats.openai.send import openai_messages
from refold.domain.formats.responses.receive import items_from_openai_responses
from refold.domain.formats.responses.send import openai_responses_input
from refold.domain.log.envelope import encode_payload
from tests.domain.fakes import CountingSystem

from .provider_contexts import CONTEXTS, FEW, MANY, PIXEL, call, output, pictured


def read(*contents: Any, system: Any = None) -> list[ChatItemEvent]:
    """Return the items of contents."""
    return items_from_google(contents, system, system_clock=CountingSystem())


@given(CONTEXTS)
@MANY
def test_back_and_forth_is_stable(items: list[ChatItemEvent]) -> None:
    """What our own converter made comes out the same again, and the items can be recorded under ids of their own."""
    contents, system = google_contents(items)
    back = read(*contents, system=system)

    assert google_contents(back) == (contents, system)
    assert len({item.id for item in back}) == len(back)
    assert all(encode_payload(item) for item in back)


@given(CONTEXTS)
@FEW
def test_objects_of_the_package_say_the_same(items: list[ChatItemEvent]) -> None:
    """Bytes and all."""
    contents = google_contents(items)[0]

    assert google_contents(read(*to_google_types(contents)))[0] == contents


def test_an_image_in_an_output_is_kept_and_sent() -> None:
    """As an image, to each provider in its form; one that takes none there is told so. Other parts are kept as JSON."""
    data = PIXEL.partition(",")[2]
    blob = {"inline_data": {"mime_type": "image/png", "data": data}}
    shown = {"id": "c1", "name": "look", "response": {"output": "the page"}, "parts": [blob]}
    called = {"role": "model", "parts": [{"function_call": {"id": "c1", "name": "look", "args": {}}}]}
    contents = [{"role": "user", "parts": [{"text": "?"}]}, called]
    contents.append({"role": "user", "parts": [{"function_response": shown}]})
    items = read(*contents)

    assert google_contents(items)[0] == google_contents(read(*to_google_types(contents)))[0] == contents
    assert openai_messages(items)[-1]["content"] == "the page\n[An image is left out: image/png]"
    entries, _ = openai_responses_input(items)
    image = {"type": "input_image", "image_url": PIXEL, "detail": "auto"}
    assert entries[-1]["output"] == [{"type": "input_text", "text": "the page"}, image]
    source = {"type": "base64", "media_type": "image/png", "data": data}
    answered = anthropic_messages(items)[0][-1]["content"][0]["content"]
    assert answered == [{"type": "text", "text": "the page"}, {"type": "image", "source": source}]
    file = {"type": "input_file", "file_id": "f1"}
    listed = [entries[-2], {**entries[-1], "output": [*entries[-1]["output"], file]}]
    both = items_from_openai_responses(listed, system_clock=CountingSystem())
    told = openai_messages(both)[-1]["content"].splitlines()
    assert told == ["the page", "[An image is left out: image/png]", "[An input_file is left out]"]
    assert google_contents(both)[0][-1]["parts"][0]["function_response"]["parts"] == [blob]
    gif = msgspec.structs.replace(items[-1], output=json.dumps([{**image, "image_url": PIXEL.replace("png", "gif")}]))
    (part,) = google_contents([*items[:-1], gif])[0][-1]["parts"]
    assert part["function_response"]["response"] == {"output": "[An image is left out: image/gif]"}
    sound = {"inlineData": {"mimeType": "audio/wav", "data": "QUJD"}}
    heard = read(called, {"parts": [{"function_response": {**shown, "parts": [blob, sound]}}]})[-1]
    assert json.loads(heard.output)["parts"] == [blob, sound]  # type: ignore[union-attr]


def test_pictures_and_signatures_are_kept() -> None:
    """An image becomes a data URL again, a signature stays with its call."""
    message, made, answer = read(
        *google_contents([pictured(), call(metadata={"thought_signature": "c2ln"}), output(is_error=True)])[0]
    )

    assert isinstance(message, MessageAdded)
    assert message.content[1].image == PIXEL  # type: ignore[union-attr]
    assert isinstance(made, FunctionCalled)
    assert parse_json(made.metadata) == {"thought_signature": "c2ln"}
    assert isinstance(answer, FunctionReturned)
    assert (answer.call_id, answer.output, answer.is_error) == ("c1", "found", True)


@pytest.mark.parametrize(
    "file",
    [
        {"file_data": {"file_uri": "https://e.x/a.mp4", "mime_type": "video/mp4"}},
        {"fileData": {"fileUri": "https://www.youtube.com/watch?v=1"}},
        {"inline_data": {"mime_type": "application/pdf", "data": "YWJj"}},
    ],
)
def test_other_files_are_no_images(file: dict[str, Any]) -> None:
    """They are sent to Google again as they came, and to nobody else."""
    (message, alone) = read({"role": "user", "parts": [{"text": "look"}, file]}, {"role": "user", "parts": [file]})

    assert isinstance(message, MessageAdded)
    assert message.content == ("look",)
    assert google_contents([message])[0] == [{"role": "user", "parts": [file, {"text": "look"}]}]
    assert google_contents([alone])[0] == [{"role": "user", "parts": [file]}]
    assert openai_messages([message]) == [{"role": "user", "content": [{"type": "text", "text": "look"}]}]


def test_a_file_that_nobody_could_read_is_not_sent() -> None:
    """As one without its type, or whose content is no base64, and a thought."""
    wrong: list[dict[str, Any]] = [
        {"inline_data": {"data": "YWJj"}},
        {"inline_data": {"mime_type": "audio/wav", "data": "!"}},
        {"file_data": {"mime_type": "audio/wav"}},
        {"file_data": 7},
        {"inline_data": {"mime_type": "image/png", "data": "YWJj"}, "thought": True},
    ]
    (message,) = read({"role": "user", "parts": [{"text": "look"}, *wrong]})

    assert google_contents([message])[0] == [{"role": "user", "parts": [{"text": "look"}]}]


def test_calls_without_ids() -> None:
    """Responses answer by name the first call that waits; ids are drawn; both spellings of fields are read."""
    calls = [{"functionCall": {"name": name, "args": {"n": n}}} for n, name in enumerate(("f", "g", "f"))]
    responses = [
        {"functionResponse": {"name": name, "response": {"result": n}}} for n, name in ((1, "g"), (0, "f"), (2, "f"))
    ]
    items = read({"role": "model", "parts": calls}, {"role": "function", "parts": responses})

    ids = [item.call_id for item in items]  # type: ignore[union-attr]
    assert ids[3:] == [ids[1], ids[0], ids[2]]
    assert len({*ids}) == 3
    assert [item.output for item in items[3:]] == ['{"result":1}', '{"result":0}', '{"result":2}']  # type: ignore[union-attr]
    assert not any(item.is_error for item in items[3:])  # type: ignore[union-attr]
    (orphan,) = read({"role": "user", "parts": [{"function_response": {"name": "f", "response": None}}]})
    assert (orphan.output, orphan.call_id[:5]) == ("null", "call_")  # type: ignore[union-attr]


def test_thoughts_are_kept_beside_the_message() -> None:
    """They are not sent again; a message's signature is."""
    thought, odd = {"text": "hm", "thought": True}, {"executable_code": {"code": "1"}}
    message, rest = read({"role": "model", "parts": [thought, {"text": "a", "thoughtSignature": "c2ln"}, odd]})

    assert parse_json(message.extra) == {"google": {"parts": [thought], "thought_signature": "c2ln"}}  # type: ignore[union-attr]
    assert parse_json(rest.extra) == {"google": {"parts": [odd]}}  # type: ignore[union-attr]
    assert google_contents([message, rest])[0][1]["parts"] == [{"text": "a", "thought_signature": "c2ln"}]


def test_the_instruction_may_be_a_content() -> None:
    """Its parts are those of the system message; a content without a role is a user's."""
    system, hi = read({"parts": [{"text": "hi"}]}, system={"parts": [{"text": "S"}, {"text": "T"}]})

    assert (system.role, system.content) == ("system", ("S", "T"))  # type: ignore[union-attr]
    assert (hi.role, hi.content) == ("user", ("hi",))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("hi", "contents[0]: found text, expected an object"),
        ({"role": "robot", "parts": []}, ".role: 'robot' is no role, expected user or model"),
        ({"parts": ["hi"]}, "parts[0]: found text, expected an object"),
        ({"parts": [{"function_call": {}}]}, "parts[0].function_call.name: missing, expected text"),
        ({"parts": [{"inline_data": {"data": 7}}]}, ".inline_data.data: found a number, expected text"),
        ({"parts": [{"text": "\ud800"}]}, "lone surrogate"),
    ],
)  # fmt: skip
def test_what_is_no_content_is_refused(content: Any, fault: str) -> None:
    """The error says where, what was found and what was expected."""
    with pytest.raises(InvalidInputError) as refused:
        read(content)

    assert fault in str(refused.value)


def test_an_answer_that_is_no_json_is_refused() -> None:
    """The error says where it is."""
    with pytest.raises(InvalidInputError, match=r"contents\[0\].* cannot be kept as JSON: .*object"):
        read({"parts": [{"function_response": {"name": "f", "response": {"a": object()}}}]})
