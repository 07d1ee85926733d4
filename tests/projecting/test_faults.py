"""
What goes wrong: an event that one projection cannot fold stops that one alone; a database that fails is tried again.
"""

from __future__ import annotations

import traceback
from typing import Any

import pytest

import refold
from refold.domain.errors import ProjectionError
from refold.domain.log.envelope import RecordedEvent
from refold.infrastructure.projecting.folding import fault_of
from refold.infrastructure.projecting.status import ProjectionStatus
from refold.infrastructure.projecting.worker import ProjectionWorker
from refold.infrastructure.store import Store

from .counts import POISONED, Count, Counts
from .histories import talk_at_length
from .watches import HandMoved

WORDS = ("a", "b", "poison", "c", "poison", "d")


class Mended(Counts):
    """It has learnt to take everything."""

    version = 2

    def evolve(self, key: str, row: Count | None, event: RecordedEvent) -> Count:
        """Count one more."""
        return Count(key, (row.events if row else 0) + 1)


class MendedInPlace(Mended):
    """The same under the old version: whoever mends it so has to rebuild it."""

    version = 1


@pytest.fixture
def poisoned(store: refold.Store) -> refold.Store:
    """A store with a projection that cannot take the fourth event."""
    store.add_projection(Counts())
    for word in WORDS:
        store.chat("a").add_message("user", word)
    return store


def work_on(store: refold.Store, *names: str) -> None:
    """Let a worker of its own work on some projections; whoever held them before is silent for ever."""
    chosen = [store._runner.projections[name] for name in names]
    worker = ProjectionWorker(store.log, store._projections, chosen, watch=HandMoved(step=100.0))
    for _ in range(3):
        worker.work()


def standing(store: refold.Store, name: str = "counts") -> ProjectionStatus:
    """Return how a projection stands."""
    [status] = [one for one in store.projections() if one.name == name]
    return status


def test_the_event_is_named(poisoned: refold.Store) -> None:
    """Whoever asks for rows, checks or rebuilds is told which event it is, and why; and the name of the projection."""
    for ask in (poisoned.rows, poisoned.check, poisoned.rebuild):
        with pytest.raises(ProjectionError, match=f"the projection counts cannot fold chat:a@4: {POISONED}; ") as told:
            ask("counts")
        assert (told.value.projection, told.value.event, told.value.reason) == ("counts", "chat:a@4", POISONED)
        cause = told.value.__cause__
        assert isinstance(cause, ValueError)
        assert traceback.extract_tb(cause.__traceback__)[-1].name == "evolve"


def test_it_stands_right_before_it(poisoned: refold.Store) -> None:
    """Everything before it is in the rows, and nothing behind; all others go on."""
    work_on(poisoned, "catalogue", "counts", "rollup")

    stopped = standing(poisoned)
    assert (stopped.stopped_at, stopped.error, stopped.behind) == ("chat:a@4", POISONED, 4)
    assert poisoned._projections.rows(Counts()) == [Count("chat:a", 3)]
    assert [standing(poisoned, name).behind for name in ("catalogue", "rollup")] == [0, 0]
    assert [standing(poisoned, name).error for name in ("catalogue", "rollup")] == [None, None]


@pytest.mark.parametrize("before", [0, 1, 6, 7, 8, 31, 32, 40])
def test_wherever_it_lies(store: refold.Store, before: int) -> None:
    """The first message, the last one of a page, one in its middle: what is before it is folded, once."""
    store.add_projection(Counts())
    chat = talk_at_length(store, before)
    chat.add_message("user", "poison")
    talk_at_length(store, 3)

    for _ in range(2):
        with pytest.raises(ProjectionError) as told:
            store.rows("counts")
        assert told.value.event == f"chat:long@{before + 2}"
        assert store._projections.rows(Counts()) == [Count("chat:long", before + 1)]


def test_the_first_event_of_all(store: refold.Store) -> None:
    """There is nothing before it, and so no row."""

    class Fussy(Counts):
        def keys(self, event: RecordedEvent) -> Any:
            """Take nothing at all."""
            raise LookupError

    store.add_projection(Fussy())
    store.chat("a")

    with pytest.raises(ProjectionError, match=r"chat:a@1: test_faults.py:\d+: LookupError;"):
        store.rows("counts")
    assert store._projections.rows(Fussy()) == []


