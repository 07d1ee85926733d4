"""Fixtures of the importing tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import refold


@pytest.fixture
def store(tmp_path: Path) -> Iterator[refold.Store]:
    """An empty store in a file."""
    with refold.open(tmp_path / "refold.db", synchronous="NORMAL") as opened:
        yield opened
