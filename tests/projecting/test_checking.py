"""Checking: rows that are not what the events give are found, whoever changed them, and stay as they are."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import Any

import psycopg
import pytest

import refold
from refold.domain.log.envelope import RecordedEvent
from refold.infrastructure.projecting.comparison import DIFFERENCES_MAX
from refold.infrastructure.projecting.rebuild import RebuildReport
from refold.infrastructure.projecting.shadow import RebuildProgress

from .counts import Count, Counts
from .histories import live_rows, projections_of, something_of_everything, stored_rows, talk_at_length
from .small_pages import SMALL_PAGE

pytestmark = pytest.mark.usefixtures("small_pages")


def by_hand(place: str, statement: str) -> None:
    """Change the table of the catalogue (`{}`) behind the store's back, as somebody does who opens its database."""
    if place.startswith("postgresql://"):
        with psycopg.connect(place) as server:
            tables = server.execute("SELECT relname FROM pg_class WHERE relname ~ '^view_catalogue_[0-9]+$'")
            assert server.execute(statement.format(*tables.fetchone() or "").encode()).rowcount == 1
        return
    with closing(sqlite3.connect(place)) as file, file:
        assert file.execute(statement.format("view_catalogue")).rowcount == 1


def found(report: RebuildReport) -> dict[str, tuple[Any, Any]]:
    """Return how many items the rows have that differ: those that are read, and those that were built."""
    return {one.key: (one.live and one.live.items, one.rebuilt and one.rebuilt.items) for one in report.differences}


def test_nothing_is_wrong(store: refold.Store) -> None:
    """As long as nobody meddles, every projection is what its fold gives; a check leaves nothing behind."""
    something_of_everything(store)
    live = live_rows(store)

    reports = [store.check(name) for name in live]

    assert [(one.is_done, one.differing, one.differences) for one in reports] == [(True, 0, ())] * len(live)
    assert [one.rows for one in reports] == [one.rows for one in store.projections()]
    assert stored_rows(store) == live
    assert all(one.rebuilt is None for one in store.projections())


def test_changed_by_hand(place: str) -> None:
    """A row with another value, one that is missing and one too many are found; the rows stay as they are."""
    with refold.open(place) as store:
        for context_id in "abc":
            talk_at_length(store, 3, context_id)
        sound = live_rows(store)["catalogue"]
        by_hand(place, "UPDATE {} SET items = items + 1 WHERE key = 'chat:a'")
        by_hand(place, "UPDATE {} SET key = 'chat:ghost' WHERE key = 'chat:b'")
        changed = stored_rows(store, "catalogue")

        for _ in range(2):
            report = store.check("catalogue")
            assert found(report) == {"chat:a": (4, 3), "chat:b": (None, 3), "chat:ghost": (3, None)}
            assert (report.is_done, report.differing, report.rows) == (True, 3, 3)
        assert stored_rows(store, "catalogue") == changed != {"catalogue": sound}

        store.rebuild("catalogue")
        assert store.check("catalogue").differing == 0
        assert live_rows(store)["catalogue"] == sound


def test_gone_altogether(place: str) -> None:
    """Where all rows are gone, all are missing, and the first few are shown."""
    count = DIFFERENCES_MAX + 3
    with refold.open(place) as store:
        for number in range(count):
            talk_at_length(store, 1, f"c{number:02}")
        store.contexts()
        for number in range(count):
            by_hand(place, f"DELETE FROM {{}} WHERE key = 'chat:c{number:02}'")

        report = store.check("catalogue")

        assert (report.differing, len(report.differences)) == (count, DIFFERENCES_MAX)
        assert [one.live for one in report.differences] == [None] * DIFFERENCES_MAX


def test_stopped(store: refold.Store) -> None:
    """It says that it has not seen everything, and the next one begins anew."""
    talk_at_length(store, 4 * SMALL_PAGE)
    told: list[RebuildProgress] = []

    stopped = store.check("catalogue", progress=told.append, stop=lambda: len(told) == 2)
    done = store.check("catalogue", progress=told.append)

    assert (stopped.is_done, stopped.events) == (False, 2 * SMALL_PAGE)
    assert (done.is_done, done.events) == (True, 4 * SMALL_PAGE + 1)
    assert [one.done for one in told[2:]] == [16, 32, 48, 64, 65]
    assert {one.projection for one in told} == {"catalogue"}


def test_all_projections_can_be_checked(store: refold.Store) -> None:
    """Also those that have no rows, and where there is nothing at all."""
    assert [store.check(name).is_done for name in projections_of(store)].count(False) == 0
    store.chat("a").add_message("user", "hello")
    assert [store.check(name).differing for name in projections_of(store)].count(0) == len(store.projections())


class Slow(Counts):
    """Takes its time."""

    pause = 0.0

    def evolve(self, key: str, row: Count | None, event: RecordedEvent) -> Count:
        """Count one more."""
        time.sleep(self.pause)
        return super().evolve(key, row, event)


def test_rows_that_go_on_by_much_meanwhile(ready_pg_url: str) -> None:
    """While the rest is folded no transaction is open, which the server would end."""
    with refold.open(ready_pg_url) as other, psycopg.connect(ready_pg_url, autocommit=True) as server:
        other.add_projection(Slow())
        talk_at_length(other, 3)
        other.rows("counts")
        ((user, database),) = server.execute("SELECT current_user, current_database()").fetchall()
        setting = f'ALTER ROLE "{user}" IN DATABASE "{database}" SET idle_in_transaction_session_timeout = 600'
        server.execute(setting.encode())
        with refold.open(ready_pg_url) as store:
            slow, moved = Slow(), list[object]()
            store.add_projection(slow)

            def go_on(progress: object) -> None:
                if not moved:
                    talk_at_length(other, 6)
                    other.rows("counts")
                    slow.pause = 0.2
                moved.append(progress)

            assert store.check("counts", progress=go_on).differing == 0
            assert moved