def test_a_worker_leaves_it_alone(poisoned: refold.Store, caplog: pytest.LogCaptureFixture) -> None:
    """It is told of once, and not tried again and again."""
    for _ in range(3):
        work_on(poisoned, "counts")
        poisoned.chat("a").add_message("user", "more")

    told = [one.getMessage() for one in caplog.records if one.name == "refold.projections"]
    assert len(told) == 1
    assert "chat:a@4" in told[0]
    assert standing(poisoned).behind == 7


@pytest.mark.parametrize("mended", [Mended, MendedInPlace])
def test_mended(poisoned: refold.Store, mended: type[Counts]) -> None:
    """It is no longer shown as stopped, and a worker goes on with it; one of the same version is rebuilt as well."""
    work_on(poisoned, "counts")
    again = Store(poisoned.log, poisoned._projections)
    again.add_projection(mended())

    assert standing(again).stopped_at is None
    work_on(again, "counts")
    assert again._projections.rows(mended()) == [Count("chat:a", 7)]
    if mended is MendedInPlace:
        assert again.rebuild("counts").is_done
    assert (standing(again).behind, standing(again).error) == (0, None)
    assert fault_of(again.log, again._projections, mended()) is None


def test_mended_where_its_code_does_not_show(poisoned: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that reads the rows goes past the event: it stands at none then, whatever is written after that."""
    work_on(poisoned, "counts")
    monkeypatch.setattr("tests.projecting.counts.MessageAdded", ())
    assert poisoned.rows("counts") == [Count("chat:a", 7)]
    poisoned.chat("a").add_message("user", "more")

    assert (standing(poisoned).behind, standing(poisoned).stopped_at, standing(poisoned).error) == (1, None, None)
    work_on(poisoned, "counts")
    assert standing(poisoned).behind == 0


def test_a_rebuild_that_fails(poisoned: refold.Store) -> None:
    """The rows that are read stay, and it is still known what stopped it; its half is dropped, however it is mended."""
    work_on(poisoned, "counts")
    with pytest.raises(ProjectionError):
        poisoned.rebuild("counts")

    assert (standing(poisoned).stopped_at, standing(poisoned).rebuilt) == ("chat:a@4", None)
    assert poisoned._projections.rows(Counts()) == [Count("chat:a", 3)]
    again = Store(poisoned.log, poisoned._projections)
    again.add_projection(MendedInPlace())
    assert again.rebuild("counts").events == 7
    assert again.rows("counts") == [Count("chat:a", 7)]


class Unstorable(Counts):
    """What it makes of the third event no table can hold."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def evolve(self, key: str, row: Count | None, event: RecordedEvent) -> Any:
        """Count up to two."""
        return self._made if event.version >= 3 else Count(key, event.version)


UNSTORABLE: dict[str, Any] = {
    "number of more than 64 bits": (Count("chat:a", 2**63), f"events of the row 'chat:a' is {2**63}: Expected"),
    "nothing": (Count("chat:a", None), "events of the row 'chat:a' is None: Expected `int`"),  # type: ignore[arg-type]
    "text": (Count("chat:a", "3"), "events of the row 'chat:a' is '3': Expected `int`"),  # type: ignore[arg-type]
    "another key": (Count("chat:b", 3), "under 'chat:a' it makes a row with the key 'chat:b'"),
    "no row": ({"key": "chat:a"}, "it makes {'key': 'chat:a'}, and its rows are of the type Count"),
}


@pytest.mark.parametrize("name", UNSTORABLE)
def test_a_row_that_cannot_be_stored(store: refold.Store, name: str) -> None:
    """It is the fault of the event it was made from, on every kind of store."""
    made, reason = UNSTORABLE[name]
    store.add_projection(Unstorable(made))
    for word in "abc":
        store.chat("a").add_message("user", word)

    with pytest.raises(ProjectionError) as told:
        store.rows("counts")

    assert told.value.event == "chat:a@3"
    assert reason in told.value.reason
    assert store._projections.rows(Counts()) == [Count("chat:a", 2)]


def test_a_key_with_a_nul(store: refold.Store) -> None:
    """It cannot be looked for everywhere, so it is one nowhere."""

    class ByText(Counts):
        def keys(self, event: RecordedEvent) -> Any:
            """Return what was said."""
            return getattr(event.event, "content", ())

    store.add_projection(ByText())
    for text in ("fine", "not\0fine"):
        store.chat("a").add_message("user", text)

    with pytest.raises(ProjectionError, match="chat:a@3: there is a NUL in the key 'not"):
        store.rows("counts")
    assert store._projections.rows(ByText()) == [Count("fine", 1)]
