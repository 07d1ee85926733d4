"""The rows that a question reads are those of its answer, however many others there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.infrastructure.projecting.rows.database import DatabaseProjectionStore

OTHERS = 8


@pytest.fixture
def store(tmp_path: Path) -> Iterator[refold.Store]:
    """A store whose rows are read from a database."""
    with refold.open(str(tmp_path / "s.db")) as opened:
        yield opened


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], int]:
    """Return the function that counts the rows which a question reads that was asked before."""
    counts: list[int] = []
    rows = DatabaseProjectionStore._rows

    def counted(*given: Any) -> list[Any]:
        found = rows(*given)
        counts.append(len(found))
        return found

    monkeypatch.setattr(DatabaseProjectionStore, "_rows", counted)

    def rows_read(ask: Callable[[], Any]) -> int:
        ask()
        counts.clear()
        ask()
        return sum(counts)

    return rows_read


def asked_for(store: refold.Store, name: str) -> refold.ChatContext:
    """Return a chat with a fork, usage, and a call that waits."""
    chat = store.chat(name)
    chat.add_message("user", "pay")
    chat.fork(f"fork-of-{name}")
    chat.add_function_call("pay", "{}", "c1")
    chat.approvals.request("c1")
    return chat


def test_of_one_context(store: refold.Store, read: Callable[[Callable[[], Any]], int]) -> None:
    """The edges and the usage of a chat, calls without a decision, and what has changed lately."""
    for number in range(OTHERS):
        asked_for(store, f"c{number}").approvals.approve("c1", by="mia")
    chat = asked_for(store, "one")
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    changed = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=chat.history()[-1].recorded_at)

    assert read(lambda: store.lineage("one")) == read(lambda: store.lineage("fork-of-one")) == 1
    assert read(lambda: store.usage(context="one")) == 1
    assert read(lambda: store.usage(since=tomorrow)) == 0
    assert read(store.pending_approvals) == 1
    assert read(lambda: store.find_contexts(since=changed)) == 1
    assert read(lambda: store.find_contexts(until=changed, limit=3)) == 4
