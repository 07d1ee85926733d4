"""What an event is asked before it is queued or goes into a log, where it comes with many others."""

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
import pytest

import refold
from refold.domain.chat.events import Cleared, Origin
from refold.domain.context.outbox import require_sizes
from refold.domain.errors import InvalidInputError, LimitExceededError
from refold.domain.log import envelope
from refold.domain.log.admission import SHORT_JSON, admitted
from refold.domain.positions import BEGINNING
from refold.domain.totals import Totals

from .chat_events import said


@pytest.mark.parametrize("place", [0, 63, 64, 199])
def test_each_event_of_many_is_sized(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All together may be larger than one may be. One that is too large is refused, also behind one without bytes."""
    monkeypatch.setattr(envelope, "PAYLOAD_BYTES_MAX", 1_000)
    many = [said(f"m{number}", "x" * 900) for number in range(200)]
    require_sizes(many)

    with pytest.raises(LimitExceededError) as refused:
        require_sizes([*many[:place], said("m", "\udc00"), said("m", "x" * 1_001), *many[place:]])
    assert refused.value.actual > 1_000


@pytest.mark.parametrize("length", [SHORT_JSON, SHORT_JSON + 1])
def test_an_object_beside_an_item_is_one_each_time(length: int) -> None:
    """A short one that was seen before is not parsed again; one that is none is refused as often as it comes."""
    good = b'{"a":"' + b"x" * (length - 8) + b'"}'
    for rest, is_taken in ((good, True), (b"[" + good[1:-1] + b"]", False), (b'"' + good[1:-1] + b'"', False)) * 2:
        assert len(rest) == length
        event = said("m", origin=Origin(rest=rest))
        if is_taken:
            assert msgspec.msgpack.decode(admitted(event, "chat:a"))["origin"] == {"rest": rest}
        else:
            with pytest.raises(InvalidInputError, match="cannot be stored"):
                admitted(event, "chat:a")


class Role(StrEnum):
    """Names of agents, as programs have them."""

    TRIAGE = "triage"


class Marked(str):
    """A text with a mark, as libraries for templates have it."""

    __slots__ = ()


@pytest.mark.parametrize(
    "value", [date(2031, 5, 1), datetime(2031, 5, 1), timedelta(1), Decimal(1), UUID(int=7)], ids=repr
)
def test_what_would_be_written_as_a_text_is_none(value: Any) -> None:
    """A log in memory would keep the object, and another one give a text."""
    for event in (Cleared(reason=value, change=Totals()), said("m", ("hello", value))):
        with pytest.raises(InvalidInputError, match=re.escape(f"cannot be stored: {value!r} is no text")):
            admitted(event, "chat:a")


@pytest.mark.parametrize("text", [Role.TRIAGE, Marked("triage")], ids=repr)
def test_a_text_of_another_class_is_recorded_as_a_plain_one(text: str) -> None:
    """Wherever it was given, and for whoever goes on with the object that recorded it."""
    with refold.open(":memory:") as store, refold.acting(actor=text, correlation_id=text):
        chat = store.chat("a", user=text, session=text, agent=text, source=text)
        call = chat.add_function_call(text, "{}", text, text, {text: text}, idempotency_key=text)
        chat.approvals.request(call.call_id, by=text, because=text)
        chat.approvals.change(call.call_id, Marked("{}"), by=text, because=text)
        chat.add_message("user", text, message_id=text)
        chat.evict(text, reason=text)
        chat.restore(text, reason=text)
        chat.pin(text, reason=text)
        chat.name_version(text)
        chat.saved_states.save(text, {text: {}})
        chat.fork(agent=text)
        chat.clear(reason=text)
        store.queue("a", tags=[text], agent=text)
        store.run(text, text, agent=text).close(text)
        store.name_moment(text)
        with store.transaction(idempotency_key=Marked("key")):
            store.chat("b")
        found = store.log.read_all(after=BEGINNING, limit=100).events
        rows = store.contexts()

    assert {type(one) for event in (*found, *rows) for one in texts_in(event)} == {str}


def texts_in(value: Any) -> Iterator[str]:
    """Yield each text in an event or a row."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from texts_in(getattr(value, name))
    elif isinstance(value, tuple):
        for one in value:
            yield from texts_in(one)
    elif isinstance(value, str):
        yield value
