"""A store of each kind, for tests that hold on all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.infrastructure.projecting import comparison, fold_ahead, runner

from .helped import PAGE, Watched
from .small_pages import with_small_pages


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store is opened."""
    locations = {"memory": ":memory:", "sqlite": str(tmp_path / "store.db")}
    return locations.get(request.param) or str(request.getfixturevalue("ready_pg_url"))


@pytest.fixture
def store(location: str) -> Iterator[refold.Store]:
    """An empty store."""
    with refold.open(location) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store lies that several processes can open."""
    return str(tmp_path / "store.db") if request.param == "sqlite" else str(request.getfixturevalue("ready_pg_url"))


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of a few events, so that there are many."""
    for module in (runner, comparison):
        # So that they are what they were afterwards.
        monkeypatch.setattr(module, "PAGE_EVENTS", module.PAGE_EVENTS)
    with_small_pages()


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Watched]]:
    """The helpers, which each search gets that has something to fold; pages are small."""
    started: list[Watched] = []

    def start(task: dict[str, Any]) -> Watched:
        started.append(Watched(task))
        return started[-1]

    monkeypatch.setattr(fold_ahead, "FoldingProcess", start)
    monkeypatch.setattr(fold_ahead, "cores", lambda: 2)
    monkeypatch.setattr(runner, "AHEAD_EVENTS_MIN", 1)
    monkeypatch.setattr(runner, "PAGE_EVENTS", PAGE)
    yield started
    for one in started:
        os.close(one.handle)
