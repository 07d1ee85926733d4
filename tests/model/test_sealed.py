"""The lives of all models on encrypted logs, in a file and in PostgreSQL: nothing shows that they are encrypted."""

from pathlib import Path
from typing import Any

import pytest

from refold.domain.log.ports import LiveLog

from ..contract.stores import sealed_at
from ..contract.test_sealed import check_below
from .lives import live, with_short_snapshots
from .test_lives import LIVES


@pytest.fixture(params=LIVES)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The machine of each model."""
    with_short_snapshots(monkeypatch)
    return LIVES[request.param].machine


def live_at(place: str, machine: Any, *, examples: int) -> None:
    """Have a machine live on the encrypted log at a place, and look at what is stored there."""

    class SealedMachine(machine):  # type: ignore[misc]  # it is one of LIVES
        def open_log(self) -> LiveLog:
            return sealed_at(place).open()

    live(SealedMachine, examples=examples)
    check_below(place)


def test_sqlite(machine: Any, tmp_path: Path) -> None:
    """An encrypted file."""
    live_at(str(tmp_path / "log.db"), machine, examples=6)


def test_postgres(machine: Any, ready_pg_url: str) -> None:
    """An encrypted database."""
    live_at(ready_pg_url, machine, examples=3)
