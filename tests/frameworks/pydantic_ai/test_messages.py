"""Messages of Pydantic AI as items: they come back as they were, and every provider can be sent them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    FilePart,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure.frameworks.pydantic_ai.form import CONVERSATION
from refold.pydantic_ai import messages_of, record

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
IDS = st.sampled_from(["c", "d"])
ARGUMENTS = st.sampled_from(['{"order": 7}', "not json", "", None, {"order": 7}])
PNG = BinaryContent(b"\xff\xfe\xfb image", media_type="image/png")
SOUND = BinaryContent(b"la", media_type="audio/wav")
PICTURE = ImageUrl("https://example.org/a.png", vendor_metadata={"detail": "low"})
CONTENTS = st.lists(TEXTS | st.sampled_from([PNG, SOUND, PICTURE, DocumentUrl("https://example.org/a")]), max_size=3)
OUTPUTS = st.sampled_from(["in Lyon", {"place": "Lyon", "days": 2}, [1, None], 3, None])
REQUEST_PARTS = st.lists(
    st.builds(SystemPromptPart, TEXTS)
    | st.builds(UserPromptPart, TEXTS | CONTENTS)
    | st.builds(
        ToolReturnPart, st.just("track"), OUTPUTS, IDS, outcome=st.sampled_from(["success", "failed", "denied"])
    ),
    max_size=3,
)
RESPONSE_PARTS = st.lists(
    st.builds(TextPart, TEXTS)
    | st.builds(ThinkingPart, TEXTS, signature=st.none() | TEXTS, provider_name=st.none() | st.just("p"))
    | st.builds(ToolCallPart, st.just("track"), ARGUMENTS, IDS)
    | st.builds(NativeToolCallPart, st.just("web_search"), st.just({"q": "x"}), IDS)
    | st.builds(NativeToolReturnPart, st.just("web_search"), OUTPUTS, IDS)
    | st.just(FilePart(PNG)),
    max_size=3,
)
USAGES = st.builds(RequestUsage, input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9))
MESSAGES = st.lists(
    st.builds(ModelRequest, REQUEST_PARTS, instructions=st.none() | TEXTS, metadata=st.none() | st.just({"k": [1]}))
    | st.builds(ModelResponse, RESPONSE_PARTS, usage=USAGES, model_name=st.none() | st.just("m")),
    max_size=5,
)


@given(MESSAGES, MESSAGES)
def test_messages_come_back_as_they_were(first: list[ModelMessage], more: list[ModelMessage]) -> None:
    """As from the framework's own JSON, whatever their parts; and what is in the view can be sent to every provider."""
    with refold.open(":memory:") as store:
        chat = store.chat("c")
        record(chat, first)
        record(chat, more)

        kept = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(first + more))
        assert messages_of(store.chat("c")) == kept
        chat.to_openai_messages()
        chat.to_anthropic_messages()
        chat.to_openai_responses()
        chat.to_google_json()


def test_each_part_is_an_item(store: refold.Store) -> None:
    """A call is tied to its output, the tokens are counted once, and thinking is sent to no other provider."""
    chat = store.chat("c")
    record(
        chat,
        [
            ModelRequest(
                [
                    SystemPromptPart("Be brief."),
                    UserPromptPart(["What is it?", PNG, DocumentUrl("https://example.org/a")]),
                ]
            ),
            ModelResponse(
                [ThinkingPart("look"), TextPart("I look."), ToolCallPart("track", '{"order": 7}', "c1")],
                usage=RequestUsage(input_tokens=20, output_tokens=5, cache_read_tokens=8),
                model_name="m",
            ),
            ModelRequest([ToolReturnPart("track", {"place": "Lyon"}, "c1")]),
        ],
    )

    items: list[Any] = list(chat.items)
    assert [(item.type, getattr(item, "role", None)) for item in items] == [
        ("message", "system"), ("message", "user"), ("message", "assistant"), ("message", "assistant"),
        ("function_call", None), ("function_call_output", None),
    ]  # fmt: skip
    assert items[1].content[1].image.startswith("data:image/png;base64,")
    # What is no text and no image is no part of the item, and comes back all the same.
    assert len(items[1].content) == 2
    assert (items[5].output, items[5].call_id) == ('{"place":"Lyon"}', "c1")
    assert chat.pending_calls() == []
    sent = chat.to_openai_messages()
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool"]
    assert sent[2]["content"] == "I look."
    counted = [(row.counted_in, row.counted_out, row.counted_cached) for row in store.usage() if row.model == "m"]
    assert counted == [(20, 5, 8)]


