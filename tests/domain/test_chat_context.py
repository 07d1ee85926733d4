"""The chat context as its users see it, detached (SPEC V2)."""

import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from refold.domain.chat.context import ChatContext
from refold.domain.chat.items import ChatMessage, FunctionCall, ImageContent
from refold.domain.chat.roles import ChatRole
from refold.domain.errors import DecisionRefusedError, DuplicateItemError, InvalidInputError

from ..support.effort import calls_of
from .chat_events import said
from .fakes import CountingSystem, texts


def test_a_context_owns_its_items() -> None:
    """V2.1, repaired: the list it was given stays the caller's."""
    items = [ChatMessage(role=ChatRole.USER, content="hi")]
    chat = ChatContext(items)

    items.clear()

    assert texts(chat) == ["hi"]


def test_empty_contexts() -> None:
    """V2.2: `empty()` has nothing in it, and shares it with nobody."""
    chat = ChatContext.empty()

    chat.add_message("user", "hi")

    assert ChatContext.empty().items == []


def test_items_are_a_read_only_list() -> None:
    """V2.3: equal to a plain list, and not to be changed."""
    chat = ChatContext()
    message = chat.add_message("user", "hi")

    assert chat.items == [message]
    assert isinstance(chat.items, list)
    with pytest.raises(DecisionRefusedError):
        chat.items.append(message)


def test_items_are_made_once_for_a_version() -> None:
    """Reading twice gives the same list, and an append keeps the items there were."""
    chat = ChatContext()
    chat.add_message("user", "hi")
    before = chat.items

    assert chat.items is before
    chat.add_message("user", "there")
    assert chat.items[0] is before[0]


def test_an_edit_makes_no_item_again() -> None:
    """Those that an edited context shows are made once, whatever is evicted, added and taken back behind it."""
    chat = ChatContext()
    for number in range(4):
        chat.add_message("user", str(number), message_id=f"m{number}")
    chat.evict("m1")
    before = {item.id: item for item in chat.items}
    chat.evict("m2")
    chat.add_message("user", "4", message_id="m4")
    chat.restore("m2")

    assert [item.id for item in chat.items] == ["m0", "m2", "m3", "m4"]
    assert all(before[item.id] is item for item in chat.items[:3])


def test_items_that_left_are_not_made() -> None:
    """The first look at an edited context costs no more for the thousand items that it does not show."""
    chat = ChatContext()
    ids = [chat.add_message("user", str(number)).id for number in range(1_010)]
    chat.evict(ids[5:-5])

    assert calls_of(lambda: chat.items) < 300
    assert [item.id for item in chat.items] == [*ids[:5], *ids[-5:]]


def test_a_repeated_call_costs_no_look_at_the_other_items() -> None:
    """Evicting a call whose id repeats takes its own output along, and pairs no other calls."""
    chat, ids = ChatContext(), []
    for number in range(500):
        call_id = "c" if number % 250 == 0 else None
        call = chat.add_function_call("look", "{}", call_id)
        ids += [call.id, chat.add_function_output("look", "", call.call_id).id]
    chat.evict(ids[2])

    assert calls_of(lambda: chat.evict(ids[500])) < 1_000
    assert [one.item.id for one in chat.evicted_items()] == [*ids[2:4], *ids[500:502]]


def test_items_taken_earlier_stay() -> None:
    """V2.15, repaired: a list that was read is a moment, and does not change afterwards."""
    chat = ChatContext()
    chat.add_message("user", "hi")
    before = chat.items

    chat.add_message("user", "there")

    assert len(before) == 1


def test_messages_and_turns() -> None:
    """V2.4: messages only, in order; a turn is a user message."""
    chat = ChatContext()
    chat.add_message("system", "Be brief.")
    chat.add_function_call("f", "{}")
    chat.add_message("user", "hi")
    chat.add_message("assistant", "hello")

    assert texts(chat) == ["Be brief.", "hi", "hello"]
    assert chat.turn_count() == 1


def test_a_context_is_true_and_itself() -> None:
    """V2.5, and as a container beyond the seed: it has a length and can be gone through, and is true all the same."""
    chat = ChatContext()

    assert chat
    assert chat != ChatContext()
    assert (len(chat), list(chat)) == (0, [])
    said = chat.add_message("user", "hi")
    assert (len(chat), list(chat)) == (1, [said])


def test_an_item_by_its_id() -> None:
    """V2.6: the item, or None."""
    chat = ChatContext()
    chat.add_message("user", "hi", message_id="m1")

    assert chat.get_by_id("m1") == chat.items[0]
    assert chat.get_by_id("m2") is None


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("abcdefgh", 4 + 2),
        (["abc", "abc", "abc"], 4),
        ([ImageContent(image="x"), "abcd"], 4 + 300 + 1),
        ([], 4),
        ("", 4),
    ],
)
def test_tokens_of_a_message(content: Any, tokens: int) -> None:
    """V2.7, V2.8: 4 each, a quarter of each part rounded down, 300 an image."""
    chat = ChatContext()

    chat.add_message("user", content)

    assert chat.estimated_tokens() == tokens


