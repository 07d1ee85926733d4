"""Which of several calls with one call id is meant."""

from typing import Any

import msgspec
import pytest

from refold.domain.chat.events import ItemsEvicted
from refold.domain.chat.rules.calls import find_call, version_before
from refold.domain.chat.state.fold import ChatState, fold
from refold.domain.errors import NotFoundError
from refold.domain.spans import Span
from refold.domain.totals import Totals

from .chat_events import OPENED, STREAM, called, returned, said


def state_of(letters: str) -> ChatState:
    """
    Return a state with a call for each letter, all under one call id: it waits (w), has an output (a), left without
    one (l), or left with one (g). A message (m) ends an answer.
    """
    events: list[Any] = [OPENED]
    gone: list[int] = []
    for number, letter in enumerate(letters):
        if letter == "m":
            events.append(said(f"m{number}", role="assistant"))
            continue
        first = len(events) + 1
        events.append(msgspec.structs.replace(called(f"f{number}"), call_id="c"))
        if letter in "ag":
            events.append(msgspec.structs.replace(returned(f"o{number}", call_id="c"), call_item_id=f"f{number}"))
        if letter in "lg":
            gone += range(first, len(events) + 1)
    if gone:
        events.append(ItemsEvicted(items=(Span.of("", gone),), change=Totals()))
    return fold(ChatState(), events)


@pytest.mark.parametrize(
    ("letters", "meant"),
    [
        ("w", "f0"),
        ("aw", "f1"),
        ("wma", "f0"),
        ("amw", "f2"),
        ("a", "f0"),
        ("aa", "f1"),
        ("ama", "f2"),
        ("ga", "f1"),
        ("ag", "f1"),
        ("lg", "f1"),
        ("lw", "f1"),
        ("wl", "f0"),
        ("lml", "f2"),
        ("aml", "f2"),
        ("lma", "f2"),
        # Of those that wait, the first of the newest answer.
        ("ww", "f0"),
        ("wmw", "f2"),
        ("wmww", "f2"),
        ("wwmaw", "f4"),
    ],
)
def test_the_call_that_is_meant(letters: str, meant: str) -> None:
    """One that waits; if none does, the newest."""
    items = state_of(letters).items

    assert find_call(STREAM, "c", items).item.id == meant
    for call in (item for item in items if item.id.startswith("f")):
        assert find_call(STREAM, call.id, items).item is call


def test_calls_that_are_not_there() -> None:
    """The error says where to look."""
    items = state_of("aw").items

    with pytest.raises(NotFoundError, match=r"chat:a has no call 'x': pending_calls\(\) lists those that wait"):
        find_call(STREAM, "x", items)
    for name in ("x", "o0"):
        with pytest.raises(NotFoundError, match=f"chat:a has no call with the id or call id '{name}'"):
            version_before(STREAM, name, items)
    assert [version_before(STREAM, name, items) for name in ("f0", "f1")] == [1, 3]
