"""From items to OpenAI messages: contexts made by calls, and imported ones (SPEC V9)."""

import time
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import ChatItemEvent, Image, MessageAdded
from refold.domain.chat.items import ChatMessage, ImageContent
from refold.domain.chat.roles import ChatRole
from refold.domain.errors import InvalidInputError
from refold.domain.formats.openai.send import function_name, openai_messages, unique_call_ids
from refold.domain.formats.send import NO_OUTPUT
from tests.domain.chat_events import configured
from tests.domain.formats.openai_contexts import LONG, OLD_CALL, TEXT, imported
from tests.importing.shapes import Message, answered, asked, call, items, said

ROLES = ("system", "assistant", "user")


def spoken(role: str, content: Any) -> MessageAdded:
    """Return a message made by a call."""
    return MessageAdded(id=f"msg_{role}", created_at=1.0, role=role, content=content)


def context(*recorded: ChatItemEvent) -> list[ChatItemEvent]:
    """Return the items of a context."""
    return list(recorded)


def asking(*names: str) -> ChatContext:
    """Return a context with calls of these names, their ids the same."""
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
    """What came in comes out, with all its instructions; only a reasoning model changes a role."""
    chat = ChatContext()
    chat.record_items(items(said("developer"), said("system")))

    assert [message["role"] for message in chat.to_openai_messages()] == ["developer", "system"]
    assert [m["role"] for m in chat.to_openai_messages(reasoning_model=True)] == ["developer", "developer"]


# Instructions


def test_one_message_of_instructions_keeps_its_shape() -> None:
    """Text in parts stays in parts where nothing overrules it."""
    chat = context(spoken("system", ("Be", "kind.")), spoken("user", "hi"))

    parts: list[Message] = [{"type": "text", "text": "Be"}, {"type": "text", "text": "kind."}]
    assert openai_messages(chat) == [said("system", parts), said("user", "hi")]


def test_the_instructions_in_force_stand_in_the_first_place() -> None:
    """They are sent once, as the last message or config update has them (SPEC V9.5, V9.6)."""
    first, last = spoken("developer", ("One.",)), spoken("system", ("Two,", "three."))

    assert openai_messages(context(spoken("user", "hi"), first, last)) == [
        said("user", "hi"),
        said("system", "Two, three."),
    ]
    assert openai_messages(context(first, configured(instructions="New."), spoken("user", "hi"))) == [
        said("system", "New."),
        said("user", "hi"),
    ]


def test_instructions_of_a_config_update_need_no_message() -> None:
    """Without any message of instructions they stand in front (SPEC V9.7), unless they are empty."""
    assert openai_messages(context(spoken("user", "hi"), configured(instructions="New."))) == [
        said("system", "New."),
        said("user", "hi"),
    ]
    assert openai_messages(context(spoken("user", "hi"), configured(instructions=""))) == [said("user", "hi")]


def test_a_config_update_overrules_imported_instructions() -> None:
    """One that only names tools does not."""
    came = items(said("system", [TEXT], name="x"), said("system", "Two."))

    assert openai_messages([*came, configured(tools=("f",))]) == [
        said("system", [TEXT], name="x"),
        said("system", "Two."),
    ]
    assert openai_messages([*came, configured(instructions="New.")]) == [said("system", "New.")]


# Calls and outputs


def test_neighbouring_calls_are_one_message() -> None:
    """An assistant's turn can have several calls (SPEC V9.8)."""
    assert asking("a", "b").to_openai_messages()[0] == asked(call("a", "a"), call("b", "b"))


def test_a_handoff_does_not_part_calls() -> None:
    """Nor does a config update: two messages with calls in a row would be refused (SPEC V9.8)."""
    chat = asking("a")
    chat.add_handoff("billing")
    chat.add_config_update(tools=["b"])
    chat.add_function_call("b", "{}", call_id="b")

    assert chat.to_openai_messages()[0] == asked(call("a", "a"), call("b", "b"))


def test_a_call_without_an_output_is_answered() -> None:
    """Also one that is still awaited at the end: the request has to be valid (SPEC V9.11)."""
    assert asking("a").to_openai_messages() == [asked(call("a", "a")), answered("a", NO_OUTPUT)]


