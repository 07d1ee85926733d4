"""The rules of a window, event by event, and its fold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.context.decider import NameVersion
from refold.domain.errors import DamagedError, InvalidInputError, LimitExceededError, NotFoundError
from refold.domain.log.memory_log import MemoryLog
from refold.domain.named_events import Resolved
from refold.domain.spans import Span
from refold.domain.totals import Totals
from refold.domain.window.events import (
    WindowAdded,
    WindowCleared,
    WindowDropped,
    WindowEvicted,
    WindowNamed,
    WindowOpened,
    WindowReplaced,
    WindowRestored,
    WindowSettingsChanged,
)
from refold.domain.window.items import Held
from refold.domain.window.rules import (
    WINDOWS,
    Add,
    Begin,
    ChangeSettings,
    Clear,
    Evict,
    Incoming,
    Put,
    Remove,
    Restore,
    SetItems,
)
from refold.domain.window.state import fold

from ..fakes import record
from ..scenario import Scenario
from ..strategies import PROPERTY

WINDOW = Scenario(WINDOWS)
OPENED = WindowOpened(max_tokens=10)
GENEROUS = WindowOpened(max_tokens=10, policy="evict_lower_priority")
A = WindowAdded(key="a", value="v", source="s", quarters=23, change=Totals(1, 0, 5))
DROPPED = WindowDropped(key="b", value="v", source="s", quarters=23, tokens=11, max_tokens=10)
CLEARED = WindowCleared(change=Totals(-1, 0, -5))


def incoming(key: str, quarters: int = 23, priority: int = 0) -> Incoming:
    """Return an item that wants to come in."""
    return Incoming(key, "v", "s", priority, quarters)


def versions(*numbers: int) -> tuple[Span, ...]:
    """Return how an event names items of its own stream."""
    return (Span.of("", numbers),)


def test_begin() -> None:
    """Once."""
    WINDOW.given().when(Begin(OPENED)).then(OPENED)
    WINDOW.given(OPENED).when(Begin(OPENED)).then()


def test_add() -> None:
    """The change counts whole tokens of the total, so that all changes add up to it."""
    WINDOW.given(OPENED).when(Add(incoming("a"))).then(A)
    second = WindowAdded(key="b", value="v", source="s", quarters=20, change=Totals(1, 0, 5))
    third = WindowAdded(key="b", value="v", source="s", quarters=21, change=Totals(1, 0, 6))
    WINDOW.given(WindowOpened(max_tokens=11), A).when(Add(incoming("b", 20))).then(second)
    WINDOW.given(WindowOpened(max_tokens=11), A).when(Add(incoming("b", 21))).then(third)


def test_drop() -> None:
    """The event says what the total would have been."""
    WINDOW.given(OPENED, A).when(Add(incoming("b"))).then(DROPPED)


def test_make_room() -> None:
    """Eviction and addition are one decision."""
    evicted = WindowEvicted(items=versions(2), change=Totals(-1, 0, -5))
    came = WindowAdded(key="b", value="v", source="s", priority=1, quarters=23, change=Totals(1, 0, 5))

    WINDOW.given(GENEROUS, A).when(Add(incoming("b", priority=1))).then(evicted, came)


def test_put() -> None:
    """One event says what came and what went."""
    replaced = WindowReplaced(key="a", value="v", source="s", priority=1, quarters=43, old=versions(2),
                              change=Totals(0, 0, 5))  # fmt: skip

    WINDOW.given(OPENED, A).when(Put(incoming("a", 43, priority=1))).then(replaced)
    WINDOW.given(OPENED, A).when(Put(incoming("a"))).then()
    WINDOW.given(OPENED).when(Put(incoming("a"))).then(A)


def test_set_items() -> None:
    """What was there leaves, and the budget is not asked."""
    again = WindowAdded(key="a", value="v", source="s", quarters=23, change=Totals(1, 0, 6))

    WINDOW.given(OPENED, A).when(SetItems((incoming("a"), incoming("a")))).then(CLEARED, A, again)


def test_take_out() -> None:
    """By key and by version; all at once."""
    WINDOW.given(OPENED, A).when(Remove("a", "why")).then(
        WindowEvicted(items=versions(2), change=Totals(-1, 0, -5), how="remove", reason="why")
    )
    WINDOW.given(OPENED, A).when(Evict((2, 2), None)).then(
        WindowEvicted(items=versions(2), change=Totals(-1, 0, -5), how="evict")
    )
    WINDOW.given(OPENED, A).when(Evict((), None)).then()
    WINDOW.given(OPENED, A).when(Clear()).then(CLEARED)
    WINDOW.given(OPENED).when(Clear()).then()
    WINDOW.given(OPENED).when(Remove("a", None)).then_refused(NotFoundError, saying="no item 'a'")
    WINDOW.given(OPENED).when(Evict((2,), None)).then_refused(NotFoundError, saying="version 2")


def test_take_back() -> None:
    """Where there is room, and it is not there already."""
    held = Held(2, A, (0, 0))
    restored = Resolved(WindowRestored(items=(Span.of("window:a", [2]),), change=Totals(1, 0, 5)), (held,))

    WINDOW.given(OPENED, A, CLEARED).when(Restore("window:a", (held,))).then(restored)
    WINDOW.given(OPENED, A).when(Restore("window:a", (held,))).then_refused(InvalidInputError, saying="already")
    WINDOW.given(OPENED, A, DROPPED).when(Restore("window:a", (Held(3, DROPPED, (0, 0)),))).then_refused(
        LimitExceededError
    )
    WINDOW.given(OPENED).when(Restore("window:a", ())).then()


def test_settings_and_names() -> None:
    """What is so already is no event."""
    changed = WindowSettingsChanged(max_tokens=5)

    WINDOW.given(OPENED).when(ChangeSettings({"max_tokens": 5})).then(changed)
    WINDOW.given(OPENED, changed).when(ChangeSettings({"max_tokens": 5})).then()
    WINDOW.given(OPENED).when(NameVersion("x", 1)).then(WindowNamed(name="x", version=1))
    WINDOW.given(OPENED, WindowNamed(name="x", version=1)).when(NameVersion("x", 1)).then()
    WINDOW.given(OPENED).when(NameVersion("1", 1)).then_refused(InvalidInputError)


def test_history_that_cannot_be() -> None:
    """An item that leaves was there, and what is taken back was brought by an event."""
    with pytest.raises(DamagedError):
        fold(WINDOWS.initial_state, [OPENED, WindowEvicted(items=versions(2), change=Totals())])
    log = MemoryLog()
    restored = WindowRestored(items=(Span.of("window:a", [1]),), change=Totals())
    record(log, OPENED, stream="window:a")

    with pytest.raises(DamagedError, match="window:a@1"):
        WINDOWS.complete(log, [restored])


EVENTS = [OPENED, A, A, DROPPED, WindowNamed(name="x", version=1), WindowSettingsChanged(max_tokens=5), CLEARED]


@PROPERTY
@given(st.lists(st.sampled_from(EVENTS), max_size=8), st.lists(st.sampled_from(EVENTS), max_size=8))
def test_a_fold_goes_on_where_another_ended(first: list[object], second: list[object]) -> None:
    """Folding both together is folding one behind the other."""
    whole = WINDOWS.fold(WINDOWS.initial_state, [*first, *second])

    assert WINDOWS.fold(WINDOWS.fold(WINDOWS.initial_state, first), second) == whole


def test_the_first_state_stays_empty() -> None:
    """It is everybody's: a window that lives on it must not be kept alive by it."""
    fold(WINDOWS.initial_state, [OPENED, A])
    state = WINDOWS.initial_state

    assert [one._step for one in (state.held.items, state.by_key, state.by_priority)] == [None, None, None]
