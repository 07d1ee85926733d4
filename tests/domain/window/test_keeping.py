"""Windows in a store, and windows that are taken into one."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import refold
from refold import Store, to_async
from refold.domain.errors import ConcurrencyError, InvalidInputError, NotFoundError
from refold.domain.window.items import ContextItem
from refold.domain.window.window import ContextWindow

from .windows import item, keys, left, refused


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store in memory."""
    with refold.open(":memory:") as store:
        yield store


def test_a_window_is_kept(store: Store) -> None:
    """Opened, filled, and opened again with its settings, also by a running loop."""
    window = store.window("w", max_tokens=12, policy="evict_lower_priority", user="mia", session="s1", agent="triage")
    window.add(item("a"))

    again = store.window("w")

    assert again == window
    assert (again.max_tokens, again.policy, again.version) == (12, "evict_lower_priority", 2)
    assert again.recorded_events()[1].meta.actor == "triage"
    assert (store.window("other").max_tokens, store.window("other").policy) == (100_000, "first_come")


async def test_the_async_side(store: Store) -> None:
    """In a running loop."""
    window = (await to_async(store).window("w", max_tokens=5)).sync
    context = await to_async(store).agent_context("t", "e")

    assert (window.max_tokens, context.trace_id) == (5, "t")


@pytest.mark.parametrize("other", [{"max_tokens": 13}, {"policy": "evict_lower_priority"}, {"user": "eve"}])
def test_another_window_than_was_meant(store: Store, other: dict[str, Any]) -> None:
    """Settings and owners are what they are; whoever asks for others shall know."""
    store.window("w", max_tokens=12, user="mia")

    with pytest.raises(InvalidInputError):
        store.window("w", **other)
    assert store.window("w", max_tokens=12, policy="first_come", user="mia").version == 1


def test_a_window_that_cannot_be_opened(store: Store) -> None:
    """Because it is not there, or its id cannot be one."""
    with pytest.raises(NotFoundError, match="no window 'w'"):
        store.window("w", create=False)
    with pytest.raises(InvalidInputError):
        store.window("a@b")
    with pytest.raises(InvalidInputError):
        store.window("w", policy="random")  # type: ignore[arg-type]


def test_another_counter(store: Store) -> None:
    """What was counted stays counted so; what is added is counted by the handle that adds it."""
    store.window("w", counter=lambda _: 7).add(item("a"))
    window = store.window("w")
    window.add(item("b"))

    assert window.estimated_tokens() == 7 + 6


def test_adding_catches_up(store: Store) -> None:
    """An add and a put decide again on what others left; taking out is told."""
    one, other = store.window("w", max_tokens=12), store.window("w")
    assert (other.items, one.add(item("a"))) == ([], True)
    assert other.put(ContextItem("a", "x", "s"))
    assert other.get("a") == ContextItem("a", "x", "s")
    assert [event.version for event in other.came_between] == [2]
    other.add(item("b"))
    assert not one.add(item("c"))
    assert (keys(one), refused(one)) == ("ab", "c")
    with pytest.raises(ConcurrencyError):
        other.add(item("d"), expected_version=4)
    changes: list[Callable[[], None]] = [
        lambda: other.remove("a"),
        lambda: other.clear(),
        lambda: other.evict(other.births[0]),
    ]
    for change in changes:
        with pytest.raises(ConcurrencyError):
            change()

    other.rebase(lambda window: window.remove("a"))
    assert keys(other) == "b"


def test_old_news(store: Store) -> None:
    """To put what a view shows already is a change, where others have let go of it since."""
    one, other = store.window("w"), store.window("w")
    one.put(item("a"))
    other.refresh()
    one.remove("a")

    assert other.put(item("a"))
    assert other.put(item("a"))
    assert (keys(other), other.version) == ("a", 4)


def test_a_transaction_is_taken_back(store: Store) -> None:
    """With all that was decided in it."""
    window = store.window("w", max_tokens=12)
    window.add(item("a"))
    before = window._state

    def fail() -> None:
        with store.transaction():
            window.add(item("b"))
            window.remove("a")
            assert keys(window) == "b"
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail()

    assert (window._state, keys(window), window.estimated_tokens()) == (before, "a", 6)


def test_what_left_in_a_transaction(store: Store) -> None:
    """It is seen in it, and can be restored."""
    window = store.window("w", max_tokens=12)
    window.add(item("a"))
    with store.transaction():
        window.add(item("b"))
        window.evict(window.births[0], reason="stale")
        window.add(item("c", size=40))
        assert (left(window), refused(window)) == ([("a", "evict", "stale")], "c")
        window.restore(window.evicted()[0].born)
        assert (keys(window), left(window)) == ("ba", [])

    assert keys(store.window("w")) == "ba"


def test_queued_changes(store: Store) -> None:
    """They are seen at once, and are in the store behind the barrier."""
    window = store.window("w", durability="enqueue")
    window.add(item("a"))
    assert keys(window) == "a"
    window.flush()

    assert keys(store.window("w")) == "a"


def test_a_window_is_adopted(store: Store) -> None:
    """With its whole past, also what was dropped, what left and what came back."""
    window = ContextWindow(12, [item("a"), item("b")])
    window.add(item("c"))
    window.remove("a")
    window.restore(window.evicted()[0].born)
    before = (window.items, window.version)
    store.adopt(window, "w")

    assert (window.items, window.version) == before
    assert (window.is_detached, window.stream_id, store.window("w")) == (False, "window:w", window)
    assert window.dropped()[0].born == "window:w@4"
    window.max_tokens = 50
    window.restore(window.dropped()[0].born)
    assert keys(store.window("w")) == "bac"
    with pytest.raises(InvalidInputError):
        store.adopt(window, "again")
    with pytest.raises(RuntimeError):
        store.adopt(ContextWindow().readonly, "view")
    assert [row.id for row in store.contexts()] == ["w"]