def test_outputs_follow_their_calls() -> None:
    """They move behind their call, and keep their order among each other (SPEC V9.11)."""
    chat = asking("a", "b", "c")
    chat.add_message("user", "Hurry!")
    for call_id in ("c", "a", "unknown", "a"):
        chat.add_function_output(call_id, call_id, call_id)

    assert chat.to_openai_messages() == [
        asked(call("a", "a"), call("b", "b"), call("c", "c")),
        answered("c", "c"),
        answered("a", "a"),
        answered("b", NO_OUTPUT),
        said("user", [{"type": "text", "text": "Hurry!"}]),
    ]


def test_ids_are_unique_in_a_message() -> None:
    """A repeated one is numbered, an empty or too long one replaced; across messages ids may repeat."""
    chat = ChatContext()
    for call_id in ("a", "a-2", "a", "", LONG, "a", LONG):
        chat.add_function_call("f", "{}", call_id=call_id)
    chat.add_message("user", "hi")
    chat.add_function_call("f", "{}", call_id="a")

    messages = chat.to_openai_messages()
    ids = [entry["id"] for entry in messages[0]["tool_calls"]]
    assert [ids[0], ids[1], ids[2], ids[5], ids[6]] == ["a", "a-2", "a-3", "a-4", f"{ids[4]}-2"]
    assert all(given.startswith("call_") and len(given) < 40 for given in (ids[3], ids[4], ids[6]))
    assert messages[-2]["tool_calls"][0]["id"] == "a"
    assert [message["tool_call_id"] for message in messages[1:8]] == ids


def test_long_ids_that_repeat_stay_short_enough() -> None:
    """A number takes the place of the last characters, also of an id made for one that was too long."""
    ids = unique_call_ids(["a" * 40, "a" * 40, "b" * 41, "b" * 41, *["c" * 40] * 11], length_max=40)

    assert len(set(ids)) == len(ids)
    assert {len(one) for one in ids} <= {29, 31, 40}
    assert (ids[1], ids[-1]) == ("a" * 38 + "-2", "c" * 37 + "-11")


def test_many_calls_under_one_id_take_no_longer() -> None:
    """Numbers go on where the last one ended."""
    began = time.perf_counter()
    ids = unique_call_ids(["a"] * 20_000, length_max=40)

    assert len({*ids}) == 20_000
    assert time.perf_counter() - began < 2


def test_a_function_name_has_letters_that_the_api_takes() -> None:
    """Others are replaced, so that one odd name does not end a run."""
    names = [function_name(name) for name in ("f", "get.weather", "", "über", "x" * 70)]

    assert names == ["f", "get_weather", "_", "_ber", "x" * 64]


# What a role takes


def test_images_are_taken_from_users_only() -> None:
    """In an answer a text stands for them, and out of instructions they go; data has to say its type (SPEC V1.11c)."""
    parts = ("look", Image(id="i", image="data:,x"), Image(id="j", image="https://e.x/a.png"))
    told = [{"type": "text", "text": f"[Image {one} is left out: images are taken from users only]"} for one in "ij"]
    look: Message = {"type": "text", "text": "look"}

    system, answer, question = openai_messages(context(*(spoken(role, parts) for role in ROLES)))
    assert (system["content"], answer["content"]) == ([look], [look, *told])
    assert question["content"][1]["text"] == "[Image i is left out: its data URL is malformed]"
    assert question["content"][2] == {"type": "image_url", "image_url": {"url": "https://e.x/a.png"}}


def test_no_parts_are_an_empty_text() -> None:
    """The API refuses an empty list (SPEC V9.2)."""
    assert openai_messages(context(spoken("user", ()))) == [said("user", "")]


# Imported messages


def test_an_imported_message_that_would_be_refused_is_made_anew() -> None:
    """Its neighbours stay as they came, with all their fields."""
    good = said("user", "hi", name="mia", x=1)
    messages = [said("user", None, name="x"), good, said("assistant", "a", tool_calls=[])]

    assert openai_messages(items(*messages)) == [said("user", ""), good, said("assistant", "a")]
    assert openai_messages(items(*messages), exact=True) == messages


def test_imported_outputs_keep_their_shape_and_their_order() -> None:
    """An order other than that of the calls is valid, and stays."""
    messages = [
        asked(call("a"), call("b"), content="One moment."),
        answered("b", [TEXT]),
        answered("a", name="look_up"),
    ]

    assert openai_messages(items(*messages)) == messages


def test_calls_of_old_stay_calls_of_old() -> None:
    """With their answer right behind them they are valid; without it they become calls of today."""
    answer = {"role": "function", "name": "pay", "content": "paid"}

    assert openai_messages(items(OLD_CALL, answer)) == [OLD_CALL, answer]
    asking, stub = openai_messages(items(OLD_CALL))
    assert (asking["tool_calls"][0]["function"]["name"], stub["content"]) == ("pay", NO_OUTPUT)


