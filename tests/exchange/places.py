"""Where stores lie that events go from and to, and comparing two of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.log.envelope import Meta

PAIRS = [("memory", "sqlite"), ("sqlite", "postgres"), ("postgres", "sqlite"), ("sqlite", "memory")]


def place_of(kind: str, request: pytest.FixtureRequest, folder: Path, name: str) -> str:
    """Return where a store of a kind is to lie."""
    if kind == "postgres":
        return str(request.getfixturevalue("ready_pg_url"))
    return ":memory:" if kind == "memory" else str(folder / name)


def recorded(store: refold.Store) -> dict[str, list[tuple[int, Any, Meta]]]:
    """Return the events of every context with who, why and under which key: all but what a log gives anew."""
    streams = [row.key for row in store.contexts()]
    return {stream: [(one.version, one.event, one.meta) for one in store.log.read(stream)] for stream in streams}


def rows(store: refold.Store) -> list[Any]:
    """Return the catalogue without times and positions, which are those of its log."""
    own = {"opened_at": 0, "changed_at": 0, "lane": 0, "first_number": 0, "number": 0}
    return [msgspec.structs.replace(row, **own) for row in store.contexts()]
