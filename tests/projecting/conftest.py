"""A store of each kind, for tests that hold on all of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import refold


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[refold.Store]:
    """
    An empty store.
    """
    locations = {"memory": ":memory:", "sqlite": str(tmp_path / "store.db")}
    location = locations.get(request.param) or str(request.getfixturevalue("pg_url"))
    with refold.open(location) as opened:
        yield opened
