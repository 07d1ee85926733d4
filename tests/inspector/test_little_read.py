"""What answers read of a large store: not more than they show."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.chat.state.unread_items import StoredItems
from refold.domain.context.folded_stream import SNAPSHOT_EVENTS
from refold.domain.pool import state as states
from refold.infrastructure.queries.origins import first_events, id_of
from refold.infrastructure.views import contexts
from refold.infrastructure.views.contexts import ChatItemView, ItemView, view_of
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


def test_the_last_items_of_a_chat_are_read_without_the_others(tmp_path: Path) -> None:
    """Behind an eviction, where the events of items alone do not say what is there: a snapshot does."""
    with refold.open(str(tmp_path / "s.db")) as store:
        chat = store.chat("x", durability="enqueue")
        for number in range(3 * SNAPSHOT_EVENTS):
            chat.add_message("user", f"{number}")
        chat.evict([chat.items[-3].id])
        store.flush()
        last = [item.id for item in [*store.chat("x").items][-2:]]
    with refold.open(str(tmp_path / "s.db")) as store:
        view = view_of(store, "chat:x", None)
        assert isinstance(view, ChatItemView)
        assert [id_of(entry.item) for entry in view.entries(tail=2)] == last
        items = view.chat._state.items.raw.items
        assert isinstance(items, StoredItems)
        assert items.is_unread(2 * SNAPSHOT_EVENTS)


def test_items_that_left_are_read_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if they lie far apart, which would else be a reading of the log for each."""
    with refold.open(str(tmp_path / "s.db")) as store:
        chat = store.chat("x", durability="enqueue")
        for number in range(3 * SNAPSHOT_EVENTS):
            chat.add_message("user", f"{number}")
        chat.evict([item.id for item in chat.items[:: SNAPSHOT_EVENTS // 8]])
        store.flush()
        assert len(store.chat("x").items) > 0
    with refold.open(str(tmp_path / "s.db")) as store:
        view = view_of(store, "chat:x", None)
        readings = list[object]()
        put = StoredItems._put

        def noted(self: StoredItems, places: Any) -> None:
            readings.append(places)
            put(self, places)

        monkeypatch.setattr(StoredItems, "_put", noted)
        assert isinstance(view, ItemView)
        assert len(view.evicted(tail=20)) == 20

    assert len(readings) == 1


@pytest.mark.parametrize("kind", ["queue", "pool"])
def test_a_container_is_read_from_its_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Its present items, and the events after the snapshot; not all that there ever were."""

    async def fill(held: Any) -> None:
        for number in range(SNAPSHOT_EVENTS):
            item = refold.PoolItem(f"{number}", "about", f"i{number}")
            await (held.add(item) if kind == "pool" else held.append(item))

    with refold.open(str(tmp_path / "s.db")) as store:
        asyncio.run(fill(getattr(store, kind)("x", limit=2, durability="enqueue")))
        store.flush()
        assert len(getattr(store, kind)("x")) == 2
    with refold.open(str(tmp_path / "s.db")) as store:
        evolved = list[object]()
        evolve = states._evolved

        def noted(state: Any, event: Any) -> Any:
            evolved.append(event)
            return evolve(state, event)

        monkeypatch.setattr(states, "_evolved", noted)
        view = view_of(store, f"{kind}:x", None)
        assert isinstance(view, ItemView)
        assert len(view.entries()) == 2

    assert len(evolved) < 10
