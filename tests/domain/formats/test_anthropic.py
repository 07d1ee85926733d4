"""To Anthropic messages: what comes out, case by case; that it is valid for all contexts; what breaks the rules."""

import json
from typing import Any

import pytest
from anthropic.types import MessageParam
from hypothesis import given
from pydantic import TypeAdapter, ValidationError

from refold.domain.chat.events import ChatItemEvent, Origin
from refold.domain.formats.anthropic import source_shape as anthropic_shape
from refold.domain.formats.anthropic.send import BLANK_ERROR, anthropic_messages
from refold.domain.formats.openai import source_shape as openai_shape
from refold.domain.formats.send import DUMMY_FIRST, DUMMY_LAST, NO_OUTPUT
from tests.domain.chat_events import configured, handed, said
from tests.support.provider_rules.anthropic import blocks_of, faults

from .provider_contexts import CONTEXTS, MANY, PIXEL, call, output, packed, pictured

OFFICIAL = TypeAdapter(list[MessageParam])
ASKED = said("u1", "w?")


def sent(*items: ChatItemEvent, **options: Any) -> list[dict[str, Any]]:
    """Return the messages, which must be valid."""
    messages, system = anthropic_messages(items, **options)
    assert faults(messages, system, prefill=options.get("allow_prefill", False)) == []
    return messages


@pytest.mark.parametrize("shape", [anthropic_shape, openai_shape])
def test_an_origin_that_no_import_makes(shape: Any) -> None:
    """An event that got in all the same is told without it."""
    rest = json.dumps({"anthropic": {"whole": {}}, "message": 7}).encode()

    assert shape.message_of([said("u1", "w?", origin=Origin(rest=rest))]) == {"role": "user", "content": "w?"}


def use(call_id: str = "c1", name: str = "f", **arguments: Any) -> dict[str, Any]:
    """Return the block of a call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str = "c1", content: str = "found", *, is_error: bool = False) -> dict[str, Any]:
    """Return the block of an output."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}


def user(*blocks: Any) -> dict[str, Any]:
    """Return a user's message."""
    return {"role": "user", "content": blocks[0] if len(blocks) == 1 and isinstance(blocks[0], str) else [*blocks]}


def assistant(*blocks: Any) -> dict[str, Any]:
    """Return an assistant's message."""
    return {**user(*blocks), "role": "assistant"}


def picture(**source: str) -> dict[str, Any]:
    """Return the block of an image."""
    return {"type": "image", "source": source}


def text(content: str) -> dict[str, Any]:
    """Return a block of text."""
    return {"type": "text", "text": content}


@given(CONTEXTS)
@MANY
def test_what_comes_out_is_valid(items: list[ChatItemEvent]) -> None:
    """Whatever lies in a context, in any order, with and without cache marks and prefill."""
    for options in ({}, {"caching": True}, {"allow_prefill": True}):
        messages, system = anthropic_messages(items, **options)

        assert faults(messages, system, prefill="allow_prefill" in options) == []
        validate(messages)


def validate(messages: list[dict[str, Any]]) -> None:
    """Hold messages against the package's own types, whose blocks are looked at only when they are walked through."""
    for message in OFFICIAL.validate_python(messages):
        for block in message["content"]:
            assert block


@pytest.mark.parametrize("wrong", [{"type": "text"}, {"type": "tool_use", "id": "c1", "name": "f", "input": [1]}, {}])
def test_the_official_types_can_refuse(wrong: dict[str, Any]) -> None:
    """A block that lacks a field, or has another kind of value in it, is found."""
    with pytest.raises(ValidationError):
        validate([{"role": "user", "content": [wrong]}])


def test_a_conversation() -> None:
    """Roles alternate by merging neighbours; the system text is apart; handoffs are not sent (SPEC V10.3, V10.9)."""
    items = (
        said("s", ("S", "T"), role="system"),
        ASKED,
        said("u2", ("a", "b")),
        handed(),
        said("m", "yo", role="assistant"),
        said("u3", "bye"),
    )

    assert anthropic_messages(items) == ([user(text("w?"), text("a"), text("b")), assistant("yo"), user("bye")], "S T")


@pytest.mark.parametrize(
    ("items", "system"),
    [((), None), ((configured(instructions="NEW"),), "NEW"), ((said("s", "S", role="developer"),), "S"),
     ((said("s", "S", role="system"), configured(instructions="")), "")],
)  # fmt: skip
def test_the_system_text_is_that_in_force(items: tuple[ChatItemEvent, ...], system: str | None) -> None:
    """One rule, the one of `active_config` (SPEC V10.2)."""
    assert anthropic_messages(items)[1] == system


