"""The public items of a chat context: the seed's models, read-only all the way down (SPEC V1)."""

import copy
import json
import pickle
import re
import subprocess
import sys
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from pydantic import BaseModel, ValidationError

import refold
from refold.domain.chat import item_list
from refold.domain.chat.item_conversion import item_of, recorded_form
from refold.domain.chat.item_list import ShownItems
from refold.domain.chat.items import (
    AgentConfigUpdate,
    AgentHandoff,
    ChatItem,
    ChatMessage,
    EncodeOptions,
    FunctionCall,
    FunctionCallOutput,
    ImageContent,
    ResizeOptions,
)
from refold.domain.chat.roles import ChatRole
from refold.domain.chat.state.fold import EMPTY, fold
from refold.domain.chat.state.sequence import Items
from refold.domain.concurrency import collector
from refold.domain.errors import DecisionRefusedError

from .chat_events import said
from .edit_events import STEPS, line_of
from .strategies import ITEM_EVENT, PROPERTY

MESSAGE = ChatMessage(role=ChatRole.USER, content=["hi", ImageContent(image="data:,x")], extra={"a": [{"b": 1}]})
CALL = FunctionCall(name="f", arguments="{}", call_id="c", metadata={"a": [1]})
OUTPUT = FunctionCallOutput(name="f", output="1", call_id="c")
HANDOFF = AgentHandoff(to_agent="b")
CONFIG = AgentConfigUpdate(tools=["t"])
IMAGE = ImageContent(image="https://example.org/a.png")
ITEMS: list[Any] = [MESSAGE, CALL, OUTPUT, HANDOFF, CONFIG]
MADE_BY = time.time()


def test_roles() -> None:
    """V1.1: four roles, each equal to its text; none for tools."""
    roles = {role.name: str(role.value) for role in ChatRole}

    assert roles == {"SYSTEM": "system", "DEVELOPER": "developer", "USER": "user", "ASSISTANT": "assistant"}
    assert all(role == role.value for role in ChatRole)


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.type)
def test_what_all_items_have(item: Any) -> None:
    """V1.2: pydantic models with the time they were made and no agent."""
    assert abs(MADE_BY - item.created_at) < 600
    assert item.agent_id is None
    assert isinstance(item, BaseModel)


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (MESSAGE, "hi"),
        (ChatMessage(role=ChatRole.USER, content="as one text"), "as one text"),
        (CALL, "{}"),
        (OUTPUT, "1"),
        (HANDOFF, ""),
        (AgentHandoff(to_agent="b", reason="he knows"), "he knows"),
        (CONFIG, ""),
        (AgentConfigUpdate(instructions="Be brief."), "Be brief."),
    ],
)
def test_every_item_has_a_text(item: ChatItem, text: str) -> None:
    """It can be read without asking for the kind of an item, and is no field: stored forms do not have it."""
    assert item.text == text
    assert "text" not in item.model_dump()


@pytest.mark.parametrize(
    ("item", "prefix", "kind"),
    [
        (MESSAGE, "msg_", "message"),
        (CALL, "call_", "function_call"),
        (OUTPUT, "output_", "function_call_output"),
        (HANDOFF, "handoff_", "agent_handoff"),
        (CONFIG, "cfgupd_", "agent_config_update"),
        (IMAGE, "img_", "image"),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_ids_and_discriminators(item: Any, prefix: str, kind: str) -> None:
    """V1.3, V1.4: an id is a prefix and 12 hexadecimal digits; the type says what an item is."""
    assert re.fullmatch(prefix + "[0-9a-f]{12}", item.id)
    assert item.type == kind


def test_defaults_of_a_message() -> None:
    """V1.5: what a message is without being told; a text stays a text."""
    message = ChatMessage(role=ChatRole.USER, content="hi")

    assert message.model_dump(exclude={"id", "created_at"}) == {
        "agent_id": None,
        "type": "message",
        "role": ChatRole.USER,
        "content": "hi",
        "interrupted": False,
        "extra": {},
        "confidence": None,
        "metrics": None,
        "audio_instructions": None,
        "text_instructions": None,
        "incomplete": None,
    }


@pytest.mark.parametrize(("modality", "expected"), [("audio", ""), ("text", "in writing"), ("smell", "content")])
def test_instructions_for_a_modality(modality: str, expected: str) -> None:
    """V1.6: the variant where there is one, an empty text counts; else the content."""
    message = ChatMessage(
        role=ChatRole.SYSTEM, content="content", audio_instructions="", text_instructions="in writing"
    )

    assert message.instructions_for_modality(modality) == expected


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (ChatMessage, {"role": "user"}),
        (ChatMessage, {"content": "hi"}),
        (ChatMessage, {"role": "tool", "content": "hi"}),
        (FunctionCall, {"name": "f", "arguments": "{}"}),
        (FunctionCall, {"name": "f", "arguments": {"a": 1}, "call_id": "c"}),
        (FunctionCallOutput, {"name": "f", "call_id": "c"}),
        (FunctionCallOutput, {"name": "f", "call_id": "c", "output": 1}),
        (AgentHandoff, {}),
        (ImageContent, {"image": "x", "inference_detail": "medium"}),
    ],
)
def test_what_is_missing_or_wrong_is_refused(model: type[BaseModel], fields: dict[str, Any]) -> None:
    """V1.5, V1.7 to V1.10: required fields are required, and text is text."""
    with pytest.raises(ValidationError):
        model(**fields)


