"""The rules of queues and pools: given these events, when this is asked for, then those happen."""

from typing import Any

import pytest

from refold.domain.content import Content
from refold.domain.context.decider import NameVersion
from refold.domain.errors import DamagedError, InvalidInputError, NotFoundError
from refold.domain.log.memory_log import MemoryLog
from refold.domain.named_events import Resolved
from refold.domain.pool.events import (
    PoolAdded,
    PoolCleared,
    PoolEvicted,
    PoolOpened,
    PoolRemoved,
    PoolReplaced,
    PoolRestored,
    QueueAppended,
    QueueBranched,
    QueueCleared,
    QueueEvicted,
    QueueNamed,
    QueueOpened,
    QueueRestored,
    QueueSettingsChanged,
)
from refold.domain.pool.items import Held
from refold.domain.pool.rules import POOLS, QUEUES, Add, Begin, ChangeSettings, Clear, Evict, Refill, Remove, Restore
from refold.domain.spans import Ref, Segment, Span
from refold.domain.totals import Totals

from ..fakes import record
from ..scenario import Scenario

QUEUE, POOL = Scenario(QUEUES), Scenario(POOLS)
OPENED, POOL_OPENED = QueueOpened(limit=2), PoolOpened(limit=2)


def appended(text: str) -> QueueAppended:
    """Return the event of an item that counts a token for each four characters."""
    return QueueAppended(content=Content(text=text))


def added(item_id: str, text: str = "") -> PoolAdded:
    """Return the event of a pool's item."""
    return PoolAdded(content=Content(text=text), description="", id=item_id)


def own(*versions: int) -> tuple[Span, ...]:
    """Return the name of items of the own stream."""
    return (Span.of("", versions),)


ONE, TWO, THREE = appended("1234"), appended("12345678"), appended("3")


def test_it_is_opened_once() -> None:
    """The second time nothing happens."""
    QUEUE.given().when(Begin(OPENED)).then(OPENED)
    QUEUE.given(OPENED).when(Begin(QueueOpened(limit=9))).then()


def test_what_has_room_comes_in() -> None:
    """As it is given."""
    QUEUE.given(OPENED).when(Add((ONE, TWO))).then(ONE, TWO)


def test_the_oldest_makes_room() -> None:
    """It is named by its birth, with what it counted."""
    QUEUE.given(OPENED, ONE, TWO).when(Add((THREE,))).then(QueueEvicted(items=own(2), change=Totals(-1, 0, -1)), THREE)


def test_more_than_fit_come_in_turns() -> None:
    """As many at a time as there is room for, so that the limit holds after every event."""
    QUEUE.given(OPENED, ONE).when(Add((TWO, THREE, ONE))).then(
        QueueEvicted(items=own(2), change=Totals(-1, 0, -1)),
        TWO,
        THREE,
        QueueEvicted(items=own(4), change=Totals(-1, 0, -2)),
        ONE,
    )


def test_one_id_one_place() -> None:
    """Another item of an id takes the place of the first, and says by how much it is larger."""
    POOL.given(POOL_OPENED, added("a"), added("b")).when(Add((added("a", "12345678"),))).then(
        PoolReplaced(content=Content(text="12345678"), description="", id="a", old=Ref(2), change=Totals(0, 0, 2))
    )


def test_of_several_items_each_counts_the_ones_before() -> None:
    """The same id twice in one call, and room that the first of them takes."""
    POOL.given(POOL_OPENED, added("a")).when(Add((added("b"), added("b", "1234"), added("c")))).then(
        added("b"),
        PoolReplaced(content=Content(text="1234"), description="", id="b", old=Ref(3), change=Totals(0, 0, 1)),
        PoolEvicted(items=own(2), change=Totals(-1, 0, 0)),
        added("c"),
    )


def test_removing() -> None:
    """By id; what is not there is refused."""
    given = POOL.given(POOL_OPENED, added("a", "1234"))

    given.when(Remove("a", "old")).then(PoolRemoved(id="a", item=Ref(2), reason="old", change=Totals(-1, 0, -1)))
    given.when(Remove("b")).then_refused(NotFoundError, saying="the pool holds no item 'b'")


def test_evicting() -> None:
    """Several by one event; what is not there is refused with all of them."""
    given = QUEUE.given(OPENED, ONE, TWO)

    given.when(Evict((Ref(3), Ref(2)), "why")).then(
        QueueEvicted(items=(*own(3), *own(2)), reason="why", change=Totals(-2, 0, -3))
    )
    given.when(Evict((Ref(2), Ref(9)), "why")).then_refused(NotFoundError, saying="version 9 of it")


def test_clearing() -> None:
    """All at once, and nothing where nothing is."""
    QUEUE.given(OPENED, ONE, TWO).when(Clear()).then(QueueCleared(change=Totals(-2, 0, -3)))
    POOL.given(POOL_OPENED).when(Clear()).then()


def test_refilling() -> None:
    """Out with the old, in with the new; each half only where there is something."""
    QUEUE.given(OPENED, ONE).when(Refill((TWO, THREE))).then(QueueCleared(change=Totals(-1, 0, -1)), TWO, THREE)
    QUEUE.given(OPENED).when(Refill((TWO,))).then(TWO)
    QUEUE.given(OPENED, ONE).when(Refill(())).then(QueueCleared(change=Totals(-1, 0, -1)))


