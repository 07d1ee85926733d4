"""Listeners: who is called, with what, and what happens when one fails (SPEC V14.6)."""

import logging
from typing import Any

import pytest

from refold.domain.errors import InvalidInputError
from refold.domain.llm.base import EventEmitter


def test_a_handler_gets_as_much_as_it_takes() -> None:
    """Surplus arguments are trimmed; one that takes any number gets all, one that takes none gets none."""
    heard: list[Any] = []
    emitter = EventEmitter[str]()
    emitter.on("said", lambda: heard.append("none"))
    emitter.on("said", lambda one: heard.append(one))
    emitter.on("said", lambda *all_of_them: heard.append(all_of_them))

    emitter.emit("said", 1, 2)

    assert heard == ["none", 1, (1, 2)]


def test_a_method_gets_as_much_as_it_takes_beside_itself() -> None:
    """`self` does not count."""
    heard: list[Any] = []
    emitter = EventEmitter[str]()
    emitter.on("said", heard.append)

    emitter.emit("said", 1, 2)

    assert heard == [1]


def test_without_arguments_an_empty_dict_is_passed() -> None:
    """A handler that takes one always gets one; added twice it is called once."""
    heard: list[Any] = []
    emitter = EventEmitter[str]()
    emitter.on("said", heard.append)
    emitter.on("said", heard.append)

    emitter.emit("said")

    assert heard == [{}]


def test_on_is_a_decorator_too() -> None:
    """The function stays what it was."""
    emitter = EventEmitter[str]()
    heard: list[Any] = []

    @emitter.on("said")
    def listen(one: Any) -> None:
        heard.append(one)

    listen(1)
    emitter.emit("said", 2)

    assert heard == [1, 2]


def test_off() -> None:
    """One that left hears nothing, and leaving twice or never having come is fine."""
    heard: list[Any] = []
    emitter = EventEmitter[str]()
    emitter.off("said", heard.append)
    emitter.on("said", heard.append)
    emitter.off("said", heard.append)
    emitter.off("said", heard.append)

    emitter.emit("said", 1)

    assert heard == []


def test_async_handlers_are_refused() -> None:
    """Nobody would await them."""

    async def listen(one: Any) -> None:
        """Hear."""

    with pytest.raises(InvalidInputError, match="Async handlers are not supported"):
        EventEmitter[str]().on("said", listen)


def test_a_handler_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The others hear it all the same."""
    heard: list[Any] = []
    emitter = EventEmitter[str]()
    emitter.on("said", lambda one: 1 / 0)
    emitter.on("said", heard.append)

    with caplog.at_level(logging.ERROR):
        emitter.emit("said", 1)

    assert heard == [1]
    assert "ZeroDivisionError" in caplog.text


def test_a_handler_may_leave_while_it_is_called() -> None:
    """Those behind it are called as well."""
    heard: list[str] = []
    emitter = EventEmitter[str]()

    def once() -> None:
        heard.append("once")
        emitter.off("said", once)

    emitter.on("said", once)
    emitter.on("said", lambda: heard.append("always"))

    emitter.emit("said")
    emitter.emit("said")

    assert heard == ["once", "always", "always"]


def test_a_handler_that_was_taken_off_hears_nothing_more() -> None:
    """The others do; what never was on may be taken off, and nothing is kept of events without handlers."""
    heard: list[Any] = []
    emitter = EventEmitter[str]()
    first = emitter.on("said", lambda: heard.append("first"))
    second = emitter.on("said", lambda: heard.append("second"))

    emitter.off("said", first)
    emitter.off("said", first)
    emitter.off("heard", first)
    emitter.emit("said")
    emitter.off("said", second)
    emitter.emit("said")

    assert heard == ["second"]
    assert emitter._handlers == {}


def test_a_handler_without_a_signature_gets_all() -> None:
    """As some methods of Python's own types are."""
    heard: dict[str, int] = {}
    emitter = EventEmitter[str]()
    emitter.on("said", heard.update)

    emitter.emit("said", {"a": 1})

    assert heard == {"a": 1}
