"""The lives of all models on encrypted logs, in a file and in PostgreSQL: nothing shows that they are encrypted."""

from pathlib import Path
from typing import Any

import pytest

from refold.domain.log.ports import LiveLog

from ..contract.stores import sealed_at
from ..contract.test_sealed import check_below
from .chat_machine import ChatMachine
from .container_machine import ContainerMachine
from .editing_machine import EditingMachine
from .lives import live
from .log_machine import LogMachine
from .memory_machine import MemoryMachine
from .run_machine import RunMachine
from .test_editing_model import short_streams_have_snapshots  # noqa: F401  # a fixture that every life has
from .window_machine import WindowMachine

MACHINES: list[Any] = [
    LogMachine,
    ChatMachine,
    EditingMachine,
    ContainerMachine,
    WindowMachine,
    MemoryMachine,
    RunMachine,
]


def live_at(place: str, machine: Any, *, examples: int) -> None:
    """Have a machine live on the encrypted log at a place, and look at what is stored there."""

    class SealedMachine(machine):  # type: ignore[misc]  # it is one of MACHINES
        def open_log(self) -> LiveLog:
            return sealed_at(place).open()

    live(SealedMachine, examples=examples)
    check_below(place)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_sqlite(machine: Any, tmp_path: Path) -> None:
    """An encrypted file."""
    live_at(str(tmp_path / "log.db"), machine, examples=6)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.__name__)
def test_postgres(machine: Any, ready_pg_url: str) -> None:
    """An encrypted database."""
    live_at(ready_pg_url, machine, examples=3)
