"""What erasures and archives read of a large store: not more than they are about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import refold
from tests.trust.stores import WORD


def test_many_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which of them show something of what is to be erased is found in one reading of all forks and merges."""
    with refold.open(":memory:") as store:
        chat = store.chat("a", user="mia")
        chat.add_message("user", WORD)
        chat.fork("b").fork("c")
        reads: list[str] = []
        rows = store._runner.rows

        def noted(projection: Any) -> list[Any]:
            reads.append(projection.name)
            return rows(projection)

        monkeypatch.setattr(store._runner, "rows", noted)

        counts = []
        for held in ("d", "e", "c"):
            store.chat(held)
            store.hold(held, why="case 12")
            reads.clear()
            found = store.erase(user="mia", why="ticket").held
            counts.append(reads.count("lineage"))

    assert (found, len({*counts})) == (("chat:c",), 1)


def test_few_are_archived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is looked at, to see whether it is there; the names of all contexts are not read."""
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", "cold")
        store.archive(tmp_path / "cold", "a", why="cold")
        monkeypatch.setattr(type(store.log), "streams", lambda *_: pytest.fail("all names were read"))

        assert list(store.archives()) == ["chat:a"]