def test_defaults_of_the_rest() -> None:
    """V1.7 to V1.9: metadata, is_error, and a config update that says nothing is legal."""
    empty = AgentConfigUpdate()

    assert (empty.instructions, empty.tools) == (None, None)
    assert FunctionCall(name="f", arguments="", call_id="").metadata is None
    assert OUTPUT.is_error is False
    assert (HANDOFF.from_agent, HANDOFF.reason) == (None, None)


def test_defaults_of_an_image() -> None:
    """V1.10, V1.12: detail auto, JPEG of quality 90 at 320x240."""
    resized = ResizeOptions(width=320, height=240)

    assert IMAGE.inference_detail == "auto"
    assert IMAGE.encode_options == EncodeOptions(format="JPEG", resize_options=resized, quality=90)


@pytest.mark.parametrize("image", ["https://example.org/a.png", "data:image/png;base64,AA==", ""])
def test_an_image_gives_its_url(image: str) -> None:
    """V1.11: a text is given back as it is."""
    assert ImageContent(image=image).to_data_url() == image


def test_unknown_fields_are_ignored() -> None:
    """V1.13: as pydantic does it."""
    message = ChatMessage(role=ChatRole.USER, content="hi", name="mia")  # type: ignore[call-arg]

    assert not hasattr(message, "name")


@pytest.mark.parametrize("item", [*ITEMS, IMAGE, EncodeOptions()], ids=lambda item: type(item).__name__)
def test_items_cannot_be_assigned_to(item: Any) -> None:
    """V1.14, repaired: a change is an event, so no field can be set or deleted."""
    for field in type(item).model_fields:
        with pytest.raises(ValidationError):
            setattr(item, field, None)
        with pytest.raises(ValidationError):
            delattr(item, field)


@pytest.mark.parametrize(
    "change",
    [
        lambda: MESSAGE.content.append("x"),  # type: ignore[union-attr]
        lambda: MESSAGE.extra.update(a=1),
        lambda: MESSAGE.extra["a"].append(1),
        lambda: MESSAGE.extra["a"][0].clear(),
        lambda: CALL.metadata["a"].pop(),  # type: ignore[index]
        lambda: CONFIG.tools.sort(),  # type: ignore[union-attr]
    ],
)
def test_items_are_read_only_all_the_way_down(change: Any) -> None:
    """V1.14, repaired: lists and dicts within an item refuse to change."""
    with pytest.raises(DecisionRefusedError):
        change()


def test_items_own_what_they_are_given() -> None:
    """Changing the lists and dicts that an item was made from does not reach it."""
    content: list[str | ImageContent] = ["hi"]
    extra, tools = {"a": [1]}, ["t"]
    message, config = ChatMessage(role=ChatRole.USER, content=content, extra=extra), AgentConfigUpdate(tools=tools)

    content.append("x")
    extra["a"].append(2)
    tools.clear()

    assert (message.content, message.extra, config.tools) == (["hi"], {"a": [1]}, ["t"])


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.type)
def test_items_can_be_copied_and_pickled(item: Any) -> None:
    """A copy is equal, and as read-only as the item."""
    for made in (copy.deepcopy(item), copy.copy(item), pickle.loads(pickle.dumps(item)), item.model_copy(deep=True)):
        assert made == item
        with pytest.raises(ValidationError):
            made.id = "other"


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.type)
def test_items_have_a_schema(item: Any) -> None:
    """As frameworks for the web make one of a model that has items; a warning would be an error here."""
    schema = type(item).model_json_schema(mode="serialization")

    assert set(schema["properties"]) >= {"id", "type", "created_at"}


@PROPERTY
@given(ITEM_EVENT)
def test_an_item_says_what_its_event_says(event: Any) -> None:
    """From an event to an item and back nothing is lost, save the default written out."""
    again = recorded_form(item_of(event))

    assert item_of(again) == item_of(event)
    assert recorded_form(item_of(again)) == again


@PROPERTY
@given(ITEM_EVENT)
def test_an_item_of_an_event_is_an_item(event: Any) -> None:
    """Skipping validation changes nothing: validating the same fields gives an equal item."""
    item = item_of(event)

    validated = type(item).model_validate(item.model_dump())

    assert validated == item
    assert json.loads(validated.model_dump_json()) == json.loads(item.model_dump_json())


def test_items_are_made_of_fields_only() -> None:
    """An item made from its event has exactly the fields of its model, and the version with which it came."""
    for made in map(item_of, map(recorded_form, ITEMS)):
        assert set(made.__dict__) == {*type(made).model_fields, "version"}


