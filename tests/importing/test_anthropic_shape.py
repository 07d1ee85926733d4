"""From Anthropic messages to items that give them back."""

import json
from typing import Any

import pytest
from hypothesis import given

from refold.domain.canonical import canonical_json
from refold.domain.chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, MessageAdded
from refold.domain.formats.anthropic import receive as anthropic_shape
from refold.domain.formats.anthropic.receive import AnthropicShaper, shape_anthropic_messages
from refold.domain.formats.anthropic.send import anthropic_messages
from refold.domain.formats.anthropic.source_shape import source_messages
from refold.domain.formats.openai.send import openai_messages
from tests.domain.chat_events import configured, said
from tests.domain.formats.provider_contexts import PIXEL
from tests.domain.strategies import PROPERTY
from tests.support.provider_rules.anthropic import faults

from .anthropic_strategies import CACHED, CONVERSATION, SYSTEM

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
USE = {"type": "tool_use", "id": "c1", "name": "f", "input": {"b": 1, "a": "é"}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "found"}


def shaped(*messages: Any, system: Any = None) -> list[ChatItemEvent]:
    """Return the items of messages."""
    groups = shape_anthropic_messages(messages, system, context_id="c", created_at=1.0)
    return [item for group in groups for item in group]


def rest_of(item: ChatItemEvent) -> Any:
    """Return what lies beside an item."""
    assert item.origin is not None
    return json.loads(item.origin.rest or b"{}")


def text(words: str, **fields: Any) -> dict[str, Any]:
    """Return a text block."""
    return {"type": "text", "text": words, **fields}


@PROPERTY
@given(messages=CONVERSATION, system=SYSTEM)
def test_what_came_in_goes_out(messages: list[Any], system: Any) -> None:
    """JSON for JSON, whatever the messages look like; and what is made to be sent of them can be."""
    items = shaped(*messages, system=system)
    as_came = anthropic_messages(items, exact=True)

    assert canonical_json(as_came, what="") == canonical_json((messages, system), what="")
    assert source_messages(items)[0 if system is None else 1 :] == as_came[0]
    assert faults(*anthropic_messages(items)) == []


def test_a_plain_message_has_next_to_nothing_beside_it() -> None:
    """Texts, calls and outputs are in their items alone."""
    items = shaped(
        {"role": "user", "content": "hi"}, {"role": "assistant", "content": [text("a"), USE]},
        {"role": "user", "content": [RESULT, text("b")]}, system="S",
    )  # fmt: skip

    assert [rest_of(item) for item in items] == [
        {"anthropic": {"system": True}}, {"anthropic": {}}, {"anthropic": {}}, {}, {"anthropic": {}}, {},
    ]  # fmt: skip
    assert [item.origin and item.origin.starts for item in items] == [True, True, True, False, True, False]


@pytest.mark.parametrize(
    ("content", "beside"),
    [
        ([text("a", cache_control=CACHED)], {"blocks": {"0": {"set": {"cache_control": CACHED}}}}),
        ([{**RESULT, "is_error": False}], {"blocks": {"0": {"set": {"is_error": False}}}}),
        ([{**RESULT, "content": None}], {"blocks": {"0": {"in": {"content": {"is": None}}}}}),
        ([{**RESULT, "content": [text("ab"), text("c")]}], {"texts": [2, 1]}),
        ([{**RESULT, "content": [{"type": "image"}]}], {"json": True}),
        ([text("a"), RESULT], {"places": [1]}),
    ],
)
def test_what_lies_beside(content: Any, beside: dict[str, Any]) -> None:
    """A patch of what differs from the plain form, and never a text twice."""
    first = shaped({"role": "user", "content": content})[0]

    assert rest_of(first) == {"anthropic": beside}


def test_texts_images_and_blocks_become_parts() -> None:
    """A picture is one, thinking is kept where it is sent again from."""
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL.partition(",")[2]}
    looked, answered, called, returned = shaped(
        {"role": "user", "content": [{"type": "image", "source": source}, text("look")]},
        {"role": "assistant", "content": [THOUGHT, text("a"), USE]},
        {"role": "user", "content": [{**RESULT, "is_error": True}]},
    )

    assert isinstance(looked, MessageAdded)
    assert looked.content[0].image == PIXEL  # type: ignore[union-attr]
    assert isinstance(answered, MessageAdded)
    assert json.loads(answered.extra) == {"anthropic": {"blocks": [THOUGHT]}}
    assert isinstance(called, FunctionCalled)
    assert called.arguments == '{"b":1,"a":"é"}'
    assert isinstance(returned, FunctionReturned)
    assert (returned.name, returned.is_error) == ("f", True)


