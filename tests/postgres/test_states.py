"""Each SQLSTATE becomes one of Refold's errors, which names the database and says what to do."""

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from refold.domain.errors import (
    DamagedError,
    StorageBusyError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from refold.infrastructure.log.postgres.errors import first_line, is_lost_connection, translate, translated
from refold.infrastructure.log.row_faults import RETIRED, MissingTableError

TABLE: list[tuple[str, type[Exception], str]] = [
    ("08006", StorageUnavailableError, "db does not answer (why): check that it runs"),
    ("57P01", StorageUnavailableError, "db does not answer (why): check that it runs"),
    ("57P02", StorageUnavailableError, "db does not answer (why): check that it runs"),
    ("57P03", StorageUnavailableError, "db does not answer (why): check that it runs"),
    ("25P03", StorageUnavailableError, "db does not answer (why): check that it runs"),
    ("53100", StorageFullError, "no room left on the disk of db: make some, then try again"),
    ("53200", StorageBusyError, "db is at its limit (why): try again later"),
    ("53300", StorageBusyError, "db is at its limit (why): try again later"),
    ("55P03", StorageBusyError, "db kept others waiting too long (why): try again"),
    ("57014", StorageBusyError, "db kept others waiting too long (why): try again"),
    ("40P01", StorageBusyError, "db kept others waiting too long (why): try again"),
    ("40001", StorageBusyError, "db kept others waiting too long (why): try again"),
    ("25006", StorageReadOnlyError, "db takes no changes: connect to the primary, or make it writable"),
    ("42501", StorageReadOnlyError, "db forbids it (why): grant its user the right"),
    ("42P01", MissingTableError, "db lacks a table of Refold's (why): restore it"),
    ("42703", MissingTableError, "db lacks a table of Refold's (why): restore it"),
    ("0A000", MissingTableError, "db lacks a table of Refold's (why): restore it"),
    ("58030", StorageError, "the disk of db failed: why: look at the server's log and disk"),
    ("XX001", DamagedError, "db is damaged: why"),
    ("22003", DamagedError, "it refuses a row that it should take (why)"),
    ("23505", DamagedError, "it refuses a row that it should take (why)"),
    ("23514", DamagedError, "it refuses a row that it should take (why)"),
    ("99999", StorageError, "db failed (why, SQLSTATE 99999): ask who runs it"),
]


class FailedError(psycopg.Error):
    """An error as a server sends it."""

    def __init__(self, state: str | None, message: str = "why\nand more of it", constraint: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = state
        self._told = SimpleNamespace(message_primary=message or None, constraint_name=constraint)

    @property
    def diag(self) -> Any:
        """What the server says of it."""
        return self._told


@pytest.mark.parametrize(("state", "kind", "told"), TABLE)
def test_each_state(state: str, kind: type[Exception], told: str) -> None:
    """With the first line of the server's message."""
    translation = translate(FailedError(state), "db")

    assert type(translation) is kind
    assert told in str(translation)
    assert is_lost_connection(FailedError(state)) == ("does not answer" in told)


def test_rows_of_a_projection() -> None:
    """They are made anew, and not restored."""
    told = translate(FailedError("42P01", 'relation "view_search_2" does not exist'), "db")

    assert str(told).endswith(": rebuild that projection")


def test_a_store_that_was_moved() -> None:
    """A check of the table refuses its rows; on a cluster its name has a number at its end."""
    told = translate(FailedError("23514", constraint=f"{RETIRED}_102"), "db")

    assert type(told) is StorageReadOnlyError
    assert "db was moved to another database" in str(told)


@pytest.mark.parametrize("state", ["42601", None])
def test_faults_of_the_program_stay(state: str | None) -> None:
    """A statement that is written wrongly, or a wrong use of the driver."""
    error = FailedError(state)

    assert translate(error, "db") is error
    with pytest.raises(FailedError), translated("db"):
        raise error


def test_an_error_without_words() -> None:
    """It has its name at least."""
    assert first_line(FailedError("XX000", "")) == "FailedError"


def test_a_connection_that_is_gone_without_a_state() -> None:
    """Then it is libpq that says so."""
    assert is_lost_connection(psycopg.OperationalError("gone"))
    assert not is_lost_connection(psycopg.InterfaceError("wrong"))