def test_restoring() -> None:
    """What came back is the newest, and others make room for it."""
    back = Held(Ref(2, "queue:a"), ONE)
    restored = QueueRestored(items=(Span.of("queue:a", [2]),), change=Totals(1, 0, 1))
    gone = QueueEvicted(items=own(2), change=Totals(-1, 0, -1))

    QUEUE.given(OPENED, ONE, gone, TWO, THREE).when(Restore((back,))).then(
        QueueEvicted(items=own(4), change=Totals(-1, 0, -2)), Resolved(restored, (back,))
    )


def test_restoring_what_is_there() -> None:
    """It is refused by birth in a queue, by id in a pool."""
    QUEUE.given(OPENED, ONE).when(Restore((Held(Ref(2), ONE),))).then_refused(InvalidInputError, saying="version 2")
    POOL.given(POOL_OPENED, added("a")).when(Restore((Held(Ref(9), added("a")),))).then_refused(
        InvalidInputError, saying="'a' is in the pool already"
    )


def test_settings() -> None:
    """Items that have no room any more go first; the same settings are nothing new."""
    given = QUEUE.given(OPENED, ONE, TWO)

    given.when(ChangeSettings(1, ("x",))).then(
        QueueEvicted(items=own(2), change=Totals(-1, 0, -1)), QueueSettingsChanged(limit=1, tags=("x",))
    )
    given.when(ChangeSettings(2, ())).then()


def test_names() -> None:
    """The same name for the same version is nothing new; what is no name is refused."""
    given = QUEUE.given(OPENED, QueueNamed(name="a", version=1))

    given.when(NameVersion("a", 1)).then()
    given.when(NameVersion("a", 2)).then(QueueNamed(name="a", version=2))
    given.when(NameVersion("1", 1)).then_refused(InvalidInputError)


def test_a_branch_begins_where_its_parent_stood() -> None:
    """With the newest of its items under their names, counted from 1, without names of versions."""
    branched = QueueBranched(
        parent="queue:a", version=4, lineage=(Segment("queue:a", 4),), root="a", limit=1, tags=("x",)
    )
    parent = QUEUE.given(OPENED, ONE, TWO, QueueNamed(name="n", version=1)).state

    state = QUEUES.fold(parent, [branched])
    assert (state.version, state.limit, state.tags, state.names) == (1, 1, ("x",), {})
    assert state.items.values() == [Held(Ref(3, "queue:a"), TWO)]


HISTORIES: list[tuple[Any, list[Any]]] = [
    (QUEUES, [OPENED, ONE, TWO, QueueEvicted(items=own(2), change=Totals(-1, 0, -1)), THREE,
              QueueCleared(change=Totals(-2, 0, -2)), ONE, QueueSettingsChanged(limit=1)]),
    (POOLS, [POOL_OPENED, added("a"), added("b"),
             PoolReplaced(content=Content(text="x"), description="", id="a", old=Ref(2), change=Totals()),
             PoolRemoved(id="b", item=Ref(3), change=Totals(-1, 0, 0)),
             Resolved(PoolRestored(items=(Span.of("pool:a", [3]),), change=Totals(1, 0, 0)),
                      (Held(Ref(3, "pool:a"), added("b")),)),
             PoolCleared(change=Totals(-2, 0, 0))]),
]  # fmt: skip


@pytest.mark.parametrize(("decider", "history"), HISTORIES)
def test_a_fold_can_be_cut_anywhere(decider: Any, history: list[Any]) -> None:
    """Folding the first part and then the rest is folding the whole; no state is changed by what comes after it."""
    whole = decider.fold(decider.initial_state, history)
    parts = [decider.fold(decider.initial_state, history[:cut]) for cut in range(len(history) + 1)]
    kept = [part.items.items() for part in parts]

    assert [decider.fold(part, history[cut:]) for cut, part in enumerate(parts)] == [whole] * len(parts)
    assert [part.items.items() for part in parts] == kept


def test_history_that_cannot_be() -> None:
    """An item that leaves without having been there is damage, and said to be."""
    for decider, event in (
        (QUEUES, QueueEvicted(items=own(9), change=Totals())),
        (POOLS, PoolRemoved(id="a", item=Ref(9), change=Totals())),
    ):
        with pytest.raises(DamagedError, match="it left, and was not there"):
            decider.fold(decider.initial_state, [POOL_OPENED if decider is POOLS else OPENED, event])


NOTHING = QueueBranched(parent="queue:a", version=9, lineage=(Segment("queue:a", 9),), root="a")
ALIEN = QueueRestored(items=(Span.of("queue:a", [1]),), change=Totals(1, 0, 0))
BEYOND = QueueRestored(items=(Span.of("queue:a", [3]),), change=Totals(1, 0, 0))


@pytest.mark.parametrize(("event", "saying"), [
    (NOTHING, "branch of queue:a@9 is damaged"),
    (ALIEN, "queue:a@1 is damaged: an event names it as an item"),
    (BEYOND, "queue:a@3 is damaged: an event names it as an item"),
])  # fmt: skip
def test_what_is_not_where_an_event_says(event: Any, saying: str) -> None:
    """An ancestor that is too short, and items that are none, are damage as well."""
    log = MemoryLog()
    record(log, OPENED, ONE, stream="queue:a")

    with pytest.raises(DamagedError, match=saying):
        QUEUES.complete(log, [event])
