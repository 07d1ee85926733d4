"""
Rows that are missing, or whose values have changed: one guard and one wording for every database.

Computing a digest takes as long as fetching and decoding its event. So a process computes it once and remembers a hash
of all its input. A checksum stored with the events would prove nothing: anyone who can change the events can compute it
again (docs/adr/0022).
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import ContextDecorator

import msgspec

from ...domain.canonical import require_unicode
from ...domain.clock import REAL_SYSTEM
from ...domain.errors import (
    MISSHAPEN,
    DamagedError,
    RefoldError,
    StorageBusyError,
    StorageError,
    StorageReadOnlyError,
    StorageUnavailableError,
    reason_of,
)
from ...domain.log.envelope import NO_DIGEST

NUMBER_MAX = (1 << 62) - 1
# At most so many damaged rows of a kind are reported.
ROWS_REPORTED = 100
# The prefix of the names of triggers and checks by which a database that was moved refuses events.
RETIRED = "refold_retired"
# The error of a database for an event that is encrypted with a key which is closed or destroyed.
KEY_DESTROYED = "refold_key_destroyed"
# There are one or two hashes for each 64 events: 4 MB at most.
CHECKED_MAX = 1 << 15
TOO_MANY_FILES = "too many files are open: close some, or raise the limit (ulimit -n)"
REBUILD = "`rebuild` makes it anew, events are not concerned"
NO_NOTE = "delete its row from the table note"
# A value of another type, NULL, or truncated bytes raise these when they are used. RecursionError is not among them:
# its cause is the caller's stack, not a row.
VALUE_FAULTS = (*MISSHAPEN, ArithmeticError, msgspec.MsgspecError, struct.error)


def new_mark() -> str:
    """Return a new name for a trigger or a check, so that another move that fails does not remove this one."""
    return REAL_SYSTEM.new_id(f"{RETIRED}_")


def foreign_object_fault(kind: str, name: str, table: str) -> str:
    """Return what is wrong with a trigger, or the like, that another program made."""
    return f"{name} on the table {table} is no {kind} of Refold: drop it"


def incomplete_insert_error(table: str, taken: int, count: int) -> DamagedError:
    """Return the error for an INSERT that has not written all of its rows, as with a trigger of another program."""
    fault = f"it took {taken} of {count} rows"
    return DamagedError(f"the table {table}", fault, remedy="`refold verify` names triggers that are not Refold's")


def lacks_files(failed: BaseException | None = None) -> bool:
    """Return whether a failure was that too many files are open; if it is no OSError, whether that is so now."""
    error = failed
    if not isinstance(error, OSError):
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as missing:
            error = missing
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def retired(where: str) -> StorageReadOnlyError:
    """Return the error of a store that was moved."""
    return StorageReadOnlyError(
        f"{where} was moved to another database, and takes no events any more: open that one, or `refold init --reopen`"
    )


def opened_for_reading(where: str) -> StorageReadOnlyError:
    """Return the error for a change of a store that was opened for reading only."""
    return StorageReadOnlyError(f"{where} was opened for reading only")


class MissingTableError(StorageUnavailableError):
    """A table of Refold is missing; an erasure may have dropped a table of rows, and makes it again."""


class KeyClosedError(StorageBusyError):
    """An event is encrypted with a key which is closed or destroyed."""


def key_closed(where: str) -> KeyClosedError:
    """Return the error for an event that is encrypted with a key which is closed or destroyed."""
    return KeyClosedError(f"somebody was erased while an event of theirs waited for {where}: try again")


class _Opening(ContextDecorator):
    """A class instead of a generator takes a third of the time, and every query of a log uses it."""

    def __init__(self, what: str, remedy: dict[str, str]) -> None:
        self._what, self._remedy = what, remedy

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, RefoldError):
            return
        if isinstance(error, UnicodeEncodeError):
            # Stored texts were decoded, so a text that cannot be encoded comes from the caller, and no row can have it.
            require_unicode(error.object, "a text that is asked for")
        if isinstance(error, VALUE_FAULTS):
            raise unreadable(self._what, error, **self._remedy) from error
        if isinstance(error, MemoryError):
            message = f"there is too little memory to read {self._what}: read less at a time"
            raise StorageError(message) from error


def opening(what: str, **remedy: str) -> _Opening:
    """
    Turn an error that changed stored values cause into a DamagedError of `what`.

    Use it only around code that reads stored values: anywhere else these errors are bugs of Refold.

    Raises:
        InvalidInputError: a text in the query has a lone surrogate.
        StorageError: there is too little memory for the rows.
    """
    return _Opening(what, remedy)


def unreadable(what: str, error: Exception, **remedy: str) -> DamagedError:
    """Return the error for rows with a changed value, which raised `error`."""
    return DamagedError(what, f"a value in it cannot be read ({reason_of(error)})", **remedy)


def whole(what: str, value: object, most: int = NUMBER_MAX) -> int:
    """
    Return a stored number after checking that it is an integer from 0 to `most`.

    Raises:
        DamagedError: it is anything else; `what` names it.
    """
    if type(value) is not int or not 0 <= value <= most:
        raise DamagedError(what, f"it is {value!r}, which it cannot be")
    return value


def digest_of_row(what: str, value: object) -> bytes:
    """
    Return a stored digest after checking its type and length; `what` names its event.

    Raises:
        DamagedError: it is not a digest, so no event may be chained to it.
    """
    if not isinstance(value, bytes) or len(value) != len(NO_DIGEST):
        raise DamagedError(what, "its digest is none")
    return value


def nameless_type(stream: str, version: int, tag: int) -> DamagedError:
    """Return the error for an event whose type has no row."""
    return DamagedError(f"{stream}@{version}", f"there is no row with the name of its type, {tag}")


def empty_key(stream: str, key: str, first: int, last: int, head: int) -> DamagedError:
    """Return the error for an idempotency key that names missing versions."""
    return DamagedError(stream, f"its key {key!r} names versions {first} to {last}, and it ends at version {head}")


class CheckedBefore:
    """Hashes of the events that this process has checked; any number of threads may use it."""

    def __init__(self) -> None:
        self._hashes: set[bytes] = set()

    def __contains__(self, checked: bytes) -> bool:
        return checked in self._hashes

    def add(self, checked: bytes) -> None:
        """Remember a hash; above CHECKED_MAX all others are forgotten and computed again later."""
        if len(self._hashes) >= CHECKED_MAX:
            self._hashes = set()
        self._hashes.add(checked)


def require_digests(
    computed: Iterable[bytes],
    stored: Sequence[bytes],
    name: Callable[[int], str],
    is_erased: Callable[[int], bool],
) -> None:
    """
    Check that each event has the digest stored with it, or is what an erasure left: `is_erased` says so of the n-th
    event, and `name` returns the name of the n-th event for an error.

    Raises:
        DamagedError: an event has another digest, and was not erased.
    """
    found = list(computed)
    if found != stored:
        for place, digest in enumerate(stored):
            if found[place] != digest and not is_erased(place):
                raise DamagedError(name(place), "it does not match its digest")