def test_tokens_of_calls_and_outputs() -> None:
    """V2.9: a quarter of the name, 5, and a quarter of the text."""
    chat = ChatContext()

    chat.add_function_call("abcdefgh", "12345678")
    chat.add_function_output("abcd", "1234567", "c")

    assert chat.estimated_tokens() == (4 + 2 + 5 + 2) + (4 + 1 + 5 + 1)


def test_tokens_of_handoffs_and_updates() -> None:
    """V2.10: 4 each, whatever they hold."""
    chat = ChatContext()

    chat.add_handoff("b", reason="x" * 4_000)
    chat.add_config_update("x" * 4_000, ["t"] * 100)

    assert chat.estimated_tokens() == 8


def test_what_add_message_gives_back() -> None:
    """V2.11: a text is wrapped in a list, a role may be its text; the item is the one in the context."""
    chat = ChatContext()

    message = chat.add_message("user", "hi", agent_id="triage")

    assert (message.role, message.content, message.agent_id) == (ChatRole.USER, ["hi"], "triage")
    assert chat.items == [message]


@pytest.mark.parametrize(("message_id", "created_at"), [("", 0), (None, None)])
def test_an_empty_id_and_no_time_are_not_given(message_id: Any, created_at: Any) -> None:
    """V2.12: both are made up then."""
    message = ChatContext(system=CountingSystem()).add_message("user", "hi", message_id, created_at)

    assert re.fullmatch("msg_[0-9a-f]{12}", message.id)
    assert message.created_at > 0


def test_a_message_goes_to_the_end() -> None:
    """V2.13: whatever its time."""
    chat = ChatContext()
    chat.add_message("user", "new", created_at=100.0)

    chat.add_message("user", "old", created_at=1.0)

    assert texts(chat) == ["new", "old"]


@pytest.mark.parametrize("content", [None, [1], [None], 5, {"a": 1}])
def test_content_that_is_no_content(content: Any) -> None:
    """V2.16: refused, and nothing is recorded."""
    chat = ChatContext()

    with pytest.raises(ValidationError) as caught:
        chat.add_message("user", content)
    assert isinstance(caught.value, InvalidInputError)
    assert caught.value.errors()[0]["loc"][0] == "content"
    assert str(caught.value).startswith("content")
    assert "\n" not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert (chat.items, chat.version) == ([], 1)


@pytest.mark.parametrize("role", ["tool", "", None, 5, ["user"], {"role": "user"}])
def test_a_role_that_is_no_role(role: Any) -> None:
    """V1.1: refused as a ValueError, whatever it is, and nothing is recorded."""
    chat = ChatContext()

    with pytest.raises(ValueError, match="role"):
        chat.add_message(role, "hi")
    assert chat.version == 1


def test_content_given_stays_the_callers() -> None:
    """Changing a list or dict after the call changes nothing in the context."""
    chat = ChatContext()
    parts: list[Any] = ["hi"]
    tools, metadata = ["t"], {"a": [1]}
    chat.add_message("user", parts)
    chat.add_function_call("f", "{}", metadata=metadata)
    chat.add_config_update(tools=tools)
    before = chat.to_dict()

    parts.append("x")
    tools.append("x")
    metadata["a"].append(2)

    assert chat.to_dict() == before
    assert chat.at(chat.version - 1).to_dict()["items"] == before["items"][:2]


def test_a_dict_can_be_an_image() -> None:
    """V2.16: it is coerced, and no content at all is allowed."""
    chat = ChatContext()

    image = chat.add_message("user", [{"image": "https://example.org/a.png"}]).content[0]  # type: ignore[list-item]
    empty = chat.add_message("user", [])

    assert isinstance(image, ImageContent)
    assert empty.content == []


def test_a_call_gets_an_id() -> None:
    """V2.17: `call_` and 12 digits where none is given; a repeated one is taken."""
    chat = ChatContext()

    made, given = chat.add_function_call("f", "{}"), chat.add_function_call("f", "{}", "c", "triage", {"a": 1})
    again = chat.add_function_call("f", "{}", "c")

    assert re.fullmatch("call_[0-9a-f]{12}", made.call_id)
    assert (given.call_id, given.agent_id, given.metadata, again.call_id) == ("c", "triage", {"a": 1}, "c")


def test_an_output_of_any_call() -> None:
    """V2.18: unknown and repeated call ids are taken."""
    chat = ChatContext()

    outputs = [chat.add_function_output("f", "1", "nobody", True, "triage") for _ in range(2)]

    assert [(one.call_id, one.is_error, one.agent_id) for one in outputs] == [("nobody", True, "triage")] * 2


