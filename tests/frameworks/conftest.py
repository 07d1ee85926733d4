"""
The tests of adapters need the frameworks, which `scripts/test-frameworks` installs into an environment of their own.

Without them only the tests of the shared core, in this folder itself, are collected.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.infrastructure.log.sqlite.log import SqliteLog

FOLDERS = [path.name for path in Path(__file__).parent.iterdir() if path.is_dir() and (path / "__init__.py").exists()]
collect_ignore = [] if os.environ.get("REFOLD_TEST_FRAMEWORKS") else FOLDERS

# Else pytest-asyncio asks for a loop, which is made then, and which nobody closes when a test calls `asyncio.run`.
asyncio.set_event_loop(None)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[refold.Store]:
    """An empty store of each kind."""
    locations = {"memory": ":memory:", "sqlite": str(tmp_path / "store.db")}
    with refold.open(locations.get(request.param) or str(request.getfixturevalue("ready_pg_url"))) as opened:
        yield opened


@pytest.fixture
def memory() -> Iterator[refold.Store]:
    """An empty store in memory, where the kind of store cannot matter."""
    with refold.open(":memory:") as opened:
        yield opened


@pytest.fixture
def events_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of events of each read of an SQLite log; no call folds more than it reads."""
    counts: list[int] = []

    def counted(name: str, count: Callable[[Any], int] = len) -> None:
        read = getattr(SqliteLog, name)

        def note(*args: Any, **kwargs: Any) -> Any:
            found = read(*args, **kwargs)
            counts.append(count(found))
            return found

        monkeypatch.setattr(SqliteLog, name, note)

    counted("read")
    counted("read_events")
    counted("read_ranges", lambda found: sum(map(len, found)))
    return counts
