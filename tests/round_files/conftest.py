"""Fixtures of the tests of round files."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import refold


@pytest.fixture
def store(tmp_path: Path) -> Iterator[refold.Store]:
    """An empty store in a file."""
    with refold.open(tmp_path / "refold.db", synchronous="NORMAL") as opened:
        yield opened


@pytest.fixture
def other() -> Iterator[refold.Store]:
    """Another empty store."""
    with refold.open(":memory:") as opened:
        yield opened