def test_a_handoff() -> None:
    """V2.19: to whom comes first; there is no agent_id."""
    chat: Any = ChatContext()

    handoff = chat.add_handoff("b", "a", "tired")

    assert (handoff.to_agent, handoff.from_agent, handoff.reason) == ("b", "a", "tired")
    with pytest.raises(TypeError):
        chat.add_handoff("b", agent_id="a")


def test_a_config_update() -> None:
    """V2.20: instructions, tools and agent, all optional."""
    chat = ChatContext()

    update = chat.add_config_update("x", ("t",), "triage")

    assert (update.instructions, update.tools, update.agent_id) == ("x", ["t"], "triage")
    assert chat.add_config_update().tools is None


def test_an_id_belongs_to_one_item() -> None:
    """V1.15, repaired: the same again is nothing new, another item under the id is refused."""
    chat = ChatContext()
    first = chat.add_message("user", "hi", message_id="m1")

    assert chat.add_message("user", "hi", message_id="m1") == first
    with pytest.raises(DuplicateItemError, match="'m1'"):
        chat.add_message("user", "other", message_id="m1")
    assert texts(chat) == ["hi"]


def test_many_items_at_once() -> None:
    """All or none, and those that were new are given back."""
    chat = ChatContext()
    one, two = (
        ChatMessage(id="1", role=ChatRole.USER, content="one"),
        ChatMessage(id="2", role=ChatRole.USER, content="two"),
    )
    chat.add_items([one])

    assert chat.add_items([one, two]) == [two]
    with pytest.raises(DuplicateItemError):
        chat.add_items([ChatMessage(role=ChatRole.USER, content="three"), two.model_copy(update={"content": "other"})])
    assert texts(chat) == ["one", "two"]


def test_the_tail() -> None:
    """The last items, however many there are."""
    chat = ChatContext()
    for number in range(5):
        chat.add_message("user", str(number))

    assert chat.tail(2) == chat.items[-2:]
    assert chat.tail(99) == chat.items
    assert chat.tail(0) == []


@pytest.mark.parametrize(
    "add",
    [
        lambda chat: chat.add_message("user", "hi"),
        lambda chat: chat.add_function_call("f", "{}", metadata={"a": []}),
        lambda chat: chat.add_function_output("f", "1", "c", True),
        lambda chat: chat.add_handoff("b"),
        lambda chat: chat.add_config_update(tools=[]),
    ],
)
def test_what_is_given_back_is_what_is_in_it(add: Any) -> None:
    """The item that a call returns equals the one that the log gives later."""
    chat = ChatContext()

    item = add(chat)

    assert chat.items == [item]
    assert chat.at(chat.version).items == [item]
    assert chat.tail(1) == [item]


def test_open_json_is_json() -> None:
    """What cannot be JSON is refused, with the item and the field named; nothing is recorded."""
    chat = ChatContext()

    for value in (float("nan"), {1, 2}, b"bytes", {"a": object()}):
        with pytest.raises(InvalidInputError, match="metadata of function_call"):
            chat.add_function_call("f", "{}", metadata={"value": value})
    assert chat.version == 1


@pytest.mark.parametrize("time", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_time(time: float) -> None:
    """A message, or an item of any kind, is refused, whichever way it comes in; nothing is recorded."""
    chat = ChatContext()
    message = ChatMessage(role=ChatRole.USER, content="x", created_at=time)
    call = FunctionCall(name="f", arguments="{}", call_id="c", created_at=time)
    told = {"items": [{"type": "message", "id": "m", "role": "user", "content": "x", "created_at": time}]}
    ways: list[Callable[[], object]] = [
        lambda: chat.add_message("user", "x", created_at=time),
        lambda: chat.add_message("system", "x", created_at=time, replace=True),
        lambda: chat.add_items([message]),
        lambda: chat.add_items([call]),
        lambda: chat.insert(message),
        lambda: chat.record_items([said(created_at=time)]),
        lambda: ChatContext([message]),
        lambda: ChatContext.from_dict(told),
    ]

    for way in ways:
        with pytest.raises(InvalidInputError, match=f"is {time}: it is in seconds since 1970"):
            way()
    assert chat.version == 1


@pytest.mark.parametrize("metadata", [{}, {"a": {}}, {"a": {"1": 2}}, {"a": [1, [2]]}, {"a": 10**25}, {"ü": "\x00"}])
def test_open_json_comes_back(metadata: dict[str, Any]) -> None:
    """Whatever is JSON is given back equal, and an empty object is not None."""
    chat = ChatContext()

    chat.add_function_call("f", "{}", metadata=metadata)

    assert chat.at(2).items[0].metadata == metadata  # type: ignore[union-attr]


def test_keys_of_open_json_are_texts() -> None:
    """A key that JSON would turn into a text is refused, since it would come back as another."""
    with pytest.raises(InvalidInputError):
        ChatContext().add_function_call("f", "{}", metadata={"a": {1: 2}})
