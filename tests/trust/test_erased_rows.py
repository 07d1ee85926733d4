"""Erasing while other handles make rows of the events, or have made some of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest

import refold
from refold.domain.errors import StorageError
from refold.domain.log.envelope import RecordedEvent
from refold.infrastructure.log.background import ERASURE_WATCH
from refold.infrastructure.projecting.folding import FAULT, Fault, note_fault
from refold.infrastructure.projecting.store import Save
from refold.infrastructure.trust.erasing import Eraser
from refold.projections.search import SEARCH
from tests.trust.stores import KINDS, WORD, Place, places


@pytest.fixture(params=[kind for kind in KINDS if kind != "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Place]:
    """The place of a store that several handles have open."""
    yield from places(request, tmp_path)


def filled(place: Place, contexts: int = 1) -> refold.Store:
    """Return a store in which a person says the word in contexts."""
    store = place.open()
    for number in range(contexts):
        store.chat(f"a{number}", user="mia").add_message("user", f"a {WORD}")
    store.chat("b", user="tom").add_message("user", "hello")
    return store


def before_rows_are_stored(store: refold.Store, call: Callable[[], object]) -> None:
    """Have something happen once, between the events that a handle reads and the rows that it stores of them."""
    rows: Any = store._projections
    save = rows.save

    def saved(*saves: Save, seen: Sequence[RecordedEvent] = ()) -> Any:
        rows.save = save
        call()
        return save(*saves, seen=seen)

    rows.save = saved


@pytest.mark.parametrize("scope", [{"user": "mia"}, {"context": "a0"}], ids=["user", "context"])
@pytest.mark.parametrize(
    "ask", [lambda store: store.search("hello"), lambda store: store.rebuild("search")], ids=["first", "rebuilt"]
)
def test_rows_that_another_handle_makes_meanwhile(
    place: Place, scope: dict[str, Any], ask: Callable[[refold.Store], object]
) -> None:
    """It read the events before they were erased: none of its rows is stored, whether there were some before or not."""
    with filled(place) as store, place.open() as other:
        before_rows_are_stored(other, lambda: store.erase(why="ticket 7", dry_run=False, **scope))

        ask(other)

        for one in (store, other):
            assert one.search(WORD) == []
            assert len(one.search("hello")) == 1
            assert WORD.lower() not in repr(one.rows("search"))
        assert store.verify().problems == ()
    assert place.holding() == place.holding(WORD.lower()) == []


def test_rows_of_a_handle_that_only_reads(place: Place) -> None:
    """They are in its memory alone, and leave it soon after another process erased."""
    with filled(place) as store, place.open(read_only=True) as reader:
        assert len(reader.search(WORD)) == 1

        store.erase(user="mia", why="ticket 7", dry_run=False)
        ERASURE_WATCH.look()

        assert reader.search(WORD) == []
        assert WORD.lower() not in repr(reader.rows("search"))
        assert len(reader.search("hello")) == 1


def test_rows_that_a_thread_makes_meanwhile() -> None:
    """The same holds within a store in memory."""
    with filled(Place(":memory:", None)) as store:  # type: ignore[arg-type]
        # The error of a projection may have the text on which it stopped.
        note_fault(store._projections, SEARCH, Fault("chat:a0@2", WORD, 1))
        before_rows_are_stored(store, lambda: store.erase(user="mia", why="ticket 7", dry_run=False))

        assert store.search(WORD) == []
        assert len(store.search("hello")) == 1
        assert store._projections.notes(FAULT) == {}


@pytest.mark.parametrize("kind", [{"user": "mia"}, {"context": "a0"}], ids=["user", "context"])
def test_an_erasure_that_failed_is_called_again(place: Place, kind: dict[str, Any], monkeypatch: Any) -> None:
    """The log has the texts no longer, and rows have; the second call takes them out of these, in the same process."""
    with filled(place) as store:
        assert len(store.search(WORD)) == 1
        with monkeypatch.context() as failing:
            failing.setattr(Eraser, "_make_anew", failed)
            with pytest.raises(StorageError, match=r"the disk is full\. The texts are erased from the log already"):
                store.erase(why="ticket 7", dry_run=False, **kind)

        # In a store that is not encrypted, nothing is left that has the user's name.
        with suppress(refold.NotFoundError):
            store.erase(why="ticket 7", dry_run=False, **kind)

        assert store.search(WORD) == []
        assert WORD.lower() not in repr(store.rows("search"))
        assert store.verify().problems == ()
    assert place.holding() == place.holding(WORD.lower()) == []


def failed(*_: object, **__: object) -> None:
    """Do as a database that refuses."""
    raise StorageError("the disk is full")
