"""From Anthropic messages back to items."""

import json
from typing import Any

import pytest
from hypothesis import given

from refold.domain.canonical import parse_json
from refold.domain.chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded
from refold.domain.errors import InvalidInputError
from refold.domain.formats.anthropic.receive import items_from_anthropic
from refold.domain.formats.anthropic.send import anthropic_messages
from refold.domain.formats.send import UniqueIds
from refold.domain.log.envelope import encode_payload
from tests.domain.fakes import CountingSystem

from .provider_contexts import CONTEXTS, MANY, PIXEL, unmarked

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}


def read(*messages: Any, system: Any = None) -> list[ChatItemEvent]:
    """Return the items of messages."""
    return items_from_anthropic(messages, system, system_clock=CountingSystem())


@given(CONTEXTS)
@MANY
def test_back_and_forth_is_stable(items: list[ChatItemEvent]) -> None:
    """What our own converter made comes out the same again, and the items can be recorded under ids of their own."""
    plain = anthropic_messages(items)
    assert anthropic_messages(read(*plain[0], system=plain[1])) == plain

    for caching in (False, True):
        messages, system = anthropic_messages(items, caching=caching)
        back = read(*messages, system=system)

        # A dummy at the end has no mark, which what is read back knows nothing of.
        assert unmarked(anthropic_messages(back, caching=True)[0]) == unmarked(
            anthropic_messages(items, caching=True)[0]
        )
        assert len({item.id for item in back}) == len(back)
        assert all(encode_payload(item) for item in back)


def test_a_conversation() -> None:
    """Texts, images, calls and outputs become items, the system text the first; the clock is asked once."""
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL.partition(",")[2]}
    items = read(
        {"role": "user", "content": [{"type": "image", "source": source}, {"type": "text", "text": "look"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"b": 1, "a": "é"}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "no", "is_error": True}]},
        {"role": "assistant", "content": "sorry"},
        system="S",
    )

    assert [type(item) for item in items] == [
        MessageAdded,
        MessageAdded,
        FunctionCalled,
        FunctionReturned,
        MessageAdded,
    ]
    system, look, call, output, sorry = items
    assert (system.role, system.content, sorry.role, sorry.content) == ("system", "S", "assistant", "sorry")  # type: ignore[union-attr]
    assert isinstance(look, MessageAdded)
    assert isinstance(look.content[0], Image)
    assert (look.content[0].image, look.content[1]) == (PIXEL, "look")
    assert (call.name, call.arguments, call.call_id) == ("f", '{"b":1,"a":"é"}', "c1")  # type: ignore[union-attr]
    assert (output.name, output.output, output.is_error) == ("f", "no", True)  # type: ignore[union-attr]
    assert {item.created_at for item in items} == {1_001.0}


def test_what_items_have_no_field_for_is_kept() -> None:
    """Thinking stays with what it stood before and is sent again; other blocks are kept as they are."""
    odd = {"type": "server_tool_use", "id": "x", "name": "web_search", "input": {}}
    use = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
    content = [THOUGHT, {"type": "text", "text": "a"}, THOUGHT, {**use, "cache_control": {"type": "ephemeral"}}, odd]
    message, call = read({"role": "assistant", "content": content})

    assert parse_json(message.extra) == {"anthropic": {"blocks": [THOUGHT, odd]}}  # type: ignore[union-attr]
    assert parse_json(call.metadata) == {"anthropic": {"blocks": [THOUGHT]}}  # type: ignore[union-attr]
    assert anthropic_messages([message, call])[0][1]["content"] == [
        THOUGHT,
        {"type": "text", "text": "a"},
        THOUGHT,
        use,
    ]


TEXT = {"type": "text", "text": "look"}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL.partition(",")[2]}}


@pytest.mark.parametrize(
    ("content", "counts"),
    [
        ([TEXT, TEXT], [2]),
        ([PICTURE, PICTURE], [2]),
        ([PICTURE, TEXT, TEXT], [3]),
        # A message is sent as its images, then its texts.
        ([TEXT, PICTURE], [1, 1]),
        ([PICTURE, TEXT, PICTURE], [2, 1]),
        ([TEXT, {"type": "document"}, TEXT], [1, 1]),
    ],
)
def test_parts_of_a_message_stay_together(content: list[Any], counts: list[int]) -> None:
    """As long as they are sent in the same order again."""
    items = read({"role": "user", "content": content})

    assert [len(item.content) if isinstance(item.content, tuple) else 1 for item in items] == counts  # type: ignore[union-attr]


def test_calls_of_one_id_get_the_next_free_number() -> None:
    """Also where a recorded id looks like one with a number."""
    ids = UniqueIds(str)

    assert [ids.take(one) for one in ("a", "a_2", "a", "a", "b", "a_2")] == ["a", "a_2", "a_3", "a_4", "b", "a_2_2"]


@pytest.mark.parametrize(
    ("content", "kept"),
    [("a", "a"), ([], ""), ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb"),
     ([{"type": "image", "source": {}}], '[{"type":"image","source":{}}]')],
)  # fmt: skip
def test_outputs_are_text(content: Any, kept: str) -> None:
    """Texts are joined, all else is kept as JSON; a result of no call is an output of no name."""
    (output,) = read({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c9", "content": content}]})

    assert (output.output, output.name) == (kept, "")  # type: ignore[union-attr]


def seen(*content: Any, **fields: Any) -> Any:
    """Return the content of an output as it is sent again."""
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [*content], **fields}
    items = read({"role": "assistant", "content": [use]}, {"role": "user", "content": [result]})
    return anthropic_messages(items)[0][-1]["content"][0]["content"]


def test_an_image_in_an_output_is_sent_as_one() -> None:
    """It is kept as JSON, which a model would read as text, at a price."""
    media_type, data = PIXEL.removeprefix("data:").split(";base64,")
    image = {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
    text = {"type": "text", "text": "the page"}

    assert seen(text, {**image, "cache_control": {"type": "ephemeral"}}) == [text, image]
    assert seen(image, {"type": "text", "text": " "}) == [image]
    assert json.loads(seen(image, is_error=True)) == [image]


@pytest.mark.parametrize(
    "source",
    [
        {"type": "url", "url": 'https://e.x/base64.png?a="base64"'},
        {"type": "base64", "media_type": "image/tiff", "data": "YWJj"},
        {"type": "base64", "media_type": "image/png", "data": "!"},
        {"type": "base64", "media_type": "image/png"},
    ],
)
def test_an_image_that_cannot_be_sent_stays_text(source: Any) -> None:
    """An address in particular: the provider would load what the output of a tool names."""
    image = {"type": "image", "source": source}

    assert json.loads(seen(image)) == [image]


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("hi", "messages[0]: found text, expected an object"),
        ({"role": "tool", "content": ""}, ".role: 'tool' is no role, expected one of user, assistant, system"),
        ({"role": "user"}, "messages[0].content: found null, expected text or a list of blocks"),
        ({"role": "user", "content": [1]}, "content[0]: found a number, expected an object"),
        ({"role": "user", "content": [{"type": "text"}]}, "content[0].text: missing, expected text"),
        ({"role": "user", "content": [{"type": "image", "source": []}]}, "source: found a list, expected an object"),
        ({"role": "assistant", "content": [{"type": "tool_use", "name": "f", "id": None}]}, ".id: found null"),
        ({"role": "user", "content": "\ud800"}, "lone surrogate"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(message: Any, fault: str) -> None:
    """The error says where, what was found and what was expected."""
    with pytest.raises(InvalidInputError) as refused:
        read(message)

    assert fault in str(refused.value)
