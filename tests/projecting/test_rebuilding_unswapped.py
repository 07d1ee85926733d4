"""A rebuild without the swap: the new rows are compared with those in use, and a person decides about them."""

from __future__ import annotations

import msgspec
import pytest

import refold
from refold.domain.errors import ProjectionError
from refold.infrastructure.projecting.folding import FAULT, Fault, note_fault
from refold.infrastructure.projecting.rebuild import MEETINGS_MAX
from refold.infrastructure.projecting.store import Save
from refold.projections.catalogue import CATALOGUE
from refold.projections.rollup import ROLLUP

from .histories import folded_rows, live_rows, projections_of, something_of_everything, stored_rows, talk_at_length
from .small_pages import SMALL_PAGE

pytestmark = pytest.mark.usefixtures("small_pages")


def spoil(store: refold.Store) -> None:
    """Change a row of the catalogue, and add another one, without any event."""
    rows = {row.key: row for row in store._projections.rows(CATALOGUE)}
    changed = msgspec.structs.replace(rows["chat:c0"], items=99)
    added = msgspec.structs.replace(rows["chat:c0"], key="chat:none", id="none")
    (before,) = store._projections.checkpoints(CATALOGUE)
    wrong = {row.key: row for row in (changed, added)}
    (saved,) = store._projections.save(Save(CATALOGUE, wrong, before, before.moment))
    assert saved is not None


def test_right_rows_are_identical(store: refold.Store) -> None:
    """For every projection; what is read, and what a later rebuild puts in place, is the same."""
    something_of_everything(store)
    live = live_rows(store)

    for name in projections_of(store):
        report = store.rebuild(name, swap=False)
        assert (report.is_done, report.differing, report.fault) == (True, 0, None), name
        assert report.rows == store._projections.count(projections_of(store)[name])
    assert {one.rebuilt for one in store.projections()} == {store.now().events}
    assert live_rows(store) == live

    for name in projections_of(store):
        assert store.rebuild(name).events == 0
    assert live_rows(store) == live == folded_rows(store)
    assert {one.rebuilt for one in store.projections()} == {None}


def test_wrong_rows_are_named_before_they_are_replaced(store: refold.Store) -> None:
    """Both values of each row are in the report; the rows in use stay until the next rebuild."""
    something_of_everything(store)
    store.contexts()
    spoil(store)
    wrong = stored_rows(store, "catalogue")

    report = store.rebuild("catalogue", swap=False)

    assert report.differing == 2
    found = {one.key: (one.live, one.rebuilt) for one in report.differences}
    assert found["chat:c0"][0].items == 99 != found["chat:c0"][1].items
    assert found["chat:none"][1] is None
    assert stored_rows(store, "catalogue") == wrong
    assert store.rebuild("catalogue").is_done
    assert stored_rows(store, "catalogue") == {"catalogue": folded_rows(store)["catalogue"]}


def test_discarded_rows_are_gone(store: refold.Store) -> None:
    """The rows in use stay, and the next rebuild begins at the first event."""
    something_of_everything(store)
    live = live_rows(store)
    assert not store.discard_rebuild("rollup")
    store.rebuild("rollup", swap=False)

    assert store.discard_rebuild("rollup")

    assert {one.name: one.rebuilt for one in store.projections()}["rollup"] is None
    assert not store.discard_rebuild("rollup")
    assert store.rebuild("rollup").events == store.now().events
    assert live_rows(store) == live


def test_a_fault_is_forgotten_with_the_rows_that_had_it(store: refold.Store) -> None:
    """Not by a rebuild that leaves them in use, nor by one that was stopped."""
    something_of_everything(store)
    kept = store._projections
    note_fault(kept, ROLLUP, Fault("chat:a@3", "it is poisoned", 1))

    store.rebuild("rollup", swap=False)
    store.rebuild("rollup", restart=True, stop=lambda: True)
    assert [note for note in kept.notes(FAULT).values() if "poisoned" in note]

    store.rebuild("rollup")
    assert not [note for note in kept.notes(FAULT).values() if "poisoned" in note]


def test_rows_that_were_stopped_are_discarded_too(store: refold.Store) -> None:
    """A rebuild that was stopped half way has left rows."""
    something_of_everything(store)
    assert not store.rebuild("catalogue", swap=False, stop=lambda: True).is_done
    assert {one.name: one.rebuilt for one in store.projections()}["catalogue"] == SMALL_PAGE

    assert store.discard_rebuild("catalogue")
    assert {one.name: one.rebuilt for one in store.projections()}["catalogue"] is None


def test_what_is_written_meanwhile_is_no_difference(store: refold.Store) -> None:
    """Both are compared at the same moment, wherever writers and readers are by then."""
    something_of_everything(store)
    left = [3]

    def write(_: object) -> None:
        if left[0]:
            left[0] -= 1
            talk_at_length(store, 5, "while")
            store.rows("rollup")

    report = store.rebuild("rollup", swap=False, progress=write)

    assert (report.is_done, report.differing, left) == (True, 0, [0])


def test_rows_that_never_rest_are_not_compared(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report says so, and the new rows are there for all that."""
    something_of_everything(store)
    walk, count = type(store._projections).walk, [0]

    def hurry(own: object, projection: object, visit: object) -> object:
        if projection is ROLLUP:
            count[0] += 1
            talk_at_length(store, 1, "while")
            store.rows("rollup")
        return walk(own, projection, visit)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(type(store._projections), "walk", hurry)
    report = store.rebuild("rollup", swap=False)

    assert (report.is_done, report.fault, count) == (True, "they changed all the time", [MEETINGS_MAX])
    assert store.rebuild("rollup").is_done


def test_a_fold_that_fails_leaves_nothing(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with any rebuild: its rows would be wrong."""
    something_of_everything(store)
    live = live_rows(store)

    def fail(*_: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(type(ROLLUP), "on_fault", "stop", raising=False)
    monkeypatch.setattr(type(ROLLUP), "evolve_all", fail, raising=False)
    monkeypatch.setattr(type(ROLLUP), "evolve", fail)
    with pytest.raises(ProjectionError):
        store.rebuild("rollup", swap=False)
    monkeypatch.undo()

    assert {one.name: one.rebuilt for one in store.projections()}["rollup"] is None
    assert live_rows(store) == live
