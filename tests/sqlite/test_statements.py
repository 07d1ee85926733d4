"""The statements of each call on SQLite, to the letter: see tests/golden/told/statements."""

from pathlib import Path

import pytest

import refold
from refold.infrastructure.log.sqlite.log import SqliteLog
from tests.support.statements import heard_on_sqlite, tell, tell_sealed, without_background
from tests.support.written_down import assert_as_written, stop_clock


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent or noted by itself, or at another time."""
    stop_clock(monkeypatch)
    without_background(monkeypatch)


def test_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a call sends, how often, and whether what is known was asked for again."""
    with heard_on_sqlite(monkeypatch) as heard:
        tell(str(tmp_path / "s.db"), heard)

    assert_as_written("statements/sqlite", heard.told().replace(str(tmp_path), "FOLDER"))


def test_statements_about_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where events were packed: how many blocks are read for an answer, and how each is found."""

    def seal(store: refold.Store) -> None:
        assert isinstance(store.log, SqliteLog)
        while store.log._seal_slice():
            pass

    with heard_on_sqlite(monkeypatch) as heard:
        tell_sealed(str(tmp_path / "s.db"), heard, seal)

    assert_as_written("statements/sqlite_blocks", heard.told())
