"""The rules of a scope, event by event, and its fold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.domain.content import Content
from refold.domain.context.decider import NameVersion
from refold.domain.errors import DamagedError, InvalidInputError
from refold.domain.log.memory_log import MemoryLog
from refold.domain.memory.events import MemoryForgotten, MemoryNamed, MemoryRemembered, MemoryRestored
from refold.domain.memory.rules import MEMORIES, Forget, Remember, Restore
from refold.domain.memory.state import Held, fold
from refold.domain.named_events import Resolved
from refold.domain.spans import Ref, Span
from refold.domain.totals import Totals

from ..fakes import record
from ..scenario import Scenario
from ..strategies import PROPERTY

SCOPE = Scenario(MEMORIES)
FOUR, EIGHT = Content(text="four"), Content(json=b'"eight."')
A = MemoryRemembered(key="a", value=FOUR, first_at=5, at=10, change=Totals(1, 0, 1))
FORGOTTEN = MemoryForgotten(items=(Span.of("", [1]),), change=Totals(-1, 0, -1))


def remember(key: str, value: Content = FOUR, now: int = 10) -> Remember:
    """Return the command to remember something."""
    return Remember(key, value, "semantic", (), 5, now)


def test_remember() -> None:
    """The first time counts where the key is new."""
    SCOPE.given().when(remember("a")).then(A)


def test_remember_again() -> None:
    """The event names what it replaces, keeps the first time, is newer than all, and says what it changes."""
    again = MemoryRemembered(key="a", value=EIGHT, first_at=5, at=11, replaced=Ref(1), change=Totals(0, 0, 1))
    later = MemoryRemembered(key="b", value=EIGHT, first_at=5, at=20, change=Totals(1, 0, 2))

    SCOPE.given(A).when(remember("a", EIGHT, now=7)).then(again)
    SCOPE.given(A).when(remember("b", EIGHT, now=20)).then(later)


def test_forget() -> None:
    """A key or all of them; nothing where nothing is."""
    both = MemoryForgotten(items=(Span.of("", [1, 2]),), change=Totals(-2, 0, -2), reason="why")
    b = MemoryRemembered(key="b", value=FOUR, first_at=5, at=11, change=Totals(1, 0, 1))

    SCOPE.given(A).when(Forget("a", None)).then(FORGOTTEN)
    SCOPE.given(A, b).when(Forget(None, "why")).then(both)
    SCOPE.given(A).when(Forget("b", None)).then()
    SCOPE.given(A, FORGOTTEN).when(Forget(None, None)).then()


def test_restore() -> None:
    """As it was, where nothing else is under its key."""
    held = Held(1, A)
    restored = MemoryRestored(items=(Span.of("memory:s", [1]),), change=Totals(1, 0, 1))

    SCOPE.given(A, FORGOTTEN).when(Restore("memory:s", (held,))).then(Resolved(restored, (held,)))
    SCOPE.given(A).when(Restore("memory:s", (held,))).then_refused(InvalidInputError, saying="'a' has a record now")
    SCOPE.given(A).when(Restore("memory:s", ())).then()


def test_names() -> None:
    """What is so already is no event."""
    named = MemoryNamed(name="x", version=1)

    SCOPE.given(A).when(NameVersion("x", 1)).then(named)
    SCOPE.given(A, named).when(NameVersion("x", 1)).then()
    SCOPE.given(A).when(NameVersion("1", 1)).then_refused(InvalidInputError)


def test_history_that_cannot_be() -> None:
    """What is forgotten was there, and what is taken back was brought by an event."""
    with pytest.raises(DamagedError):
        fold(MEMORIES.initial_state, [A, FORGOTTEN, FORGOTTEN])
    log = MemoryLog()
    record(log, A, FORGOTTEN, stream="memory:s")

    with pytest.raises(DamagedError, match="memory:s@2"):
        MEMORIES.complete(log, [MemoryRestored(items=(Span.of("memory:s", [2]),), change=Totals())])


EVENTS = [
    A,
    MemoryRemembered(key="b", value=EIGHT, first_at=1, at=30, change=Totals()),
    MemoryNamed(name="x", version=1),
]


@PROPERTY
@given(st.lists(st.sampled_from(EVENTS), max_size=8), st.lists(st.sampled_from(EVENTS), max_size=8))
def test_a_fold_goes_on_where_another_ended(first: list[object], second: list[object]) -> None:
    """Folding both together is folding one behind the other; the first state stays empty."""
    whole = MEMORIES.fold(MEMORIES.initial_state, [*first, *second])

    assert MEMORIES.fold(MEMORIES.fold(MEMORIES.initial_state, first), second) == whole
    assert MEMORIES.initial_state.records._step is None
