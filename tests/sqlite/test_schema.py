"""What is looked at when a file is opened: that it is one of Refold's, and that its tables are tables."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import refold
from refold.domain.chat.items import ChatMessage
from refold.domain.chat.roles import ChatRole
from refold.domain.errors import DamagedError, StorageReadOnlyError, StorageUnavailableError
from refold.infrastructure.log.sqlite import schema
from refold.infrastructure.log.sqlite.log import SqliteLog


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_a_file_without_the_application_id(tmp_path: Path, mode: str) -> None:
    """As `.dump` of SQLite leaves it: it is said what is missing, and nothing is changed."""
    refold.open(tmp_path / "s.db").close()
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.executescript(f"PRAGMA journal_mode={mode}; PRAGMA application_id=0")

    with pytest.raises(StorageUnavailableError, match="has the tables of Refold, but not its application_id"):
        refold.open(tmp_path / "s.db")


def test_a_view_in_the_place_of_a_table(tmp_path: Path) -> None:
    """It gives what its author wants, to checks as well: such a file is not opened."""
    refold.open(tmp_path / "s.db").close()
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        wanted = {str(name) for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        assert wanted <= set(re.findall(r"\w+", schema.OWN_TABLES))
        connection.executescript("ALTER TABLE event RENAME TO mine; CREATE VIEW Event AS SELECT * FROM mine")

    for read_only in (False, True):
        with pytest.raises(DamagedError, match="a view has the place of the table Event"):
            refold.open(tmp_path / "s.db", read_only=read_only)


@pytest.mark.parametrize("name", ["t", "refold_retired_not"])
def test_a_trigger_of_others(name: str, tmp_path: Path) -> None:
    """It may drop what is recorded: who writes is refused, and the check names it. Refold's own are no damage."""
    with closing(SqliteLog(tmp_path / "s.db")) as log:
        log.retire()
    with refold.open(tmp_path / "s.db") as store:
        assert store.verify().is_whole
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        connection.execute(f"CREATE TRIGGER {name} AFTER INSERT ON event BEGIN DELETE FROM event; END")

    with pytest.raises(StorageReadOnlyError, match=f"{name} on the table event is no trigger of Refold: drop it"):
        refold.open(tmp_path / "s.db")
    with refold.open(tmp_path / "s.db", read_only=True) as store:
        (problem,) = store.verify().problems
    assert problem.reason == f"{name} on the table event is no trigger of Refold: drop it"


@pytest.mark.parametrize("count", [1, 2])
def test_a_trigger_that_drops_rows(tmp_path: Path, count: int) -> None:
    """Nothing is acknowledged that is not there, in whatever way it is appended."""
    items = [ChatMessage(role=ChatRole.USER, content=["x"]) for _ in range(count)]
    with refold.open(tmp_path / "s.db") as store:
        chat = store.chat("a")
        with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
            connection.execute("CREATE TRIGGER t BEFORE INSERT ON event BEGIN SELECT RAISE(IGNORE); END")
        ways = (partial(chat.add_items, items), partial(chat.add_items, items), partial(store.chat, "new"))
        for way in (*ways, partial(chat.add_items, items, idempotency_key="k")):
            with pytest.raises(DamagedError, match=r"the table event is damaged: it took 0 of . row"):
                way()

        assert (store.log.head("chat:a"), store.log.streams()) == (1, ["chat:a"])
