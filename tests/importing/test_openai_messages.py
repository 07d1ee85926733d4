"""From items to OpenAI messages: contexts that were made by calls (SPEC V9)."""

import pytest

from refold.domain.chat import ChatContext, ChatMessage, ChatRole, ImageContent
from tests.importing.shapes import Message, answered, asked, call, items, said


def asking(*names: str) -> ChatContext:
    """
    Return a context with calls of these names, their ids the same.
    """
    chat = ChatContext()
    for name in names:
        chat.add_function_call(name, "{}", call_id=name)
    return chat


def test_text_and_images_are_parts_in_their_order() -> None:
    """A detail is written only where it is not the usual one (SPEC V9.2, V9.3)."""
    chat = ChatContext()
    usual, low = ImageContent(image="u"), ImageContent(image="v", inference_detail="low")
    chat.add_message("user", ["look", usual, low])

    assert chat.to_openai_messages() == [
        said(
            "user",
            [
                {"type": "text", "text": "look"},
                {"type": "image_url", "image_url": {"url": "u"}},
                {"type": "image_url", "image_url": {"url": "v", "detail": "low"}},
            ],
        )
    ]


def test_text_that_is_no_part_stays_text() -> None:
    """An item can hold a plain text (SPEC V9.2)."""
    chat = ChatContext([ChatMessage(role=ChatRole.USER, content="look")])

    assert chat.to_openai_messages() == [said("user", "look")]


@pytest.mark.parametrize(
    ("role", "reasoning_model", "sent"),
    [
        ("developer", False, "system"),
        ("system", False, "system"),
        ("developer", True, "developer"),
        ("system", True, "developer"),
        ("user", True, "user"),
    ],
)
def test_instructions_have_the_role_of_the_model(role: str, reasoning_model: bool, sent: str) -> None:
    """Reasoning models have developers, the others a system (SPEC V9.4)."""
    chat = ChatContext()
    chat.add_message(role, "Be kind.")

    (message,) = chat.to_openai_messages(reasoning_model=reasoning_model)
    assert message["role"] == sent


def test_an_imported_developer_stays_one() -> None:
    """What came in comes out; only a reasoning model changes a role."""
    chat = ChatContext()
    chat.record_items(items(said("developer"), said("system")))

    assert [message["role"] for message in chat.to_openai_messages()] == ["developer", "system"]
    assert [m["role"] for m in chat.to_openai_messages(reasoning_model=True)] == ["developer", "developer"]


def test_neighbouring_calls_are_one_message() -> None:
    """An assistant's turn can have several calls (SPEC V9.8)."""
    assert asking("a", "b").to_openai_messages() == [asked(call("a", "a"), call("b", "b"))]


def test_a_handoff_does_not_part_calls() -> None:
    """Nor does a config update: two messages with calls in a row would be refused (SPEC V9.8)."""
    chat = asking("a")
    chat.add_handoff("billing")
    chat.add_config_update(instructions="Be brief.")
    chat.add_function_call("b", "{}", call_id="b")

    assert chat.to_openai_messages() == [asked(call("a", "a"), call("b", "b"))]


def test_text_before_calls_is_a_message_of_its_own() -> None:
    """What was added separately is sent separately (SPEC V9.9)."""
    chat = ChatContext()
    chat.add_message("assistant", "One moment.")
    chat.add_function_call("a", "not JSON", call_id="a")

    text: Message = {"type": "text", "text": "One moment."}
    assert chat.to_openai_messages() == [said("assistant", [text]), asked(call("a", "a", "not JSON"))]


def test_an_output_is_a_message_of_a_tool() -> None:
    """Its name is not sent, nor that it failed (SPEC V9.10)."""
    chat = asking("a")
    chat.add_function_output("a", "broken", "a", is_error=True)
    chat.add_function_call("b", "{}", call_id="b")

    assert chat.to_openai_messages() == [
        asked(call("a", "a")),
        answered("a", "broken"),
        asked(call("b", "b")),
    ]


def test_calls_made_here_do_not_join_imported_ones() -> None:
    """An imported message comes out as it came in, whatever was added behind it."""
    chat = ChatContext()
    chat.record_items(items(asked(call("a"))))
    chat.add_function_call("b", "{}", call_id="b")

    assert chat.to_openai_messages() == [asked(call("a")), asked(call("b", "b"))]


def test_the_past_has_messages_too() -> None:
    """A version shows the messages it had."""
    chat = ChatContext()
    chat.record_items(items(said("user", "one"), said("user", "two")))

    assert chat.at(2).to_openai_messages() == [said("user", "one")]


def test_what_is_given_out_is_the_callers_own() -> None:
    """Changing a message that was given out changes nothing in the context."""
    chat = ChatContext()
    chat.record_items(items(said("user", [{"type": "text", "text": "one", "x": [1]}])))
    chat.to_openai_messages()[0]["content"][0]["x"].append(2)

    assert chat.to_openai_messages() == [said("user", [{"type": "text", "text": "one", "x": [1]}])]
