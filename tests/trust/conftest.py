"""Where the stores of these tests lie."""

from pathlib import Path

import pytest

from tests.projecting.conftest import location as location

from .forging import Place


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A new store with a place for its witness, once for each kind of database."""
    url = request.getfixturevalue("ready_pg_url") if request.param == "postgres" else str(tmp_path / "store.db")
    return Place(url, tmp_path / "witness.log")