def test_a_batch_is_one_turn() -> None:
    """Calls side by side are asked at once, and answered in their order, before what the user said meanwhile."""
    items = (ASKED, said("m", "let me see", role="assistant"), call("c1"), handed(), call("c2", "g", '{"a": 1}'),
             said("u2", "hurry"), output("c2", "2", is_error=True), output("c1", "1"))  # fmt: skip

    assert sent(*items) == [
        user("w?"),
        assistant(text("let me see"), use("c1"), use("c2", "g", a=1)),
        user(result("c1", "1"), result("c2", "2", is_error=True), text("hurry")),
    ]


def test_a_chain_keeps_its_order() -> None:
    """A call made after an output is a turn of its own (SPEC V10.7)."""
    chain = sent(ASKED, call("c1"), output("c1"), call("c2"), output("c2"))

    assert chain == [user("w?"), assistant(use("c1")), user(result("c1")), assistant(use("c2")), user(result("c2"))]


def test_calls_without_output_and_outputs_without_call() -> None:
    """The one is answered by a text that says so, the other is left out (SPEC V10.8)."""
    assert sent(ASKED, call("c1"), output("c9")) == [
        user("w?"), assistant(use("c1")), user(result("c1", NO_OUTPUT, is_error=True)),
    ]  # fmt: skip


@pytest.mark.parametrize("blank", ["", " \n"])
def test_a_failed_call_that_said_nothing(blank: str) -> None:
    """The API refuses an error without a text; an empty output of a call that went well is sent as it is."""
    answers = sent(ASKED, call("c1"), output("c1", blank, is_error=True), call("c2"), output("c2", blank))[2::2]

    assert answers == [user(result("c1", BLANK_ERROR, is_error=True)), user(result("c2", blank))]


def test_repeated_ids_get_a_number() -> None:
    """Each output goes to its own call; characters that are refused become underscores (SPEC V10.12)."""
    ids = ["X", "X", "X_2", "X", "a.b", "a_b"]
    items: list[ChatItemEvent] = [item for call_id in ids for item in (call(call_id), output(call_id, call_id))]
    asked = [
        block["id"] for message in sent(ASKED, *items) for block in blocks_of(message) if block["type"] == "tool_use"
    ]

    assert asked == ["X", "X_2", "X_2_2", "X_3", "a_b", "a_b_2"]


@pytest.mark.parametrize(
    ("arguments", "made"),
    [("{}", {}), ("", {}), (" ", {}), ("null", {}), ('{"a":{"b":[1]}}', {"a": {"b": [1]}}), ("{bad", None),
     ("[1]", None), ("1e999", None), ('{"a":NaN}', None), ('{"a":"\\ud800"}', None), ("[" * 5000, None)],
)  # fmt: skip
def test_arguments_are_an_object(arguments: str, made: dict[str, Any] | None) -> None:
    """What is none goes under `arguments`, as text; nothing at all is none (SPEC V10.5)."""
    messages = sent(ASKED, call(arguments=arguments), output())

    assert messages[1]["content"][0]["input"] == ({"arguments": arguments} if made is None else made)


@pytest.mark.parametrize("empty", ["", "  ", (), ("",), ("\n", " ")])
def test_blank_texts_are_not_sent(empty: Any) -> None:
    """The provider refuses them (SPEC V10.10); a message of nothing else is no message."""
    assert sent(ASKED, said("m", empty, role="assistant"), said("u", "b")) == [user(text("w?"), text("b"))]


def test_the_ends_are_the_users() -> None:
    """Where they are not, a text that nobody wrote stands there; newer models refuse a prefill (SPEC L8, X3)."""
    spoke = said("m", "hm \n", role="assistant")

    assert sent() == [user(DUMMY_FIRST)]
    assert sent(spoke) == [user(DUMMY_FIRST), assistant("hm \n"), user(DUMMY_LAST)]
    assert sent(spoke, allow_prefill=True) == [user(DUMMY_FIRST), assistant("hm")]


def test_pictures() -> None:
    """Images come before texts, as inline data or as an address (SPEC V10.3, V10.4)."""
    inline = {"type": "base64", "media_type": "image/png", "data": PIXEL.partition(",")[2]}

    assert sent(pictured()) == [user({"type": "image", "source": inline}, text("look"))]
    assert sent(pictured("https://e.x/a"))[0]["content"][0]["source"] == {"type": "url", "url": "https://e.x/a"}


