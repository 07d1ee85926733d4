"""From OpenAI messages to items: which items there are, and what lies beside them."""

import hashlib
import json
from typing import Any

import pytest

from refold.domain.canonical import canonical_json
from refold.domain.chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded, Origin
from refold.domain.formats.openai import receive as openai_shape
from refold.domain.formats.openai.send import openai_messages
from tests.importing.shapes import answered, asked, call, items, said, shaped


def rest_of(item: ChatItemEvent) -> Any:
    """Return what lies beside an item."""
    assert item.origin is not None
    return json.loads(item.origin.rest or b"{}")


def test_a_message_is_one_item() -> None:
    """Text stays text, and nothing lies beside it."""
    (item,) = items(said("user", "hello"))

    assert isinstance(item, MessageAdded)
    assert (item.role, item.content, item.created_at, item.origin) == ("user", "hello", 1.0, Origin())


def test_text_and_calls_are_items_of_their_own() -> None:
    """The first item starts the message, the others belong to it."""
    (group,) = shaped(asked(call("a", "look_up", "[1]"), call("b", "pay"), content="One moment."))

    kinds = [type(item) for item in group]
    assert kinds == [MessageAdded, FunctionCalled, FunctionCalled]
    assert [item.origin and item.origin.starts for item in group] == [True, False, False]
    assert isinstance(group[1], FunctionCalled)
    assert (group[1].name, group[1].arguments, group[1].call_id) == ("look_up", "[1]", "a")


@pytest.mark.parametrize("content", [None, "", []])
def test_calls_without_text_have_no_message(content: Any) -> None:
    """An empty text beside calls is not an item."""
    (group,) = shaped(asked(call("a"), content=content))

    assert [type(item) for item in group] == [FunctionCalled]


def test_parts_are_text_and_images() -> None:
    """Other kinds of parts lie beside the item, at their place."""
    audio = {"type": "input_audio", "input_audio": {"data": "AA=="}}
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/p.png", "detail": "low"}}
    (item,) = items(said("user", [{"type": "text", "text": "this"}, audio, picture]))

    assert isinstance(item, MessageAdded)
    text, image = list(item.content)
    assert isinstance(image, Image)
    assert (text, image.image, image.inference_detail) == ("this", "https://example.com/p.png", "low")
    assert rest_of(item) == {"parts": [[1, audio]]}


def test_ids_follow_from_context_and_place() -> None:
    """The same file gives the same ids, another context others; all have the prefixes of their kinds."""
    messages = [said("user"), asked(call("a")), answered("a")]
    ids = [item.id for item in items(*messages)]

    assert ids == [item.id for item in items(*messages)]
    assert [item_id.rpartition("_")[0] for item_id in ids] == ["msg", "call", "output"]
    assert all(len(item_id.rpartition("_")[2]) == 12 for item_id in ids)
    others = [item.id for group in shaped(*messages, context_id="d") for item in group]
    assert not {*ids} & {*others}


def test_ids_that_meet_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should two places give the same digits, the second tries again."""
    real = hashlib.blake2b

    def poor(data: bytes, *, digest_size: int) -> Any:
        return real(data[-1:], digest_size=digest_size)

    monkeypatch.setattr(hashlib, "blake2b", poor)

    ids = {item.id for item in items(said("user"), said("user"), said("user"))}
    assert len(ids) == 3


def test_an_output_takes_the_name_of_its_call() -> None:
    """Where a tool's message has no name, the call that it answers gives it."""
    outputs = [
        item.name
        for item in items(asked(call("a", "look_up"), call("b", "pay")), answered("b"), answered("a"))
        if isinstance(item, FunctionReturned)
    ]

    assert outputs == ["pay", "look_up"]


def test_repeated_call_ids_pair_by_occurrence() -> None:
    """An output answers the latest message that still waits, and within it the calls in their order."""
    messages = [
        asked(call("a", "first")),
        answered("a"),
        asked(call("a", "never answered")),
        asked(call("a", "third"), call("a", "fourth")),
        answered("a"),
        answered("a"),
        answered("a"),
        answered("a"),
    ]
    names = [item.name for item in items(*messages) if isinstance(item, FunctionReturned)]

    assert names == ["first", "third", "fourth", "never answered", ""]


def test_a_name_that_is_there_wins() -> None:
    """What the message says is what the item says."""
    *_, output = items(asked(call("a", "look_up")), answered("a", name="looked_up"))

    assert isinstance(output, FunctionReturned)
    assert (output.name, rest_of(output)) == ("looked_up", {"named": True})


def test_calls_of_old_pair_by_name() -> None:
    """A function_call has no id: its item's stands for it, and the function's message finds it."""
    old = {"role": "assistant", "content": None, "function_call": {"name": "look_up", "arguments": "{}"}}
    asking, answer = items(old, {"role": "function", "name": "look_up", "content": "found"})

    assert isinstance(asking, FunctionCalled)
    assert isinstance(answer, FunctionReturned)
    assert asking.call_id == asking.id == answer.call_id


def test_a_custom_call_is_a_call() -> None:
    """Its input stands for the arguments."""
    (item,) = items(asked({"id": "a", "type": "custom", "custom": {"name": "shell", "input": "ls"}}))

    assert isinstance(item, FunctionCalled)
    assert (item.name, item.arguments) == ("shell", "ls")


def test_text_is_stored_once() -> None:
    """In all usual shapes, what the items say is not said again beside them."""
    text = "a text of some length"
    messages = [
        said("user", text, name="mia"),
        said("user", [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]),
        asked(call("a", "look_up", text, index=0), content=text, refusal=None),
        answered("a", [{"type": "text", "text": text}, {"type": "text", "text": text}], name="look_up"),
        {"role": "assistant", "content": None, "function_call": {"name": "look_up", "arguments": text}},
        {"role": "function", "name": "look_up", "content": text},
    ]

    assert not [item for item in items(*messages) if text in (item.origin or Origin()).rest.decode()]


def test_a_message_that_would_differ_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should shaping ever miss something, the round trip holds all the same."""
    monkeypatch.setattr(openai_shape, "difference", lambda plain, wanted: {})
    message = asked(call("a", index=0), content="One moment.", name="helper")
    group = items(message)

    assert rest_of(group[0]) == {"whole": message, "items": 2}
    assert canonical_json(openai_messages(group, exact=True), what="") == canonical_json([message], what="")


def test_what_is_left_of_a_message_stays_a_message() -> None:
    """Items can be taken out of a context: calls whose text is gone are an assistant's message still."""
    group = items(said("user"), asked(call("a"), call("b"), content="One moment.", name="helper"))

    assert openai_messages([group[0], *group[2:]], exact=True) == [said("user"), asked(call("a"), call("b"))]


def test_half_of_a_message_kept_whole_is_made_of_its_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole message is given back only as long as all of its items are there."""
    monkeypatch.setattr(openai_shape, "difference", lambda plain, wanted: {})
    group = items(asked(call("a", index=0), call("b"), content="One moment."))

    assert openai_messages(group[:2], exact=True) == [asked(call("a"), content="One moment.")]
