"""What answers read of a large store: not more than they show."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import refold
from refold.infrastructure.queries.origins import first_events
from refold.infrastructure.views import contexts
from tests.support.effort import projections_counted

from .asking import Asked


def test_a_family_is_drawn_from_its_own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The points of one context's family are those that it has among all, and of other contexts nothing is read."""
    with refold.open(":memory:") as store:
        for name in ("a", "b"):
            store.chat(name).name_version("begun")
            asyncio.run(store.chat(name).merge(store.chat(name).fork(f"fork-of-{name}").fork(f"last-of-{name}")))
        page = Asked(store)
        every = page("lineage")
        monkeypatch.setattr(refold.Store, "contexts", lambda _: pytest.fail("all contexts were read"))

        families = [page("lineage", context=f"last-of-{name}") for name in ("a", "b")]

    assert [{**point, "family": 0} for point in every] == [{**point, "family": 0} for one in families for point in one]


def test_what_left_is_read_a_page_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items that left on other pages are counted, and not read."""
    read: list[object] = []

    def noted(log: Any, refs: Any) -> Any:
        read.extend(refs)
        return first_events(log, refs)

    monkeypatch.setattr(contexts, "first_events", noted)
    with refold.open(":memory:") as store:
        chat = store.chat("x")
        ids = [chat.add_message("user", str(number)).id for number in range(5)]
        chat.evict(ids[:4])

        answer = Asked(store)("left", context="x", limit=2, skip=1)

    assert [one["item"]["id"] for one in answer["items"]] == [ids[2], ids[1]]
    assert (answer["count"], answer["more"], len(read)) == (4, True, 2)


def test_the_rows_of_one_projection_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of its rows has its status, and not that of all others, whose rows a database would read to count them."""
    with refold.open(":memory:") as store:
        store.chat("x")
        counted = projections_counted(store, monkeypatch)
        answer = Asked(store)("projection", name="catalogue")

    assert (answer["projection"]["rows"], len(answer["rows"]), counted) == (1, 1, ["catalogue"])
