"""Errors of PostgreSQL, psycopg and poolers as Refold's own: by SQLSTATE, or without one, by their words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from ....domain.errors import (
    DamagedError,
    RefoldError,
    StorageBusyError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from ..row_faults import KEY_DESTROYED, RETIRED, TOO_MANY_FILES, MissingTableError, key_closed, lacks_files, retired
from .wire import SilentError

# SQLSTATEs unique_violation and read_only_sql_transaction.
DUPLICATE, READ_ONLY = "23505", "25006"
# SQLSTATEs deadlock_detected and serialization_failure: the server cancelled a statement; repeated, it may succeed.
CALLED_OFF = ("40P01", "40001")
# libpq gives no SQLSTATE where a server refuses or ends a connection, so its words, or a pooler's, are compared.
WAITED_FOR_POOL = "query_wait_timeout"
USED_UP = re.compile(
    "too many (clients|connections)|connection slots are reserved|no more connections allowed|" + WAITED_FOR_POOL
)
NOT_READY, NO_ROOM = "the database system is", "No space left on device"
STATEMENT_MODE = "statement pooling mode"


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn errors of psycopg into Refold's own; errors that are bugs of Refold stay as they are."""
    try:
        yield
    except psycopg.Error as error:
        known = translate(error, where)
        if known is error:
            raise
        raise known from error


def is_lost_connection(error: psycopg.Error) -> bool:
    """
    Return whether an error means that the connection is gone, so that the result of its last statements is unknown.
    """
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state[:2] == "08" or state in ("57P01", "57P02", "57P03", "25P03")


def is_silent(error: BaseException) -> bool:
    """
    Return whether a new connection got no answer within its time limit, or that of a pooler: another one would wait as
    long.
    """
    cause = error.__cause__
    return isinstance(cause, psycopg.errors.ConnectionTimeout | SilentError) or WAITED_FOR_POOL in str(cause)


def is_outdated(error: psycopg.Error) -> bool:
    """Return whether a statement was prepared for a table that has other columns since: it must be prepared again."""
    return isinstance(error, psycopg.errors.FeatureNotSupported)


def is_passing(error: psycopg.Error) -> bool:
    """
    Return whether a read may succeed on another connection, or a moment later.

    A standby, for example, cancels a read when it must remove rows that the primary removed.
    """
    return is_lost_connection(error) or is_outdated(error) or is_called_off(error)


def is_called_off(error: Exception) -> bool:
    """Return whether the server cancelled a statement on a connection that can still be used."""
    return isinstance(error, psycopg.Error) and error.sqlstate in CALLED_OFF


def first_line(error: psycopg.Error) -> str:
    """Return the first line of the message of the server or libpq."""
    message = error.diag.message_primary or str(error)
    return message.strip().splitlines()[0] if message.strip() else type(error).__name__


def translate(error: psycopg.Error, where: str) -> RefoldError | psycopg.Error:
    """Return Refold's error for one of psycopg's; the same error if a statement was written or used wrongly."""
    if is_lost_connection(error):
        return _without_connection(first_line(error), where)
    match error.sqlstate or "":
        case "53100":
            return _full(where)
        case "53200" | "53300" | "53400":
            return _used_up(first_line(error), where)
        case "55P03" | "57014" | "40P01" | "40001":
            return StorageBusyError(f"{where} kept others waiting too long ({first_line(error)}): try again")
        case code if code == READ_ONLY:
            return StorageReadOnlyError(f"{where} takes no changes: connect to the primary, or make it writable")
        case "42501":
            return StorageReadOnlyError(f"{where} forbids it ({first_line(error)}): grant its user the right")
        case "3F000":
            return StorageUnavailableError(f"{where} has no schema ({first_line(error)}): look at its search_path")
        case "42P01" | "42703" | "42804" | "42883" | "42P10" | "0A000":
            # Missing, or of another shape: a column's type, or the key by which rows are found.
            way_out = "rebuild that projection" if "view_" in str(error) else "restore it"
            return MissingTableError(f"{where} lacks a table of Refold's ({first_line(error)}): {way_out}")
        case "58030":
            return StorageError(f"the disk of {where} failed: {first_line(error)}: look at the server's log and disk")
        case "XX001" | "XX002":
            return DamagedError(where, first_line(error))
        # On Citus the names of shards' checks have numbers at their ends.
        case "23514" if (error.diag.constraint_name or "").startswith(RETIRED):
            return retired(where)
        case "22P02" if KEY_DESTROYED in first_line(error):
            return key_closed(where)
        case state if state[:2] in ("22", "23"):
            return DamagedError(where, f"it refuses a row that it should take ({first_line(error)})")
        case "42601" | "":
            return error
        case state:
            return StorageError(f"{where} failed ({first_line(error)}, SQLSTATE {state}): ask who runs it")


def refusal(error: psycopg.Error | OSError, where: str) -> StorageError:
    """Return the error for a connection that could not be made."""
    if lacks_files(error):
        return StorageUnavailableError(f"{where} cannot be opened: {TOO_MANY_FILES}")
    reason = first_line(error) if isinstance(error, psycopg.Error) else str(error)
    if any(words in reason for words in (NO_ROOM, NOT_READY)) or USED_UP.search(reason):
        return _without_connection(reason, where)
    return StorageUnavailableError(f"{where} cannot be opened ({reason}): check address, name and login")


def _without_connection(reason: str, where: str) -> StorageError:
    """Return the error for a connection that was refused or has ended, by the words of the server or a pooler."""
    if USED_UP.search(reason):
        return _used_up(reason, where)
    if NO_ROOM in reason:
        return _full(where)
    if STATEMENT_MODE in reason:
        way_out = "an append is a transaction: let the pooler lend connections for transactions (pool_mode)"
        return StorageUnavailableError(f"{where} is behind a pooler in statement mode ({reason}), and {way_out}")
    return StorageUnavailableError(f"{where} does not answer ({reason}): check that it runs")


def _used_up(reason: str, where: str) -> StorageBusyError:
    return StorageBusyError(f"{where} is at its limit ({reason}): try again later")


def _full(where: str) -> StorageFullError:
    return StorageFullError(f"no room left on the disk of {where}: make some, then try again")