def test_messages_of_others(store: refold.Store) -> None:
    """A chat that a person, a program or another framework wrote is a message history of a run."""
    chat = store.chat("c")
    chat.add_message("system", "Be brief.")
    chat.add_message("user", "Where is it?")
    chat.add_function_call("track", "{}", call_id="c1")
    chat.add_function_output("track", "in Lyon", "c1")
    chat.add_message("assistant", "In Lyon.")
    found = messages_of(chat)

    assert [type(part).__name__ for message in found for part in message.parts] == [
        "SystemPromptPart", "UserPromptPart", "ToolCallPart", "ToolReturnPart", "TextPart",
    ]  # fmt: skip
    assert found == messages_of(store.chat("c"))


def test_a_picture_in_a_data_url_in_capitals(store: refold.Store) -> None:
    """It is sent as what it holds, and not as an address that nobody can read."""
    chat = store.chat("c")
    chat.add_message("user", [refold.ImageContent(image="DATA:image/PNG;BASE64,YWJj")])

    (message,) = messages_of(chat)

    (part,) = message.parts[0].content
    assert (part.data, part.media_type) == (b"abc", "image/png")


@pytest.mark.parametrize(("at", "year"), [(1.7643e12, 9999), (-1e13, 1)])
def test_an_item_beyond_all_years(store: refold.Store, at: float, year: int) -> None:
    """It has the nearest time that there is."""
    chat = store.chat("c")
    chat.add_message("user", "Where is it?", created_at=at)

    [message] = messages_of(chat)
    assert message.parts[0].timestamp.year == year  # type: ignore[union-attr]  # it is a prompt


def test_a_message_without_some_of_its_items(store: refold.Store) -> None:
    """A policy may evict a part; the rest is still a message."""
    chat = store.chat("c")
    record(chat, [ModelRequest([UserPromptPart("one"), UserPromptPart("two")])])
    chat.evict([chat.items[0].id])

    (message,) = messages_of(chat)
    assert [part.content for part in message.parts if isinstance(part, UserPromptPart)] == ["two"]


def test_what_has_no_json_is_refused(store: refold.Store) -> None:
    """Nothing of the messages is recorded."""
    chat = store.chat("c")
    request = ModelRequest([UserPromptPart("hello"), ToolReturnPart("track", {"x": object()}, "c1")])
    with pytest.raises(InvalidInputError, match="cannot be kept as JSON"):
        record(chat, [ModelRequest([UserPromptPart("one")]), request])
    assert chat.version == 1


def test_a_request_to_try_again_is_said_by_the_user(store: refold.Store) -> None:
    """One that is about no tool; it comes back as it was."""
    chat = store.chat("c")
    request = ModelRequest([RetryFeedbackPart("Answer in JSON.", retry=RetryInfo(cause="model_retry"))])
    record(chat, [request])

    [item] = chat.items
    assert isinstance(item, refold.ChatMessage)
    assert (item.role, item.content) == ("user", "Answer in JSON.")
    assert messages_of(chat) == [request]


def test_a_message_of_another_version_is_refused(store: refold.Store) -> None:
    """Of a part that the installed one does not know, and what is no message at all."""
    chat = store.chat("c")
    with pytest.raises(InvalidInputError, match="a request or a response with its parts"):
        CONVERSATION.add(chat, [{"kind": "note", "parts": []}])
    assert chat.version == 1
    CONVERSATION.add(chat, [{"kind": "request", "parts": [{"part_kind": "hologram", "content": "x"}]}])

    with pytest.raises(InvalidInputError, match="the installed Pydantic AI cannot read a message of the chat"):
        messages_of(chat)
