"""Projections that users write: added in a line, kept like the store's own, and refused where they cannot be kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.log.envelope import RecordedEvent
from refold.infrastructure.projecting.folding import require_row
from refold.infrastructure.store import Store

from .counts import Count, Counts
from .histories import projections_of, something_of_everything, talk_at_length


def test_ten_lines(store: refold.Store) -> None:
    """A class with a row, the keys of an event and what becomes of a row: it is kept up to date from then on."""

    class Said(msgspec.Struct, frozen=True):
        key: str
        times: int

    class Words:
        name, version, row = "words", 1, Said

        def keys(self, event: RecordedEvent) -> Sequence[str]:
            return [word for text in getattr(event.event, "content", ()) for word in text.split()]

        def evolve(self, key: str, row: Said | None, event: RecordedEvent) -> Said:
            return Said(key, 1 + (row.times if row else 0))

    store.chat("a").add_message("user", "so it goes")
    store.add_projection(Words())
    assert store.rows("words") == [Said("goes", 1), Said("it", 1), Said("so", 1)]
    store.chat("b").add_message("user", "so what")
    assert store.rows("words", under="s") == [Said("so", 2)]


def test_rows_under_a_prefix(store: refold.Store) -> None:
    """Those whose keys begin with it, in order; none where nothing does; all where nothing is asked for."""
    store.add_projection(Counts())
    for context_id in ("a", "a/2", "a/10", "b"):
        talk_at_length(store, 1, context_id)
    store.queue("a")

    everything = store.rows("counts")

    assert store.rows("counts", under="chat:a/") == [Count("chat:a/10", 2), Count("chat:a/2", 2)]
    assert store.rows("counts", under="queue:") == [Count("queue:a", 1)]
    assert store.rows("counts", under="pool:") == []
    assert store.rows("counts", under="") == everything
    assert [row.key for row in everything] == ["chat:a", "chat:a/10", "chat:a/2", "chat:b", "queue:a"]  # type: ignore[attr-defined]


def test_it_is_one_among_the_others(store: refold.Store) -> None:
    """It has a standing, can be checked, rebuilt and worked on by name."""
    store.add_projection(Counts())
    something_of_everything(store)
    rows = store.rows("counts")

    [standing] = [one for one in store.projections() if one.name == "counts"]
    assert (standing.version, standing.rows, standing.behind, standing.error) == (1, len(rows), 0, None)
    assert (store.check("counts").differing, store.rebuild("counts").rows) == (0, len(rows))
    assert store.rows("counts") == rows
    assert store.verify().problems == ()
    with store.start_projections(["counts"]):
        pass


def test_a_name_that_is_taken(store: refold.Store) -> None:
    """Neither by the store's own nor by one that was added; the one that is there stays."""
    counts = Counts()
    store.add_projection(counts)

    for name in ("counts", "catalogue"):
        taken = Counts()
        taken.name = name
        with pytest.raises(InvalidInputError, match=f"a projection '{name}' already: give it another name"):
            store.add_projection(taken)
    assert store._runner.projections["counts"] is counts


def test_no_such_projection(store: refold.Store) -> None:
    """Every way of asking for one that is not there says which there are."""
    for ask in (store.rows, store.rebuild, store.check, lambda name: store.start_projections([name])):
        with pytest.raises(NotFoundError, match="no projection 'cuonts': there are catalogue, "):
            ask("cuonts")


def test_opened_again(place: str) -> None:
    """Rows are kept; the next process adds the projection again, and goes on where the last one was."""
    with refold.open(place) as store:
        store.add_projection(Counts())
        talk_at_length(store, 3)
        store.rows("counts")
    with refold.open(place) as store:
        talk_at_length(store, 2)
        store.add_projection(Counts())
        assert [one.behind for one in store.projections() if one.name == "counts"] == [2]
        assert store.rows("counts") == [Count("chat:long", 6)]


class Doubled(Counts):
    """It counts otherwise: rows of its first version mean something else."""

    version = 2

    def evolve(self, key: str, row: Count | None, event: RecordedEvent) -> Count:
        """Count two more."""
        return Count(key, (row.events if row else 0) + 2)


def test_a_newer_version(store: refold.Store) -> None:
    """Its rows are made from the beginning, and those of the older one count for nothing."""
    newer = Store(store.log, store._projections)
    store.add_projection(Counts())
    talk_at_length(store, 3)
    assert store.rows("counts") == [Count("chat:long", 4)]

    newer.add_projection(Doubled())
    assert [one.rows for one in newer.projections() if one.name == "counts"] == [0]
    assert newer.rows("counts") == [Count("chat:long", 8)]
    assert newer.rebuild("counts").is_done
    assert newer.rows("counts") == [Count("chat:long", 8)]


def _row(**fields: Any) -> Any:
    return msgspec.defstruct("Row", list(fields.items()))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (_row(), "no key"),
        (_row(value=int, key=str), "no key: let `key: str` be the first field"),
        (_row(key=int), "no key"),
        (_row(key=str, tags=list[str]), r"tags of the rows of counts is of the type list\[str\]: take str, int"),
        (_row(key=str, done=bool), "done of the rows of counts"),
        (_row(key=str, cost=float | None), "cost of the rows of counts"),
        (_row(key=str, slice=int), "cannot have a field 'slice': call it otherwise"),
    ],
)
def test_rows_that_no_table_can_have(row: Any, reason: str) -> None:
    """It is told right away, and not when the first event comes."""
    counts: Any = Counts()
    counts.row = row

    with pytest.raises(InvalidInputError, match=reason):
        require_row(counts)


def test_rows_that_every_table_can_have(store: refold.Store) -> None:
    """All the store's own, and such with every type."""
    for projection in projections_of(store).values():
        require_row(projection)
    counts: Any = Counts()
    counts.row = _row(key=str, text=str, number_of=int, share=float, raw=bytes)
    counts.evolve = lambda key, row, event: counts.row(key, "ü\n", -(2**63), 0.1 + event.version, b"\0\xff")
    require_row(counts)

    store.add_projection(counts)
    store.chat("a").add_message("user", "hello")
    assert store.rows("counts") == [counts.row("chat:a", "ü\n", -(2**63), 2.1, b"\0\xff")]
    assert store.check("counts").differing == 0


class Fixed(msgspec.Struct, frozen=True):
    """A projection that cannot be changed, and has no room for anything else."""

    name: str = "fixed"
    version: int = 1
    row: Any = Count

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return one key for all."""
        return ["all"]

    def evolve(self, key: str, row: Count | None, event: RecordedEvent) -> Count:
        """Count one more."""
        return Count(key, (row.events if row else 0) + 1)


def test_one_that_cannot_be_changed(store: refold.Store) -> None:
    """Its double for a rebuild or a check is made without touching it."""
    store.add_projection(Fixed())
    talk_at_length(store, 3)

    assert store.rows("fixed") == [Count("all", 4)]
    assert (store.check("fixed").differing, store.rebuild("fixed").rows) == (0, 1)
    assert store.rows("fixed") == [Count("all", 4)]
