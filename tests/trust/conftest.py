"""Where the stores of these tests lie."""

from pathlib import Path

import pytest


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a new store, once for each kind of database."""
    match request.param:
        case "memory":
            return ":memory:"
        case "sqlite":
            return str(tmp_path / "store.db")
        case _:
            return str(request.getfixturevalue("pg_url"))
