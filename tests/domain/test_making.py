"""Fields that are of the right types become an event at once; all others are what the models make of them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import ConfigUpdated, FunctionCalled, FunctionReturned, MessageAdded
from refold.domain.chat.item_events import make_event
from refold.domain.chat.items import ChatMessage
from refold.domain.chat.roles import ChatRole
from refold.domain.errors import InvalidInputError

MESSAGE = {"id": "m", "created_at": 1.5, "agent_id": None, "role": "user", "content": ("hi",)}
CALL = {"id": "c", "created_at": 1.5, "agent_id": None, "name": "f", "arguments": "{}", "call_id": "1"}
OUTPUT = {"id": "o", "created_at": 1.5, "agent_id": None, "name": "f", "call_id": "1", "output": "x"}


class Text(str):
    """A text of somebody's own type."""


@pytest.mark.parametrize(
    ("given", "field", "made"),
    [
        ({"created_at": 2}, "created_at", 2.0),
        ({"role": ChatRole.USER}, "role", "user"),
        ({"content": ("größer", "second")}, "content", ("größer", "second")),
        ({"content": ["a", "b"]}, "content", ("a", "b")),
        ({"agent_id": "mia"}, "agent_id", "mia"),
        ({"agent_id": b"mia"}, "agent_id", "mia"),
    ],
)
def test_what_a_message_takes(given: dict[str, Any], field: str, made: object) -> None:
    """The recorded field is of its own type, whatever way it took."""
    event = make_event(MessageAdded, **{**MESSAGE, **given})

    assert (getattr(event, field), type(getattr(event, field))) == (made, type(made))


@pytest.mark.parametrize(
    ("event_type", "fields"),
    [
        (MessageAdded, {**MESSAGE, "role": "nobody"}),
        (MessageAdded, {**MESSAGE, "role": None}),
        (MessageAdded, {**MESSAGE, "role": ["user"]}),
        (MessageAdded, {**MESSAGE, "content": (1,)}),
        (MessageAdded, {**MESSAGE, "id": 7}),
        (FunctionCalled, {**CALL, "arguments": {"a": 1}}),
        (FunctionCalled, {**CALL, "metadata": b"{}"}),
        (FunctionReturned, {**OUTPUT, "is_error": "perhaps"}),
        (ConfigUpdated, {"id": "u", "created_at": 1.0, "agent_id": None, "instructions": 1, "tools": None}),
    ],
)
def test_what_is_of_no_use(event_type: Any, fields: dict[str, Any]) -> None:
    """It is refused, and the field named, in one line."""
    with pytest.raises(InvalidInputError, match=r"^(role|content|id|arguments|metadata|is_error|instructions)\S*: .*$"):
        make_event(event_type, **fields)


@pytest.mark.parametrize(
    ("event_type", "fields", "looks"),
    [
        (MessageAdded, {}, 0),
        (MessageAdded, {"role": ChatRole.USER, "content": "größer", "agent_id": "mia"}, 0),
        (MessageAdded, {"content": ("one", "größer")}, 0),
        (MessageAdded, {"content": ["one"]}, 1),
        (MessageAdded, {"extra": {"a": 1}}, 1),
        (MessageAdded, {"created_at": 2}, 1),
        (FunctionCalled, {}, 0),
        (FunctionCalled, {"metadata": {"a": 1}}, 1),
    ],
)
def test_plain_fields_are_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, event_type: Any, fields: dict[str, Any], looks: int
) -> None:
    """The models validate nothing that is of its type already: that takes ten times as long."""
    seen: list[object] = []
    validated = BaseModel.model_validate.__func__  # type: ignore[attr-defined]

    def note(model: type[BaseModel], given: object) -> object:
        seen.append(given)
        return validated(model, given)

    monkeypatch.setattr(BaseModel, "model_validate", classmethod(note))

    make_event(event_type, **{**(MESSAGE if event_type is MessageAdded else CALL), **fields})

    assert len(seen) == looks


@pytest.mark.parametrize("field", ["id", "content", "agent_id"])
def test_text_that_is_no_unicode(field: str) -> None:
    """A lone surrogate is refused before anything is recorded."""
    broken: Any = ("a", "\ud800") if field == "content" else "\ud800"

    with pytest.raises((ValueError, InvalidInputError)):
        make_event(MessageAdded, **{**MESSAGE, field: broken})


def test_a_text_of_another_type() -> None:
    """It says the same."""
    event = make_event(FunctionReturned, **{**OUTPUT, "output": Text("fine")})

    assert event.output == "fine"  # type: ignore[union-attr]


def test_a_part_that_is_neither_text_nor_picture() -> None:
    """A message that was made past its own checks is refused, and the error names it and the type of the part."""
    chat = ChatContext()
    made = ChatMessage.model_construct(id="m", role=ChatRole.USER, content=[7], created_at=1.5)

    with pytest.raises(InvalidInputError, match="message 'm' holds a int: parts are text or ImageContent"):
        chat.insert(made)
    assert chat.items == []
