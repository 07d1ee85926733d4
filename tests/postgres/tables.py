"""Statements with which tests look into a log's tables, or spoil them."""

from typing import LiteralString

import psycopg

from refold.infrastructure.log.postgres.wire import Call


def count(table: str) -> Call:
    """Return a statement that counts the rows of a table."""
    return Call(f"SELECT count(*) FROM {table}")


def spoil(url: str, statement: LiteralString) -> None:
    """Change a table behind the log's back, and see to it that something was changed."""
    with psycopg.connect(url) as connection:
        assert connection.execute(statement).rowcount > 0
