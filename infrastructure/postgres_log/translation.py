"""From PostgreSQL's errors to Refold's, by SQLSTATE: one line, with the database's name and a way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from ...domain.errors import (
    DamagedError,
    RefoldError,
    StorageBusyError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)

DUPLICATE = "23505"


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn errors of psycopg into Refold's own; those that are mistakes of ours go on as they are."""
    try:
        yield
    except psycopg.Error as error:
        known = translate(error, where)
        if known is error:
            raise
        raise known from error


def is_lost_connection(error: psycopg.Error) -> bool:
    """Return whether an error means that the connection is gone, and what it was about to do uncertain."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state[:2] == "08" or state in ("57P01", "57P02", "57P03")


def first_line(error: psycopg.Error) -> str:
    """Return what the server or libpq said, without the lines that explain it further."""
    message = error.diag.message_primary or str(error)
    return message.strip().splitlines()[0] if message.strip() else type(error).__name__


def translate(error: psycopg.Error, where: str) -> RefoldError | psycopg.Error:
    """Return Refold's error for one of psycopg's; the same where a statement was written or used wrongly."""
    if is_lost_connection(error):
        return StorageUnavailableError(f"{where} does not answer ({first_line(error)}): check that it runs")
    match error.sqlstate or "":
        case "53100":
            return StorageFullError(f"no room left on the disk of {where}: make some, then try again")
        case "53200" | "53300" | "53400":
            return StorageBusyError(f"{where} is at its limit ({first_line(error)}): try again later")
        case "55P03" | "57014" | "40P01" | "40001":
            return StorageBusyError(f"{where} kept others waiting too long ({first_line(error)}): try again")
        case "25006":
            return StorageReadOnlyError(f"{where} takes no changes: connect to the primary, or make it writable")
        case "42501":
            return StorageReadOnlyError(f"{where} forbids it ({first_line(error)}): grant its user the right")
        case "42P01" | "42703" | "3F000" | "42804" | "42883" | "42P10" | "0A000":
            # Gone, or of another shape: a column's type, or the key that rows are found by.
            way_out = "rebuild that projection" if "view_" in str(error) else "restore it"
            return StorageUnavailableError(f"{where} lacks a table of Refold's ({first_line(error)}): {way_out}")
        case "58030":
            return StorageError(f"the disk of {where} failed: {first_line(error)}")
        case "XX001" | "XX002":
            return DamagedError(where, first_line(error))
        case state if state[:2] in ("22", "23"):
            return DamagedError(where, f"it refuses a row that it should take ({first_line(error)})")
        case "42601" | "":
            return error
        case state:
            return StorageError(f"{where} failed ({first_line(error)}, SQLSTATE {state}): ask who runs it")