@pytest.mark.parametrize(
    ("url", "role", "why"),
    [("data:image/png", "user", "its data URL is malformed"), ("data:,x", "user", "its data URL is malformed"),
     ("data:image/png;base64,?", "user", "its data URL is malformed"),
     ("data:image/bmp;base64,eA==", "user", "image/bmp cannot be sent"),
     ("http://e.x", "user", "only https addresses can be sent: http://e.x"),
     (PIXEL, "assistant", "an assistant's message cannot hold one"),
     ("https://e.x", "assistant", "an assistant's message cannot hold one: https://e.x")],
)  # fmt: skip
def test_pictures_that_cannot_be_sent(url: str, role: str, why: str) -> None:
    """A text says which, and why: one bad picture does not end a run (SPEC V1.11c)."""
    blocks = [block for message in sent(pictured(url, role=role)) for block in blocks_of(message)]

    assert text(f"[Image img_1 is left out: {why}]") in blocks


def test_thinking_goes_back_to_where_it_was() -> None:
    """What was kept beside a message or a call is sent before it, without marks; unknown shapes are not."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    beside = {"anthropic": {"blocks": [{**thought, "cache_control": {}}, {"type": "thinking"}, {"type": "odd"}]}}

    spoke = said("m", "a", role="assistant", extra=packed(beside))
    assert sent(ASKED, spoke, call(metadata=beside))[1] == assistant(thought, text("a"), thought, use())
    silent = said("m", "\n\n", role="assistant", extra=packed(beside))
    assert sent(ASKED, silent) == [user("w?")]
    # The API refuses a call without the thinking before it.
    assert sent(ASKED, silent, call())[1] == assistant(thought, use())
    assert sent(ASKED, silent, said("u2", "go on"), call())[1] == assistant(use())


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([], "at least one message"),
        ([assistant("a"), user("b")], "first message"),
        ([user("a"), user("b")], "alternate"),
        ([user("a"), {"role": "tool", "content": "b"}, user("c")], "does not exist"),
        ([user("a"), assistant("b")], "prefill"),
        ([user("a"), assistant("b ")], "trailing whitespace"),
        ([user("")], "non-empty"),
        ([{"role": "user", "content": []}], "non-empty"),
        ([user(text(" "))], "non-whitespace"),
        ([user("a"), assistant(use()), user("b")], "answered by"),
        ([user("a"), assistant(use()), user(text("b"), result())], "come first"),
        ([user("a"), assistant(use(), use("c2")), user(result("c2"), result())], "answered by"),
        ([user("a"), assistant(use(), use()), user(result(), result())], "unique"),
        ([user("a"), assistant(use()), user(result()), assistant(use()), user(result())], "unique"),
        ([user(result())], "answered by"),
        ([user("a"), assistant(use()), user(result("c1", " ", is_error=True))], "cannot be empty"),
        ([user("a"), assistant(use())], "no tool_result"),
        ([user("a"), assistant(use("a.b")), user(result("a.b"))], "id should match"),
        ([user("a"), assistant(use(name="")), user(result())], "name should match"),
        ([user("a"), assistant({**use(), "input": [1]}), user(result())], "should be an object"),
        ([user(use()), assistant("a"), user("b")], "not permitted"),
        ([user("a"), assistant(picture(type="url", url="https://e")), user("b")], "not permitted"),
        ([user(picture(type="url", url="http://e"))], "HTTPS"),
        ([user(picture(type="base64", media_type="image/bmp", data="eA=="))], "media_type"),
        ([user(picture(type="base64", media_type="image/png", data="?"))], "base64"),
        ([user(*[{**text("a"), "cache_control": {}}] * 5)], "maximum of 4"),
        ([user({**text(""), "cache_control": {}})], "cannot be set"),
        ([user(text("\ud800"))], "written as JSON"),
        ([user("a"), assistant(use(a=float("nan"))), user(result())], "written as JSON"),
    ],
)  # fmt: skip
def test_the_checker_can_fail(messages: list[dict[str, Any]], fault: str) -> None:
    """Each rule is found broken where it is."""
    assert fault in "; ".join(faults(messages))


def test_what_is_returned_is_the_callers() -> None:
    """Changing an answer changes no other, and the items least of all."""
    items: list[ChatItemEvent] = [ASKED, call(arguments='{"a": [1]}'), output()]
    first = json.dumps(sent(*items))
    sent(*items)[1]["content"][0]["input"]["a"].append(2)

    assert json.dumps(sent(*items)) == first
