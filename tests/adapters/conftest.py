"""A server for each test."""

from collections.abc import Iterator

import pytest

from .server import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    """A running server that has no answers yet."""
    with serving() as running:
        yield running
