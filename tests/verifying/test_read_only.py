"""A store that is only read: everything of it is looked at, its projections too, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

import refold
from refold.domain.errors import StorageReadOnlyError
from refold.infrastructure.verifying import Report
from tests.verifying.damaging import sql, told, written


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A store on SQLite, with some of its projections."""
    path = str(tmp_path / "a.db")
    written(path)
    return path


def looked_at(place: str) -> Report:
    """Return what is wrong, as it is found without changing a byte."""
    before = Path(place).read_bytes()
    with refold.open(place, read_only=True) as store:
        report = store.verify()
    assert Path(place).read_bytes() == before
    return report


def test_nothing_is_wrong(place: str) -> None:
    """Rows that are there are right, also where the log has gone on, and those that are not there are not missing."""
    assert (looked_at(place).problems, looked_at(place).left_out) == ((), ())
    with refold.open(place) as store:
        store.chat("a").add_message("user", "one more")

    assert looked_at(place).problems == ()


def test_rows_that_are_wrong(place: str) -> None:
    """It is the rows in the file that are compared; they can be made anew, but not here."""
    sql(place, "UPDATE view_catalogue SET items = 99")

    report = looked_at(place)

    assert told(report) == ["projection catalogue"]
    assert report.problems[0].repairable
    with refold.open(place, read_only=True) as store:
        assert store.check("catalogue").differing == 3
        with pytest.raises(StorageReadOnlyError, match="reading only"):
            store.verify(repair=True)


def test_the_end_of_the_log_is_gone(place: str) -> None:
    """The rows in the file know of more than there is."""
    [(last,)] = sql(place, "SELECT max(position) FROM event")
    sql(place, "DELETE FROM event WHERE position = ?", last)

    assert f"position {last - 1}" in told(looked_at(place))


def test_a_server_that_is_only_read(ready_pg_url: str) -> None:
    """Its projections cannot be compared without writing: they are named, and all else is looked at."""
    written(ready_pg_url)

    with refold.open(f"{ready_pg_url}&options=-cdefault_transaction_read_only%3Don") as store:
        report = store.verify()

    assert (report.events, report.problems, report.projections) == (10, (), 0)
    assert {"catalogue", "search"} <= set(report.left_out)
