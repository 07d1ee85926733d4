"""The contract of a log holds with a witness: what other processes write, and what is read, never raises an alarm."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from refold.domain.log.ports import LiveLog
from refold.infrastructure.databases import open_database
from refold.infrastructure.trust.checkpoints import Checkpoints
from refold.infrastructure.trust.known_events import KnownEvents
from refold.infrastructure.trust.witness import FileWitness
from tests.contract.contract import LogContract
from tests.contract.stores import Store


def witnessed(place: str, witness: Path, opened: ExitStack, **options: Any) -> LiveLog:
    """Open a log with its witness."""
    log: Any
    log, rows = open_database(place, **options)
    checkpoints = Checkpoints(KnownEvents(log, log.segment_table(), read_only=False), rows, FileWitness(witness))
    checkpoints.start()
    log.use_evidence(checkpoints.known)
    opened.enter_context(closing(checkpoints))
    found: LiveLog = log
    return found


@pytest.fixture
def log(store: Store) -> LiveLog:
    """An empty log."""
    return store.open()


class TestWitnessedSqliteLog(LogContract):
    """A log in a file."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        """A file that does not exist yet."""
        yield from _stores(str(tmp_path / "log.db"), tmp_path / "witness.log")


class TestWitnessedPostgresLog(LogContract):
    """A log in a database."""

    @pytest.fixture
    def store(self, ready_pg_url: str, tmp_path: Path) -> Iterator[Store]:
        """An empty database."""
        yield from _stores(ready_pg_url, tmp_path / "witness.log")


def _stores(place: str, witness: Path) -> Iterator[Store]:
    with ExitStack() as opened:
        store = Store(partial(witnessed, place, witness, opened), place)
        yield store
    store.close()
