"""Work that waits in its middle until a test lets it go on; and rows that are wrong on purpose."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

import refold
from refold.infrastructure.projecting import comparison, runner
from refold.infrastructure.projecting.store import Save
from refold.projections.catalogue import CATALOGUE

PATIENCE_SECONDS = 20


class Gate:
    """Holds each rebuild, comparison and check of a store after its first page of few events, until it is opened."""

    def __init__(self, store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self._reached, self._opened = threading.Event(), threading.Event()
        for module in (runner, comparison):
            monkeypatch.setattr(module, "PAGE_EVENTS", 16)
        for name in ("rebuild", "check", "verify"):
            monkeypatch.setattr(store, name, self._held(getattr(store, name)))

    def _held(self, work: Any) -> Any:
        def held(*given: Any, progress: Any, **settings: Any) -> Any:
            def tell(told: Any) -> None:
                progress(told)
                self._reached.set()
                assert self._opened.wait(PATIENCE_SECONDS)

            return work(*given, progress=tell, **settings)

        return held

    def wait(self) -> None:
        """Wait until some work has come to its middle."""
        assert self._reached.wait(PATIENCE_SECONDS)

    def open(self) -> None:
        """Let all work go on."""
        self._opened.set()

    def close(self) -> None:
        """Hold the next work."""
        self._reached.clear()
        self._opened.clear()


def spoil(store: refold.Store, key: str) -> None:
    """Store a row of the catalogue with 99 items, and another one that should not be there, without any event."""
    store.contexts()
    row = next(row for row in store._projections.rows(CATALOGUE) if row.key == key)
    changed = msgspec.structs.replace(row, items=99)
    added = msgspec.structs.replace(row, key="chat:~none", id="~none")
    (before,) = store._projections.checkpoints(CATALOGUE)
    (saved,) = store._projections.save(Save(CATALOGUE, {key: changed, added.key: added}, before, before.moment))
    assert saved is not None
