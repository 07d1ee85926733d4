"""Stores on every database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import refold
from refold.infrastructure.store import Store


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Open an empty store."""
    place = ":memory:"
    if request.param == "sqlite":
        place = str(tmp_path / "store.db")
    elif request.param == "postgres":
        place = request.getfixturevalue("ready_pg_url")
    with refold.open(place) as opened:
        yield opened


@pytest.fixture
def memory() -> Iterator[Store]:
    """Open a store in memory."""
    with refold.open(":memory:") as store:
        yield store
