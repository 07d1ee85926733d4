"""The catalogue and the rollup: equal to a fold from the beginning, however they came about, on every kind of store."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.positions import BEGINNING
from refold.infrastructure.projecting.folding import fold_page
from refold.infrastructure.projecting.runner import ProjectionRunner
from refold.infrastructure.projecting.store import MemoryProjectionStore, Save
from refold.projections.catalogue import CATALOGUE, CatalogueRow
from refold.projections.contract import Projection
from refold.projections.rollup import ROLLUP, ROLLUP_EVENTS, counts_by_type

PROJECTIONS = (CATALOGUE, ROLLUP)


def folded(store: refold.Store, projection: Projection) -> list[Any]:
    """Return the rows of a fold of the whole log, in the order of their keys."""
    events = store.log.read_all(after=BEGINNING, limit=100_000).events
    rows = fold_page(projection, events, MemoryProjectionStore())
    return [row for _, row in sorted(rows.items())]


def talk(store: refold.Store, context_id: str, turns: int) -> refold.ChatContext:
    """Add some turns of a user and an assistant to a context."""
    chat = store.chat(context_id)
    for number in range(turns):
        chat.add_message("user", f"question {number} of {context_id}")
        chat.add_message("assistant", f"answer {number}")
    return chat


def test_a_context_has_a_row(store: refold.Store) -> None:
    """What it is, how long, and who changed it."""
    chat = store.chat("support", user="mia", session="s1", agent="triage", source="a file")
    chat.add_message("user", "Where is my order?")
    with refold.acting(actor="clerk"):
        chat.add_function_call("lookup", "{}", call_id="c1")

    [row] = store.contexts()

    opened, *_, last = chat.history()
    assert row == CatalogueRow(
        key="chat:support",
        kind="chat",
        id="support",
        version=3,
        items=2,
        turns=1,
        tokens=chat.estimated_tokens(),
        user="mia",
        session="s1",
        agent="triage",
        source="a file",
        opened_at=opened.recorded_at,
        changed_at=last.recorded_at,
        changed_by="clerk",
        lane=opened.position.slice,
        first_number=opened.position.number,
        number=last.position.number,
    )


def test_the_rollup_counts_by_type(store: refold.Store) -> None:
    """All events are in it, each under its tag, and its times are those of the log."""
    talk(store, "a", 600)

    rows = store.rollup()

    assert sum(row.events for row in rows) == 1_201
    assert all(row.events <= ROLLUP_EVENTS for row in rows)
    totals: dict[str, int] = {}
    for row in rows:
        for tag, count in counts_by_type(row).items():
            totals[tag] = totals.get(tag, 0) + count
    assert totals == {"chat.opened.v1": 1, "chat.message_added.v1": 1_200}
    history = store.chat("a").history()
    assert (rows[0].first_at, rows[-1].last_at) == (history[0].recorded_at, history[-1].recorded_at)


@pytest.mark.parametrize("projection", PROJECTIONS, ids=lambda projection: projection.name)
def test_rows_equal_the_fold(store: refold.Store, projection: Projection) -> None:
    """Brought up to date now and then, the rows are byte for byte what one fold of the log gives."""
    runner = ProjectionRunner(store.log, store._runner._store, PROJECTIONS)
    for number in range(3):
        talk(store, f"c{number % 2}", 20)
        runner.catch_up(projection)

    assert msgspec.msgpack.encode(runner.rows(projection)) == msgspec.msgpack.encode(folded(store, projection))


def test_nothing_new_changes_nothing(store: refold.Store) -> None:
    """Asked twice, a projection answers the same."""
    talk(store, "a", 2)

    assert store.contexts() == store.contexts()


def test_two_runners_at_once(store: refold.Store) -> None:
    """Each page is counted once, whoever comes first."""
    talk(store, "a", 300)
    runners = [ProjectionRunner(store.log, store._runner._store, PROJECTIONS) for _ in range(2)]
    threads = [threading.Thread(target=runner.catch_up, args=(ROLLUP,)) for runner in runners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(row.events for row in store.rollup()) == 601


def test_a_checkpoint_that_moved(store: refold.Store) -> None:
    """Rows that were folded from an older checkpoint are not stored."""
    talk(store, "a", 1)
    rows = store._runner._store
    (before,) = rows.checkpoints(ROLLUP)
    page = store.log.read_all(after=before.moment, limit=10)
    save = Save(ROLLUP, fold_page(ROLLUP, page.events, rows), before, page.moment)
    assert rows.save(save) != [None]

    assert rows.save(save) == [None]

    assert sum(row.events for row in store.rollup()) == 3


def test_text_with_a_nul(store: refold.Store) -> None:
    """A NUL in a name does not stop a projection."""
    store.chat("a", user="m\0a").add_message("user", "hello")

    [row] = store.contexts()

    assert row.user in ("m\0a", "m\u2400a")


class Renewed:
    """The rollup, with rows of another meaning."""

    name, version, row = ROLLUP.name, ROLLUP.version + 1, ROLLUP.row
    keys, evolve = ROLLUP.keys, ROLLUP.evolve


def test_a_new_version_starts_afresh(store: refold.Store) -> None:
    """Rows of an older version count for nothing."""
    talk(store, "a", 2)
    old = store.rollup()

    runner = ProjectionRunner(store.log, store._runner._store, [Renewed()])

    assert runner.rows(Renewed()) == old
