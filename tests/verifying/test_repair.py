"""Projections that are not what the events give are told of, and made anew where that is asked for."""

import re
from typing import NoReturn

import pytest

import refold
from refold.domain.errors import DamagedError, RefoldError, StorageUnavailableError
from refold.domain.log.envelope import RecordedEvent
from refold.infrastructure.verifying import store_check
from refold.projections.catalogue import CATALOGUE, CatalogueRow
from refold.projections.contract import Projection
from refold.projections.growth import GROWTH
from refold.projections.rollup import ROLLUP
from refold.projections.search import SEARCH

from .damaging import bytes_of_log, sql, told, verified, view_of, written


@pytest.fixture
def place(place: str) -> str:
    """Where a store lies that holds what `written` wrote."""
    written(place)
    return place


CHANGES: dict[str, tuple[str, str, Projection]] = {
    "changed": ("UPDATE {view} SET items = items + 1 WHERE key = 'chat:a'", "1 rows are not", CATALOGUE),
    "missing": ("DELETE FROM {view} WHERE key LIKE 'chat:b%'", "1 rows are not", GROWTH),
    "all gone": ("DELETE FROM {view}", "rows are not", SEARCH),
    "no table": ("DROP TABLE {view}", "cannot be read|1 rows are not", ROLLUP),
    "no place": ("UPDATE checkpoint SET moment = 'nowhere' WHERE projection = 'catalogue'", "nowhere", CATALOGUE),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_projection_is_made_anew(place: str, name: str) -> None:
    """Only the one that is wrong is told of; repairing it makes the store whole, and touches no event."""
    statement, reason, projection = CHANGES[name]
    sql(place, statement.format(view=view_of(place, projection)))
    before = bytes_of_log(place)

    report, repaired, after = verified(place), verified(place, repair=True), verified(place)

    assert told(report) == told(repaired) == [f"projection {projection.name}"]
    assert re.search(reason, report.problems[0].reason)
    assert (report.is_whole, repaired.is_whole, after.problems) == (False, True, ())
    assert bytes_of_log(place) == before


@pytest.mark.parametrize("error", [DamagedError("a row", "it cannot be read"), StorageUnavailableError("it is gone")])
def test_rows_stay_until_others_take_their_place(
    place: str, error: RefoldError, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong rows that can be read are not dropped for a repair that then fails; a database that is gone ends it."""
    view = view_of(place, CATALOGUE)
    sql(place, f"UPDATE {view} SET items = 99 WHERE key = 'chat:a'")

    def fail(*given: object, **options: object) -> NoReturn:
        raise error

    monkeypatch.setattr(store_check, "rebuild", fail)
    if isinstance(error, StorageUnavailableError):
        with pytest.raises(StorageUnavailableError, match="it is gone"):
            verified(place, repair=True)
    else:
        assert not verified(place, repair=True).is_whole
    assert sql(place, f"SELECT items FROM {view} WHERE key = 'chat:a'") == [(99,)]


def test_looking_changes_no_row(place: str) -> None:
    """What is wrong stays wrong until somebody asks for it to be repaired."""
    view = view_of(place, CATALOGUE)
    sql(place, f"UPDATE {view} SET items = 99 WHERE key = 'chat:a'")

    verified(place)

    assert sql(place, f"SELECT items FROM {view} WHERE key = 'chat:a'") == [(99,)]


def test_all_of_them_at_once(place: str) -> None:
    """Each of several projections gets its name, and what they answer is right afterwards."""
    several: tuple[Projection, ...] = (CATALOGUE, ROLLUP, GROWTH, SEARCH)
    for projection in several:
        sql(place, f"DELETE FROM {view_of(place, projection)}")

    report, repaired = verified(place), verified(place, repair=True)

    assert told(report) == [f"projection {projection.name}" for projection in several]
    assert repaired.is_whole
    with refold.open(place) as store:
        assert [(row.key, row.items) for row in store.contexts()] == [("chat:a", 3), ("chat:b", 3), ("chat:f", 4)]
        assert len(store.search("text")) == 4


class Choosy:
    """A projection that cannot take every event."""

    name = "choosy"
    version = 1
    row = CatalogueRow

    def keys(self, event: RecordedEvent) -> list[str]:
        """Return the stream."""
        return [event.stream]

    def evolve(self, key: str, row: CatalogueRow | None, event: RecordedEvent) -> CatalogueRow:
        """Fail at one event."""
        if event.reference == "chat:b@2":
            raise ValueError("not this one")
        return CATALOGUE.evolve(key, row, event)


def test_a_projection_that_fails(place: str) -> None:
    """The event that it cannot fold is named; to make it anew would not help, and the others are looked at."""
    sql(place, f"DELETE FROM {view_of(place, SEARCH)}")
    with refold.open(place) as store:
        store.add_projection(Choosy())

        report = store.verify(repair=True)

    assert told(report) == ["projection search", "projection choosy"]
    assert "chat:b@2" in report.problems[1].reason
    assert "not this one" in report.problems[1].reason
    assert [problem.is_repaired for problem in report.problems] == [True, False]
