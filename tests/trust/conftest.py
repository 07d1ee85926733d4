"""Where the stores of these tests lie."""

from pathlib import Path

import pytest

from .forging import Place


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a new store, once for each kind of database."""
    match request.param:
        case "memory":
            return ":memory:"
        case "sqlite":
            return str(tmp_path / "store.db")
        case _:
            return str(request.getfixturevalue("ready_pg_url"))


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A new store with a place for its witness, once for each kind of database."""
    url = request.getfixturevalue("ready_pg_url") if request.param == "postgres" else str(tmp_path / "store.db")
    return Place(url, tmp_path / "witness.log")