@pytest.mark.parametrize("content", [None, "One moment."])
def test_calls_of_old_and_of_today_exclude_each_other(content: str | None) -> None:
    """A message with both would be refused: it is made anew, with both calls as those of today."""
    both = {**asked(call("a"), content=content), "function_call": {"name": "pay", "arguments": "{}"}}
    sent = openai_messages(items(both, answered("a")))

    assert [call["function"]["name"] for call in sent[0]["tool_calls"]] == ["look_up", "pay"]
    assert "function_call" not in sent[0]


def test_what_is_left_of_two_messages_is_valid() -> None:
    """Calls whose text was evicted come together: a message holds one call of old, and both have to be there."""
    came = items({**OLD_CALL, "content": "one"}, {**OLD_CALL, "content": "two"})
    messages = openai_messages([*came[:2], came[3]])

    assert [len(message.get("tool_calls", ())) for message in messages] == [2, 0, 0]


def test_an_imported_output_can_lose_its_call() -> None:
    """It is left out then, and a call that lost its output is answered (SPEC L7)."""
    came = items(asked(call("a"), content="One moment."), answered("a", name="look_up"))

    assert openai_messages([came[0], came[2]]) == [said("assistant", "One moment.")]
    assert openai_messages(came[:2]) == [asked(call("a"), content="One moment."), answered("a", NO_OUTPUT)]


def test_exact_is_as_it_was_recorded() -> None:
    """Nothing is moved, left out or answered."""
    chat = asking("a")
    chat.add_message("system", "Be kind.")
    chat.add_function_output("b", "found", "b")

    assert chat.to_openai_messages(exact=True) == [
        asked(call("a", "a")),
        said("system", [{"type": "text", "text": "Be kind."}]),
        answered("b"),
    ]


@pytest.mark.parametrize(
    ("role", "sent"), [("system", "system"), ("developer", "system"), ("user", "user"), ("assistant", "assistant")]
)
def test_an_exact_message_has_its_role(role: str, sent: str) -> None:
    """A developer of one's own is the system, which every model takes; an imported one is what it was."""
    made = [{"type": "text", "text": "hi"}]

    assert openai_messages(context(spoken(role, ("hi",))), exact=True) == [said(sent, made)]
    assert openai_messages(items(said(role)), exact=True) == [said(role)]


def test_objects_of_the_package_are_read_too() -> None:
    """A choice's message goes into a context as it comes."""
    message = ChatCompletionMessage.model_validate({**asked(call("a")), "refusal": None})

    assert openai_messages(imported([message, answered("a")])) == [asked(call("a"), refusal=None), answered("a")]


def test_a_bad_message_is_named() -> None:
    """Where it stands, what was found, what was expected."""
    with pytest.raises(InvalidInputError, match=r"messages\[1\].role: 'x' is no role"):
        imported([said("user"), said("x")])
    with pytest.raises(InvalidInputError, match=r"messages\[0\]"):
        imported([said("user", "\ud800")])


def test_text_before_calls_is_a_message_of_its_own() -> None:
    """What was added separately is sent separately (SPEC V9.9)."""
    chat = ChatContext()
    chat.add_message("assistant", "One moment.")
    chat.add_function_call("a", "not JSON", call_id="a")

    text: Message = {"type": "text", "text": "One moment."}
    assert chat.to_openai_messages()[:2] == [said("assistant", [text]), asked(call("a", "a", "not JSON"))]


def test_an_output_is_a_message_of_a_tool() -> None:
    """Its name is not sent, nor that it failed (SPEC V9.10)."""
    chat = asking("a")
    chat.add_function_output("a", "broken", "a", is_error=True)
    chat.add_function_call("b", "{}", call_id="b")

    assert chat.to_openai_messages()[:3] == [
        asked(call("a", "a")),
        answered("a", "broken"),
        asked(call("b", "b")),
    ]


def test_calls_made_here_do_not_join_imported_ones() -> None:
    """An imported message comes out as it came in, whatever was added behind it."""
    chat = ChatContext()
    chat.record_items(items(asked(call("a"))))
    chat.add_function_call("b", "{}", call_id="b")

    sent = chat.to_openai_messages()
    assert [sent[0], sent[2]] == [asked(call("a")), asked(call("b", "b"))]


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
