"""Where the logs of a contract lie: in memory, in an SQLite file, in a PostgreSQL database."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import LiveLog
from refold.infrastructure.databases import open_database
from refold.infrastructure.log.sqlite.log import SqliteLog
from refold.infrastructure.trust.keys import KEY_BYTES, MasterKeys
from tests.support.project import ROOT

KEYS = MasterKeys({"m1": bytes(KEY_BYTES)})


def log_at(place: str, **options: Any) -> LiveLog:
    """Open the log at a path or a URL."""
    if place.startswith("postgresql://"):
        # By name: this module serves those as well who have no PostgreSQL.
        module = importlib.import_module("refold.infrastructure.log.postgres.log")
        log: LiveLog = module.PostgresLog(place, **options)
        return log
    return SqliteLog(place, **options)


class Store:
    """One place for logs. `open` opens it anew each time; what was opened is closed at the test's end."""

    def __init__(self, opener: Callable[..., LiveLog], place: str = "") -> None:
        self.place = place
        self._opener = opener
        self._opened: list[LiveLog] = []

    def open(self, **options: Any) -> LiveLog:
        """Open the log."""
        log = self._opener(**options)
        self._opened.append(log)
        return log

    def close(self) -> None:
        """Close all that was opened."""
        for log in self._opened:
            log.close()


def memory_store() -> Store:
    """Return a store whose every log is a new one, since memory is not opened twice."""
    return Store(MemoryLog)


def store_at(place: str | Path) -> Store:
    """Return the store at a path or a URL."""
    return Store(lambda **options: log_at(str(place), **options), str(place))


def sealed_at(place: str | Path) -> Store:
    """Return the encrypted store at a path or a URL, or in memory."""
    return Store(lambda **options: open_database(str(place), keys=KEYS, **options)[0], str(place))


def start_python(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start a module of the tests in a process of its own."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    return subprocess.Popen(
        [sys.executable, "-m", *arguments], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, **options
    )
