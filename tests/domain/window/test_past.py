"""The past of windows, and views that cannot be changed."""

import gc
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.ordered_map import OrderedMap
from refold.domain.window.window import ContextWindow

from .windows import item, keys, left, refused


def lived() -> ContextWindow:
    """Return a window to which everything happened: with each version something is different."""
    window = ContextWindow(18, policy="evict_lower_priority")
    for one in (item("a"), item("b"), item("c"), item("d", priority=1), item("e", size=80)):
        window.add(one)
    window.put(item("a", size=23))
    window.remove("b")
    window.max_tokens = 100
    window.restore(window.dropped()[0].born)
    window.name_version("named", 3)
    window.clear()
    return window


def test_every_version() -> None:
    """What was in it, what had left, what had been dropped by then, and the budget."""
    window = lived()
    seen = [window.at(version) for version in range(window.version + 1)]

    assert [keys(past) for past in seen] == ["", "", "a", "ab", "abc", "ab", "abd", "abd", "abd", "ad", "ad", "ade",
                                             "ade", ""]  # fmt: skip
    assert [refused(past) for past in seen[6:12]] == ["", "e", "e", "e", "e", ""]
    assert [len(past.evicted()) for past in seen] == [0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 3, 3, 3, 6]
    assert left(seen[9]) == [("c", "room", None), ("a", "replace", None), ("b", "remove", None)]
    assert (seen[0].max_tokens, seen[9].max_tokens, seen[10].max_tokens) == (0, 18, 100)
    assert seen[8].items[0].value == seen[8].get("a").value != seen[7].get("a").value  # type: ignore[union-attr]


def test_every_address() -> None:
    """By number, by name, by time, by position."""
    window = lived()
    recorded = window.recorded_events()
    time = datetime.fromtimestamp(recorded[2].recorded_at / 1_000_000, UTC)

    for address in (3, 3 - window.version, "3", "named", f"pos:{recorded[2].position}"):
        assert keys(window.at(address)) == "ab"
    assert window.names() == {"named": 3}
    assert window.at(time.isoformat()).version >= 0
    for nowhere in (99, "nobody"):
        with pytest.raises(NotFoundError):
            window.at(nowhere)
    with pytest.raises(InvalidInputError):
        window.at("2026-11-21T10:00")


def test_a_window_read_again() -> None:
    """From its events it comes out as it was, with all that it knows."""
    window = lived()
    window.restore(window.evicted()[-1].born)
    before = window._state
    window.cleanup()

    assert window._state == before
    assert keys(window) == "e"


CHANGES: dict[str, Callable[[Any], object]] = {
    "add": lambda view: view.add(item("x")),
    "put": lambda view: view.put(item("x")),
    "remove": lambda view: view.remove("a"),
    "evict": lambda view: view.evict("2"),
    "restore": lambda view: view.restore("2"),
    "clear": lambda view: view.clear(),
    "max_tokens": lambda view: setattr(view, "max_tokens", 1),
    "policy": lambda view: setattr(view, "policy", "first_come"),
    "items": lambda view: setattr(view, "items", []),
    "name_version": lambda view: view.name_version("x"),
    "rebase": lambda view: view.rebase(print),
    "cleanup": lambda view: view.cleanup(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_view_cannot_be_changed(change: Callable[[Any], object]) -> None:
    """Whether of the past or live; it is a window all the same."""
    window = ContextWindow(items=[item("a")])
    for view in (window.at(2), window.readonly, window.readonly.readonly):
        with pytest.raises(RuntimeError, match="is a view and cannot be changed"):
            change(view)
        assert isinstance(view, ContextWindow)

    assert (keys(window), window.version) == ("a", 2)


def test_a_live_view_follows() -> None:
    """It shows what is; one of the past stays as it is."""
    window = ContextWindow(items=[item("a")])
    live, past = window.readonly, window.at(2)
    window.add(item("b"))

    assert (keys(live), keys(live.readonly), keys(past)) == ("ab", "ab", "a")
    assert (live.version, past.version, live == window) == (3, 2, True)


def test_what_left_is_let_go_of() -> None:
    """In memory there is what is in the window; the rest is in the log alone."""
    window = ContextWindow(12, policy="evict_lower_priority")
    for priority in range(200):
        window.add(item("k", priority=priority))
    gc.collect()
    maps = [one for one in gc.get_objects() if isinstance(one, OrderedMap)]

    assert len([one for one in maps if one._lock is window._state.held.items._lock]) == 1
