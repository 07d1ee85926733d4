"""Searches with a helper: the helper as a test sees it, a store that is worth one, and all that a search stores."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing
from typing import Any

import pytest

import refold
from refold.domain.positions import Moment
from refold.infrastructure.projecting import runner
from refold.infrastructure.projecting.fold_ahead import FoldedPage, FoldingProcess

from .histories import something_of_everything

PATIENCE_SECONDS = 60
PAGE = 4


class Watched(FoldingProcess):
    """A helper that is waited for until it has begun, and that counts its pages."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.pages, self.is_stopped = 0, False
        super().__init__(task)
        self.handle = os.pidfd_open(self._process.pid)

    def after(self, moment: Moment, limit: int) -> FoldedPage | None:
        """Return what a helper returns that begins at once."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.is_waited_for and self._messages.empty() and time.monotonic() < deadline:
            time.sleep(0.01)
        page = super().after(moment, limit)
        self.pages += page is not None
        return page

    @property
    def is_waited_for(self) -> bool:
        """Whether it will begin, and has not yet."""
        return not (self._moment or self.is_over or self.is_stopped)

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended, and was waited for."""
        return self._process.returncode is not None


def filled(place: str) -> str:
    """Make a store with something of everything in it, and a message whose pieces are far apart; return its place."""
    with refold.open(place) as store:
        chat = store.chat("streamed")
        with chat.stream() as out:
            for piece in ("The parcel ", "left Köln on ", "Monday."):
                out.write(piece)
                out.flush()
                something_of_everything(store, len(piece))
    return place


def copied(place: str) -> str:
    """Return the path of a copy of a store that nobody has open."""
    copy = f"{place}.copy"
    with closing(sqlite3.connect(place)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy


def stored(place: str) -> dict[str, list[Any]]:
    """Return all that a search has stored, but for the ids of its saves."""
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE VIRTUAL TABLE temp.terms USING fts5vocab(main, view_search_words, instance)")
        asked = {
            "rows": "SELECT * FROM view_search ORDER BY number",
            "sizes": "SELECT * FROM view_search_words_docsize ORDER BY id",
            "terms": "SELECT * FROM temp.terms ORDER BY term, doc",
            "checkpoint": "SELECT * FROM checkpoint",
            "notes": "SELECT * FROM note WHERE name NOT LIKE 'save/%' ORDER BY name",
        }
        return {name: connection.execute(statement).fetchall() for name, statement in asked.items()}


def stored_alone(place: str) -> dict[str, list[Any]]:
    """Return what one process stores for a search of this store, of which it makes a copy."""
    copy = copied(place)
    with pytest.MonkeyPatch.context() as alone, refold.open(copy) as store:
        alone.setattr(runner, "AHEAD_EVENTS_MIN", 10**9)
        assert store.search('"on monday"')
    return stored(copy)
