"""Canonical JSON: one text for one value."""

import json
from enum import StrEnum
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given

from refold.domain import canonical
from refold.domain.canonical import canonical_json, fingerprint, parse_json, require_json, require_unicode
from refold.domain.chat.context import ChatContext
from refold.domain.errors import InvalidInputError
from refold.domain.formats.responses.receive import items_from_session

from .strategies import JSON, PROPERTY


@PROPERTY
@given(JSON)
def test_it_is_read_as_it_was_written(value: Any) -> None:
    """Whatever is JSON."""
    assert parse_json(canonical_json(value, what="it")) == value


@PROPERTY
@given(JSON)
def test_equal_values_have_equal_bytes(value: Any) -> None:
    """Also after a way through other JSON, with its keys in another order."""
    turned = json.loads(json.dumps(value, indent=2), object_pairs_hook=lambda pairs: dict(reversed(pairs)))

    assert canonical_json(turned, what="it") == canonical_json(value, what="it")


def test_its_form_is_kept_for_ever() -> None:
    """Keys sorted, no blanks, UTF-8."""
    assert (
        canonical_json({"b": [1, 2.5, None, True], "a": "ü\n"}, what="it")
        == '{"a":"ü\\n","b":[1,2.5,null,true]}'.encode()
    )


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), {1, 2}, b"x", object(), "\ud800", {"\ud800": 1}, {1: 1, "a": 2}, [10**4300]],
)
def test_what_is_not_json(value: Any) -> None:
    """An error that names what it was, also where it is only looked at."""
    for look in (canonical_json, require_json):
        with pytest.raises(InvalidInputError, match="extra of m1"):
            look([value], what="extra of m1")


@pytest.mark.parametrize("value", [(1, 2), {"a": {"b": (StrEnum("Role", "USER").USER, 1)}}])  # type: ignore[attr-defined]
def test_what_comes_back_as_plain_json_passes_a_look(value: Any) -> None:
    """As it can be written."""
    require_json(value, what="it")

    assert parse_json(canonical_json(value, what="it")) != value


def test_messages_are_looked_at_without_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain ones, of which nothing is kept beside their items."""
    write = Mock()
    monkeypatch.setattr(canonical, "_encoded", write)

    ChatContext().add_messages([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}])
    items_from_session([{"type": "message", "role": "user", "content": "hello"}])

    write.assert_not_called()


def test_what_has_no_end_is_not_json() -> None:
    """A list within itself, and one that is too deep."""
    round_and_round: list[Any] = []
    round_and_round.append(round_and_round)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]

    for value in (round_and_round, deep):
        for look in (canonical_json, require_json):
            with pytest.raises(InvalidInputError, match="it cannot"):
                look(value, what="it")


def test_no_bytes_are_none() -> None:
    """An empty field means that there was nothing."""
    assert parse_json(b"") is None


def test_text_without_surrogates_is_given_back() -> None:
    """As it is."""
    assert require_unicode("ü\U0001f600", "it") == "ü\U0001f600"


def test_the_place_of_a_surrogate() -> None:
    """Its code and its index."""
    with pytest.raises(InvalidInputError, match=r"content holds a lone surrogate \(U\+DC00\) at index 2"):
        require_unicode("ab\udc00", "content")


def test_a_call_that_is_not_json_has_no_fingerprint() -> None:
    """The error says of which type the value was that cannot be stored."""
    with pytest.raises(InvalidInputError, match=r"a call with an idempotency key holds .*: object is no JSON"):
        fingerprint(("append", object()))
