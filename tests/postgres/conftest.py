"""Logs on PostgreSQL for tests, closed when a test is over."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from refold.infrastructure.log.postgres.log import PostgresLog

from .proxy import Proxy, proxied

OpenLog = Callable[..., PostgresLog]


@pytest.fixture
def open_log(pg_url: str) -> Iterator[OpenLog]:
    """Open logs in a fresh database, or at another URL."""
    with ExitStack() as stack:

        def open_one(url: str = pg_url, **options: Any) -> PostgresLog:
            return stack.enter_context(closing(PostgresLog(url, **options)))

        yield open_one


@pytest.fixture
def log(open_log: OpenLog) -> PostgresLog:
    """A log in a fresh database."""
    return open_log()


@pytest.fixture
def proxy(pg_url: str) -> Iterator[Proxy]:
    """A proxy before the fresh database."""
    with proxied(pg_url) as proxy:
        yield proxy