def test_the_default_of_an_image_costs_nothing() -> None:
    """Encode options at their default are not recorded."""
    event = recorded_form(ChatMessage(role=ChatRole.USER, content=[IMAGE]))

    assert event.content[0].encode_options == b""  # type: ignore[union-attr]


def test_an_image_keeps_its_options() -> None:
    """Options that are not the default come back as they were, nested ones included."""
    options = EncodeOptions(format="PNG", resize_options=None, quality=5)
    image = ImageContent(image="data:,x", encode_options=options)

    shown = item_of(recorded_form(ChatMessage(role=ChatRole.USER, content=[image])))

    assert shown.content[0] == image  # type: ignore[union-attr]


def test_an_item_that_was_made_unchecked() -> None:
    """It is checked when it is added: a role may be a text."""
    message = ChatMessage.model_construct(role="user", content=["hi"])
    call = FunctionCall(name="f", arguments="", call_id="c")
    chat = refold.ChatContext()

    chat.add_items([message, call, call.model_copy(update={"id": "other", "call_id": "d"})])

    assert [item.type for item in chat.items] == ["message", "function_call", "function_call"]
    assert chat.items[0].role is ChatRole.USER  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (ChatMessage.model_construct(role="guest", content="hi"), "role: Input should be .*, found 'guest'"),
        (
            ChatMessage.model_construct(role=ChatRole.USER, content=["hi", 3]),
            "holds a int: parts are text",
        ),
        (
            ChatMessage.model_construct(role=ChatRole.USER, content="hi", created_at="now"),
            "created_at: .*, found 'now'",
        ),
        (FunctionCall.model_construct(name="f", call_id="c"), "arguments: Field required"),
    ],
    ids=["role", "content", "time", "missing"],
)
def test_an_unchecked_item_that_is_none(item: ChatMessage | FunctionCall, says: str) -> None:
    """The error names the field, and nothing is added."""
    chat = refold.ChatContext()

    with pytest.raises(refold.InvalidInputError, match=says):
        chat.add_items([item])

    assert chat.items == []


def test_a_text_message_stays_a_text() -> None:
    """V1.5: content that is one text is shown as one text."""
    assert item_of(said(text="hi")).content == "hi"  # type: ignore[union-attr]


def test_threads_may_use_the_models_first_at_once() -> None:
    """The models are built at the first use: every thread gets an item of the right type, with its own defaults."""
    program = """
import sys, threading
from refold.chat import ChatMessage, FunctionCall
sys.setswitchinterval(1e-6)
begin, made = threading.Barrier(8), []
def use(place):
    begin.wait()
    one = ChatMessage(role="user", content="") if place % 2 else FunctionCall(name="f", arguments="", call_id="")
    made.append(one)
threads = [threading.Thread(target=use, args=(place,)) for place in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted((type(item).__name__, item.id.split("_")[0]) for item in made))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert done.stdout.strip() == str([("ChatMessage", "msg")] * 4 + [("FunctionCall", "call")] * 4)


@pytest.mark.parametrize(("frozen", "steps"), [(0, ["freeze", "unfreeze"]), (1, [])])
def test_the_collector_takes_many_unread_items_for_old(
    frozen: int, steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one step, before it looks at anything again; but not in a program that has frozen objects of its own."""
    calls = list[str]()
    names = ("disable", "freeze", "unfreeze", "enable")
    told = SimpleNamespace(**{name: partial(calls.append, name) for name in names})
    told.isenabled, told.get_freeze_count = (lambda: True), (lambda: frozen)
    for module in (item_list, collector):
        monkeypatch.setattr(module, "gc", told)

    made = [len(item_list._unread(Items(), range(count), bytes(count))) for count in (9, 5_000)]

    assert made == [9, 5_000]
    assert calls == ["disable", *steps, "enable"]


@PROPERTY
@given(STEPS)
@example([*[("add", 0)] * 7, ("evict", 0b10010)])
@example([*[("add", 0)] * 7, ("insert", 3), ("evict", 0b10010)])
def test_unread_items_stand_where_edits_put_them(steps: list[tuple[str, int]]) -> None:
    """In the list, and by ordinal; each is of the kind that the snapshot says."""
    whole = fold(EMPTY, line_of(steps).events).items
    stored = whole.unread(lambda ordinals: [whole.item(one) for one in ordinals])
    stored.item_table.stored_kinds()[:] = bytes(ordinal % len(item_list.UNREAD) for ordinal in range(whole.reach))

    made = ShownItems()
    listed = [*list.__iter__(made.of(stored, None, None))]

    assert [item_list._ordinal_of(one) for one in listed] == list(whole.order())
    assert [type(one) for one in listed] == [item_list.UNREAD[one % len(item_list.UNREAD)] for one in whole.order()]
    by_ordinal = dict(zip(whole.order(), listed, strict=True))
    assert made._made[1] == [by_ordinal.get(ordinal) for ordinal in range(whole.reach)]
