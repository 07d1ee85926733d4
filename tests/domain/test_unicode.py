"""A lone surrogate is no text: it is refused where it comes in, and the field is named."""

from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.items import (
    AgentConfigUpdate,
    AgentHandoff,
    ChatMessage,
    FunctionCall,
    FunctionCallOutput,
    ImageContent,
)
from refold.domain.chat.roles import ChatRole
from refold.domain.context.folded_stream import Durability
from refold.domain.context.transaction import transaction
from refold.domain.errors import InvalidInputError
from refold.domain.log.envelope import acting
from refold.domain.log.memory_log import MemoryLog

from .chat_events import OPENED
from .fakes import handle_on, record

BAD = "a\ud800b"

CALLS: dict[str, Any] = {
    "content": lambda chat: chat.add_message("user", BAD),
    "content, part 1": lambda chat: chat.add_message("user", ["fine", BAD]),
    "message_id": lambda chat: chat.add_message("user", "hi", message_id=BAD),
    "agent_id": lambda chat: chat.add_message("user", "hi", agent_id=BAD),
    "image": lambda chat: chat.add_message("user", [ImageContent(image=BAD)]),
    "image id": lambda chat: chat.add_message("user", [ImageContent(id=BAD, image="x")]),
    "call name": lambda chat: chat.add_function_call(BAD, "{}"),
    "arguments": lambda chat: chat.add_function_call("f", BAD),
    "call_id": lambda chat: chat.add_function_call("f", "{}", BAD),
    "call agent_id": lambda chat: chat.add_function_call("f", "{}", agent_id=BAD),
    "metadata": lambda chat: chat.add_function_call("f", "{}", metadata={"a": [BAD]}),
    "metadata key": lambda chat: chat.add_function_call("f", "{}", metadata={BAD: 1}),
    "output": lambda chat: chat.add_function_output("f", BAD, "c"),
    "output name": lambda chat: chat.add_function_output(BAD, "1", "c"),
    "output call_id": lambda chat: chat.add_function_output("f", "1", BAD),
    "to_agent": lambda chat: chat.add_handoff(BAD),
    "from_agent": lambda chat: chat.add_handoff("b", BAD),
    "reason": lambda chat: chat.add_handoff("b", reason=BAD),
    "instructions": lambda chat: chat.add_config_update(BAD),
    "tools": lambda chat: chat.add_config_update(tools=["fine", BAD]),
    "version name": lambda chat: chat.name_version(BAD),
    "idempotency_key": lambda chat: chat.add_message("user", "hi", idempotency_key=BAD),
}


def item_fields() -> dict[str, Any]:
    """Return items, each with one bad field that no call of its own sets."""
    message: dict[str, Any] = {"role": "user", "content": "hi"}
    return {
        "audio_instructions": ChatMessage(**message, audio_instructions=BAD),
        "text_instructions": ChatMessage(**message, text_instructions=BAD),
        "extra": ChatMessage(**message, extra={"a": BAD}),
        "metrics": ChatMessage(**message, metrics={"a": BAD}),
        "plain content": ChatMessage(role=ChatRole.USER, content=BAD),
        "id of a call": FunctionCall(id=BAD, name="f", arguments="", call_id="c"),
        "id of an output": FunctionCallOutput(id=BAD, name="f", output="", call_id="c"),
        "id of a handoff": AgentHandoff(id=BAD, to_agent="b"),
        "agent_id of an update": AgentConfigUpdate(agent_id=BAD),
    }


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("durability", ["commit", "enqueue"])
def test_every_text_is_checked(call: Any, durability: Durability) -> None:
    """Refused at the call, with durability enqueue too; nothing is recorded and the view is as it was."""
    log = MemoryLog()
    record(log, OPENED)
    chat = handle_on(log, durability=durability)

    with pytest.raises(InvalidInputError):
        call(chat)

    chat.flush()
    assert (chat.version, chat.items, len(chat.history())) == (1, [], 1)


@pytest.mark.parametrize("item", item_fields().values(), ids=item_fields())
def test_every_text_of_an_item_is_checked(item: Any) -> None:
    """Items that were made elsewhere are looked at as closely."""
    chat = ChatContext()

    with pytest.raises(InvalidInputError):
        chat.add_items([item])
    assert chat.version == 1


@pytest.mark.parametrize(
    ("call", "saying"),
    [
        ("content", r"content of message 'msg_.*part 0.*U\+D800.*index 1"),
        ("content, part 1", r"content of message 'msg_.*part 1.*U\+D800.*index 1"),
        ("arguments", r"arguments of function_call 'call_.*index 1"),
        ("output", "output of function_call_output 'output_"),
        ("agent_id", "agent_id of message"),
        ("tools", "tools of agent_config_update"),
        ("to_agent", "to_agent of agent_handoff"),
        ("metadata", "metadata of function_call"),
    ],
)
def test_the_place_is_named(call: str, saying: str) -> None:
    """The message says which field of which item it is, and where in it."""
    with pytest.raises(InvalidInputError, match=saying):
        CALLS[call](ChatContext())


@pytest.mark.parametrize("field", ["actor", "correlation_id", "because"])
def test_who_and_why_are_checked(field: str) -> None:
    """What `acting` is told goes into every envelope, so it is looked at as well."""
    chat = ChatContext()
    told: dict[str, Any] = {field: BAD}

    with pytest.raises(InvalidInputError), acting(**told):
        chat.add_message("user", "hi")
    assert (chat.version, len(chat.history())) == (1, 1)


def test_the_key_of_a_transaction_is_checked() -> None:
    """The transaction is refused, and every view is as it was."""
    chat = ChatContext()

    with pytest.raises(InvalidInputError), transaction(chat._journal.log, idempotency_key=BAD):
        chat.add_message("user", "hi")
    assert (chat.version, chat.items) == (1, [])


@pytest.mark.parametrize("text", ["", "\x00", "ü", "漢字", "\U0001f600", "\ufeff", "\u2028", "e\u0301", "\uffff"])
def test_all_other_text_is_kept(text: str) -> None:
    """NUL, marks, unassigned and combining characters come back as they went in."""
    chat = ChatContext()

    chat.add_message("user", [text])
    chat.add_function_call("f", text, metadata={text: text})

    past = chat.at(3)
    assert past.messages()[0].content == [text]
    assert past.items[1].metadata == {text: text}  # type: ignore[union-attr]
