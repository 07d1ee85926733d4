"""The statements of each call on PostgreSQL, to the letter: see tests/golden/told/statements."""

import pytest

import refold
from refold.infrastructure.log.postgres.log import PostgresLog
from tests.support.statements import heard_on_postgres, tell, tell_sealed, without_background
from tests.support.written_down import assert_as_written, stop_clock


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent or noted by itself, or at another time."""
    stop_clock(monkeypatch)
    without_background(monkeypatch)


def test_statements(ready_pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a call sends, in how many trips, and whether what is known was asked for again."""
    with heard_on_postgres(monkeypatch) as heard:
        tell(ready_pg_url, heard)

    assert_as_written("statements/postgres", heard.told())


def test_statements_about_blocks(ready_pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where events were packed: how many blocks are read for an answer, and how each is found."""

    def seal(store: refold.Store) -> None:
        assert isinstance(store.log, PostgresLog)
        for _ in store.log.sealing():
            pass

    with heard_on_postgres(monkeypatch) as heard:
        tell_sealed(ready_pg_url, heard, seal)

    assert_as_written("statements/postgres_blocks", heard.told())
