"""All contexts, and the log itself, against plain lists and dicts: in memory, on SQLite and on PostgreSQL."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import LiveLog

from ..contract.stores import log_at
from .chat_machine import ChatMachine
from .container_machine import ContainerMachine
from .editing_machine import EditingMachine
from .lives import live, with_short_snapshots
from .log_machine import LogMachine
from .memory_machine import MemoryMachine
from .run_machine import RunMachine
from .window_machine import WindowMachine

MEMORY, SQLITE, POSTGRES = range(3)


class Lives(NamedTuple):
    """A state machine, its lives in memory, in a file and in a database, and the steps of each life there."""

    machine: Any
    examples: tuple[int, int, int]
    steps: tuple[int, int, int] = (30, 30, 30)


LIVES = {
    "log": Lives(LogMachine, (25, 20, 8)),
    "chats": Lives(ChatMachine, (25, 15, 6)),
    "edits": Lives(EditingMachine, (30, 20, 8), (50, 40, 30)),
    "containers": Lives(ContainerMachine, (30, 12, 6), (40, 30, 25)),
    "windows": Lives(WindowMachine, (25, 15, 6)),
    "memories": Lives(MemoryMachine, (25, 15, 6)),
    "runs": Lives(RunMachine, (30, 12, 6), (40, 30, 25)),
}


@pytest.fixture(params=LIVES)
def lives(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Lives:
    """The lives of each model; edits are made on chats that begin with a snapshot."""
    if request.param == "edits":
        with_short_snapshots(monkeypatch)
    return LIVES[request.param]


def live_on(open_log: Callable[[], LiveLog], lives: Lives, place: int) -> None:
    """Have a machine live on a log, which memory cannot open twice."""

    class Machine(lives.machine):  # type: ignore[misc, name-defined]  # it is one of LIVES
        can_reopen = place != MEMORY

        def open_log(self) -> LiveLog:
            return open_log()

    live(Machine, examples=lives.examples[place], steps=lives.steps[place])


def test_in_memory(lives: Lives) -> None:
    """In memory all is as the model says, version by version."""
    live_on(MemoryLog, lives, MEMORY)


def test_in_a_file(lives: Lives, tmp_path: Path) -> None:
    """In a file, which is opened again and again, as well."""
    live_on(lambda: log_at(str(tmp_path / "log.db")), lives, SQLITE)


def test_in_a_database(lives: Lives, ready_pg_url: str) -> None:
    """In a database, too."""
    live_on(lambda: log_at(ready_pg_url), lives, POSTGRES)
