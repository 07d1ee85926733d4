"""A store has an id for life; a copy of its events is another store."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import refold
from refold.domain.errors import StorageReadOnlyError
from refold.infrastructure.databases import open_database
from refold.infrastructure.exchange.copying import copy_store
from refold.infrastructure.projecting.store import ProjectionStore
from refold.infrastructure.store_id import known_lineage, lineage_of

from .places import place_of


@contextmanager
def rows_at(place: str, *, read_only: bool = False) -> Iterator[ProjectionStore]:
    """Open the rows of a store."""
    log, rows = open_database(place, read_only=read_only)
    with closing(log):
        yield rows


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_a_store_keeps_its_id(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """It gets one when somebody asks, whoever asks then gets the same, and a rebuild leaves it alone."""
    with refold.open(place_of(kind, request, tmp_path, "a.db")) as store:
        store.chat("a").add_message("user", "hello")
        rows = store._projections
        assert known_lineage(rows) == ""

        made = lineage_of(rows)

        store.rebuild("catalogue")
        assert made == lineage_of(rows) == known_lineage(rows) != ""
        if kind != "memory":
            with rows_at(store.log.location) as again:  # type: ignore[attr-defined]  # a log in a database
                assert lineage_of(again) == made


def test_a_copy_has_another_id(tmp_path: Path) -> None:
    """Its events are the same, and it is another store."""
    place, copied = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    with refold.open(place) as store:
        store.chat("a").add_message("user", "hello")
        made = lineage_of(store._projections)

    copy_store(place, copied)

    with rows_at(copied) as rows:
        assert known_lineage(rows) == ""
        assert lineage_of(rows) != made


def test_whoever_only_reads_gives_no_id(tmp_path: Path) -> None:
    """The id that is there is read; a new one is not made up and forgotten."""
    place = str(tmp_path / "a.db")
    refold.open(place).close()
    with rows_at(place, read_only=True) as rows, pytest.raises(StorageReadOnlyError):
        lineage_of(rows)

    with rows_at(place) as rows:
        made = lineage_of(rows)

    with rows_at(place, read_only=True) as rows:
        assert lineage_of(rows) == made
