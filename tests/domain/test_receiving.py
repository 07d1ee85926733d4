"""What providers take and give becomes a context again."""

from collections.abc import Callable
from typing import Any

import pytest

from refold.chat import ChatContext, ChatMessage, FunctionCall, FunctionCallOutput
from refold.domain.errors import InvalidInputError

Converted = Callable[[ChatContext], Any]
Received = Callable[[Any], ChatContext]
WAYS: dict[str, tuple[Converted, Received]] = {
    "chat completions": (lambda chat: chat.to_openai_messages(), ChatContext.from_openai_messages),
    "responses": (lambda chat: chat.to_openai_responses(), lambda made: ChatContext.from_openai_responses(*made)),
    "anthropic": (lambda chat: chat.to_anthropic_messages(), lambda made: ChatContext.from_anthropic_messages(*made)),
    "google": (lambda chat: chat.to_google_json(), lambda made: ChatContext.from_google_contents(*made)),
}


def talk() -> ChatContext:
    """Return a context with a bit of everything that all providers know."""
    chat = ChatContext()
    chat.add_message("system", "Be brief.")
    chat.add_message("user", "Where is my order?")
    chat.add_function_call("lookup", '{"id":7}', "c1")
    chat.add_function_output("lookup", "shipped", "c1")
    chat.add_message("assistant", "On its way.")
    chat.add_message("user", "Thanks.")
    return chat


@pytest.mark.parametrize("way", WAYS)
def test_what_was_converted_comes_back(way: str) -> None:
    """The same items, in the same order, and the same request again."""
    convert, receive = WAYS[way]
    made = convert(talk())
    back = receive(made)

    assert convert(back) == made
    assert back.is_detached
    kinds = [type(item) for item in back.items if not isinstance(item, ChatMessage)]
    assert kinds == [FunctionCall, FunctionCallOutput]
    assert [message.content for message in back.messages()][-2:] in (
        [["On its way."], ["Thanks."]],
        ["On its way.", "Thanks."],
    )
    assert back.active_config_at()[0] == "Be brief."


@pytest.mark.parametrize("way", WAYS)
def test_what_is_none_is_refused(way: str) -> None:
    """By the converter's own word."""
    with pytest.raises(InvalidInputError):
        WAYS[way][1](([7],) if way != "chat completions" else [7])
