"""The seed's plain form of a context, written and read (SPEC V13)."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.chat.context import ChatContext
from refold.domain.chat.item_conversion import item_of
from refold.domain.chat.items import ChatMessage, ImageContent
from refold.domain.chat.roles import ChatRole
from refold.domain.errors import DuplicateItemError

from .strategies import ITEM_EVENT, PROPERTY

COMMON = ["type", "id", "created_at", "agent_id"]


def example() -> ChatContext:
    """Return a context with an item of each kind."""
    image = ImageContent(id="i1", image="https://example.org/a.png")
    chat = ChatContext(
        [ChatMessage(id="m1", role=ChatRole.USER, content=["hi", image], extra={"a": [1]}, metrics={"b": 2})]
    )
    chat.add_function_call("f", "{}", call_id="c1", metadata={"a": [1]})
    chat.add_function_output("f", "1", "c1")
    chat.add_handoff("b", "a", "tired")
    chat.add_config_update("Be brief.", ["t"])
    return chat


@pytest.mark.parametrize(
    ("place", "keys"),
    [
        (0, "role content interrupted extra confidence metrics audio_instructions text_instructions"),
        (1, "name arguments call_id metadata"),
        (2, "name output call_id is_error"),
        (3, "from_agent to_agent reason"),
        (4, "instructions tools"),
    ],
)
def test_keys_and_their_order(place: int, keys: str) -> None:
    """V13.1: the common keys first, then those of the kind, as listed."""
    entry = example().to_dict()["items"][place]

    assert list(entry) == COMMON + keys.split()


def test_a_role_is_its_text() -> None:
    """V13.1: a plain str, not the enum."""
    assert type(example().to_dict()["items"][0]["role"]) is str


def test_plain_copies() -> None:
    """V13.2, repaired: what is given out is plain, and changing it changes nothing."""
    chat = example()
    data = chat.to_dict()

    data["items"][0]["content"].clear()
    data["items"][0]["extra"]["a"].append(2)
    data["items"][0]["metrics"].clear()
    data["items"][1]["metadata"]["a"].append(2)
    data["items"][4]["tools"].clear()

    assert chat.to_dict() == ChatContext(chat.items).to_dict()
    assert chat.to_dict()["items"][4]["tools"] == ["t"]


def test_images_are_dumped() -> None:
    """V13.3, repaired: an image is a dict, and the whole is JSON."""
    data = json.loads(json.dumps(example().to_dict()))

    assert data["items"][0]["content"][1] == {
        "id": "i1",
        "type": "image",
        "image": "https://example.org/a.png",
        "inference_detail": "auto",
        "encode_options": {"format": "JPEG", "resize_options": {"width": 320, "height": 240}, "quality": 90},
    }


@PROPERTY
@given(st.lists(ITEM_EVENT, max_size=4, unique_by=lambda event: event.id))
def test_out_and_in_again(events: list[Any]) -> None:
    """V13.1, V13.4: `from_dict(to_dict())` has equal items, also by way of JSON."""
    chat = ChatContext([item_of(event) for event in events])

    assert ChatContext.from_dict(chat.to_dict()).items == chat.items
    assert ChatContext.from_dict(json.loads(json.dumps(chat.to_dict()))).to_dict() == chat.to_dict()


@pytest.mark.parametrize(
    ("data", "missing"),
    [
        ({}, "items"),
        ({"items": [{"type": "agent_handoff", "to_agent": "b"}]}, "id"),
        ({"items": [{"id": "m"}]}, "type"),
    ],
)
def test_what_must_be_there(data: dict[str, Any], missing: str) -> None:
    """V13.4: `items`, and each `id` and `type`."""
    with pytest.raises(KeyError, match=missing):
        ChatContext.from_dict(data)


@pytest.mark.parametrize("entry", [{"created_at": None}, {}])
def test_no_time_is_now(entry: dict[str, Any]) -> None:
    """V13.4: None or absent."""
    data = {"items": [{"type": "message", "id": "m", "role": "user", "content": "hi", **entry}]}

    assert abs(ChatContext.from_dict(data).items[0].created_at - time.time()) < 60


def test_fields_that_may_be_left_out() -> None:
    """V13.4: each has its default then, as in an item that is made anew."""
    data = {"items": [{"type": "message", "id": "m", "role": "assistant", "created_at": 1.0, "content": "hi"}]}
    plain = ChatMessage(id="m", role=ChatRole.ASSISTANT, created_at=1.0, content="hi")

    assert ChatContext.from_dict(data).items[0].model_dump() == plain.model_dump()


def test_unknown_types_are_left_out() -> None:
    """V13.4: silently."""
    data = {"items": [{"type": "telepathy", "id": "t"}, {"type": "agent_handoff", "id": "h", "to_agent": "b"}]}

    assert [item.id for item in ChatContext.from_dict(data).items] == ["h"]


def test_a_role_must_exist() -> None:
    """V13.4: ValueError."""
    with pytest.raises(ValueError, match="tool"):
        ChatContext.from_dict({"items": [{"type": "message", "id": "m", "role": "tool", "content": "hi"}]})


def test_dicts_become_images() -> None:
    """V13.4: a dict among the parts is an image, and `extra` of None is empty."""
    parts = ["hi", {"type": "image", "image": "https://example.org/a.png", "inference_detail": "low"}]
    data = {"items": [{"type": "message", "id": "m", "role": "user", "content": parts, "extra": None}]}

    message = ChatContext.from_dict(data).messages()[0]

    assert isinstance(message.content[1], ImageContent)
    assert (message.content[1].inference_detail, message.extra, message.role) == ("low", {}, ChatRole.USER)


def test_ids_are_unique() -> None:
    """V1.15, repaired: two items under one id are refused, not mixed up later."""
    entry = {"type": "message", "id": "m", "role": "user", "created_at": 1.0}

    with pytest.raises(DuplicateItemError):
        ChatContext.from_dict({"items": [{**entry, "content": "one"}, {**entry, "content": "two"}]})
