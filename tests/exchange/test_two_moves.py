"""Two moves of one store."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import DamagedError, StorageReadOnlyError
from refold.infrastructure.exchange import copying
from refold.infrastructure.exchange.copying import copy_store
from tests.cli.running import refold as run


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_first_fails_when_the_second_is_done(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store that was moved stays closed."""
    source = str(request.getfixturevalue("ready_pg_url")) if kind == "postgres" else str(tmp_path / "a.db")
    with refold.open(source) as store:
        store.chat("a").add_message("user", "before")
    require_keys = copying._Copy.require_keys

    def fail_behind_another(copy: Any) -> None:
        monkeypatch.setattr(copying._Copy, "require_keys", require_keys)
        assert copy_store(source, str(tmp_path / "other.db"), move=True, lag_seconds=0).is_moved
        raise DamagedError("the copy", "it is not equal")

    monkeypatch.setattr(copying._Copy, "require_keys", fail_behind_another)
    with pytest.raises(DamagedError):
        copy_store(source, str(tmp_path / "one.db"), move=True, lag_seconds=0)

    with refold.open(source) as store, pytest.raises(StorageReadOnlyError, match="was moved"):
        store.chat("later").add_message("user", "never")
    assert run("init", "--reopen", "--db", source).code == 0
    with refold.open(source) as store:
        store.chat("later").add_message("user", "open again")


def test_a_move_that_is_repeated(tmp_path: Path) -> None:
    """It closes the store as it was: there is one mark more at most."""
    source, target = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    with refold.open(source) as store:
        store.chat("a").add_message("user", "before")
    marks = []
    for _ in range(3):
        copy_store(source, target, move=True, lag_seconds=0)
        with closing(sqlite3.connect(source)) as connection:
            marks += connection.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'").fetchone()

    assert marks == [1, 2, 2]
