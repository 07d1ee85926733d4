"""Registries are for the whole process, so each test begins with empty ones and leaves none of its own."""

from collections.abc import Iterator

import pytest

from .agents import empty_registries


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """Begin and end with empty registries."""
    with empty_registries():
        yield