def test_ids_follow_from_places() -> None:
    """The same at each import, and no two alike."""
    messages = [{"role": "user", "content": [text("a"), {"type": "image", "source": {"type": "url", "url": "u"}}]}] * 3
    ids = [item.id for item in shaped(*messages)]

    assert ids == [item.id for item in shaped(*messages)]
    assert len({*ids}) == len(ids) == 6


def test_what_is_gone_is_not_made_up() -> None:
    """Where some items of a message have left the view, the others are its blocks."""
    items = shaped(
        {"role": "user", "content": [RESULT, {**RESULT, "tool_use_id": "c2"}]},
        {"role": "assistant", "content": [text("a", x=1), THOUGHT, text("b"), {**USE, "y": 2}], "id": "m"},
    )

    assert anthropic_messages(items[1:], exact=True)[0][0] == {
        "role": "user",
        "content": [{**RESULT, "tool_use_id": "c2"}],
    }
    assert anthropic_messages([*items[:3], items[-1]], exact=True)[0][1] == {
        "role": "assistant", "content": [text("a", x=1), {**USE, "y": 2}], "id": "m",
    }  # fmt: skip


def test_what_was_said_since_follows() -> None:
    """Items made by calls have the plain shape, and neighbours of one role are one message."""
    items = [*shaped({"role": "user", "content": "hi", "x": 1}, system="S"), *_made("user", "assistant", "assistant")]

    assert anthropic_messages(items, exact=True) == (
        [
            {"role": "user", "content": "hi", "x": 1},
            {"role": "user", "content": "user"},
            {"role": "assistant", "content": [text("assistant"), text("assistant")]},
        ],
        "S",
    )


def test_instructions_that_were_given_since_are_the_system_text() -> None:
    """The last that tell any; tools alone do not."""
    items = shaped({"role": "user", "content": "hi"}, system=[text("S", cache_control=CACHED)])

    assert anthropic_messages([*items, configured("c1", tools=("f",))], exact=True)[1] == [
        text("S", cache_control=CACHED)
    ]
    assert anthropic_messages([*items, configured("c1", instructions="T")], exact=True)[1] == "T"
    assert anthropic_messages([*items, *_made("system")], exact=True)[1] == "system"


def test_a_context_that_was_not_imported_is_as_it_is_sent() -> None:
    """It has no shape of its own to keep."""
    items = _made("assistant")

    assert anthropic_messages(items, exact=True) == anthropic_messages(items)


def test_a_message_that_its_source_parted_is_one() -> None:
    """Its blocks come together, and the last word on its fields counts; its pieces are still known."""
    shaper = AnthropicShaper("c")
    pieces = [
        {"role": "assistant", "content": [THOUGHT], "id": "m", "stop_reason": None},
        {"role": "assistant", "content": "a", "id": "m", "stop_reason": None},
        {"role": "assistant", "content": [USE], "id": "m", "stop_reason": "tool_use"},
    ]
    items = [
        item
        for n, piece in enumerate(pieces)
        for item in shaper.items_of(n, piece, "x", created_at=n, continues=n > 0, source={"from": n})
    ]

    whole = {"role": "assistant", "content": [THOUGHT, text("a"), USE], "id": "m", "stop_reason": "tool_use"}
    assert anthropic_messages(items, exact=True) == ([whole], None)
    assert source_messages(items) == pieces
    assert [rest_of(item)["from"] for item in items] == [item.created_at for item in items] == [0, 1, 2]
    assert len(openai_messages(items, exact=True)) == 2


def test_whatever_cannot_be_rebuilt_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should patches ever be wrong, the round trip is not; with an item gone the rest are still there."""
    monkeypatch.setattr(anthropic_shape, "difference", lambda plain, wanted: {})
    message = {"role": "assistant", "content": [text("a", x=1), USE]}
    items = shaped(message)

    assert rest_of(items[0]) == {"anthropic": {"whole": message, "items": 2}}
    assert anthropic_messages(items, exact=True) == ([message], None)
    assert anthropic_messages(items[:1], exact=True) == ([{"role": "assistant", "content": [text("a")]}], None)


def _made(*roles: str) -> list[ChatItemEvent]:
    return [said(f"made {number}", role, role=role) for number, role in enumerate(roles)]


@pytest.mark.parametrize(("role", "block"), [("assistant", RESULT), ("user", USE)])
def test_a_block_in_a_message_of_the_other_role(role: str, block: dict[str, Any]) -> None:
    """It goes out in the message in which it came in."""
    messages = [{"role": "user", "content": "hi"}, {"role": role, "content": [text("a"), block, text("b")]}]

    assert source_messages(shaped(*messages)) == messages
