"""
Rows that are missing, or hold other values than were written: one guard and one wording for every database.

A digest takes as long to compute as its event takes to fetch and decode. So a process computes it once and remembers
it by a hash of all that it covers. A checksum that lies beside the events proves nothing: whoever can change the
events can compute it anew (docs/adr/0022).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import ContextDecorator

import msgspec

from ...domain.canonical import require_unicode
from ...domain.errors import MISSHAPEN, DamagedError, RefoldError, StorageError
from ...domain.log.envelope import NO_DIGEST

NUMBER_MAX = (1 << 62) - 1
# Of a hash or two for each 64 events: 4 MB at most.
CHECKED_MAX = 1 << 15
REBUILD = "`rebuild` makes it anew, events are not concerned"
# A value of another type, NULL, or bytes cut short raise these where they are used. RecursionError is not among them:
# it says more about the caller's stack than about a row.
VALUE_FAULTS = (*MISSHAPEN, ArithmeticError, msgspec.MsgspecError, struct.error)


class _Opening(ContextDecorator):
    """A class and no generator: that takes a third of the time, and every question to a log comes by here."""

    def __init__(self, what: str, remedy: dict[str, str]) -> None:
        self._what, self._remedy = what, remedy

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, RefoldError):
            return
        if isinstance(error, UnicodeEncodeError):
            # Stored texts are decoded. One that cannot be encoded is the caller's, and no row can have it.
            require_unicode(error.object, "a text that is asked for")
        if isinstance(error, VALUE_FAULTS):
            raise unreadable(self._what, error, **self._remedy) from error
        if isinstance(error, MemoryError):
            message = f"there is too little memory to read {self._what}: read less at a time"
            raise StorageError(message) from error


def opening(what: str, **remedy: str) -> _Opening:
    """
    Turn an error that stored values cause, where they are not what was written, into a DamagedError of `what`.

    Only the reading of stored values belongs into the block: anywhere else these errors are mistakes of our own.

    Raises:
        InvalidInputError: what was asked for holds a lone surrogate.
        StorageError: there is too little memory for what is read.
    """
    return _Opening(what, remedy)


def unreadable(what: str, error: Exception, **remedy: str) -> DamagedError:
    """Return the error of rows with a value that is not what was written, and so raised `error`."""
    return DamagedError(what, f"a value in it cannot be read ({error or type(error).__name__})", **remedy)


def whole(what: str, value: object, most: int = NUMBER_MAX) -> int:
    """
    Return a stored number, once it is known to be one, from 0 to `most`.

    Raises:
        DamagedError: it is anything else; `what` names it.
    """
    if type(value) is not int or not 0 <= value <= most:
        raise DamagedError(what, f"it is {value!r}, which it cannot be")
    return value


def digest_of_row(what: str, value: object) -> bytes:
    """
    Return a stored digest, once it is known to be one; `what` names its event.

    Raises:
        DamagedError: it is none, and nothing may be chained on to it.
    """
    if not isinstance(value, bytes) or len(value) != len(NO_DIGEST):
        raise DamagedError(what, "its digest is none")
    return value


def nameless_type(stream: str, version: int, tag: int) -> DamagedError:
    """Return the error of an event whose type has no row."""
    return DamagedError(f"{stream}@{version}", f"there is no row with the name of its type, {tag}")


def empty_key(stream: str, key: str, first: int, last: int, head: int) -> DamagedError:
    """Return the error of an idempotency key that names versions which are not there."""
    return DamagedError(stream, f"its key {key!r} names versions {first} to {last}, and it ends at version {head}")


class CheckedBefore:
    """The events that this process has checked, by hashes; any number of threads may use it."""

    def __init__(self) -> None:
        self._hashes: set[bytes] = set()

    def __contains__(self, checked: bytes) -> bool:
        return checked in self._hashes

    def add(self, checked: bytes) -> None:
        """Remember a hash; where there are too many of them, all others are forgotten, and computed once more."""
        if len(self._hashes) >= CHECKED_MAX:
            self._hashes = set()
        self._hashes.add(checked)


def require_digests(computed: Iterable[bytes], stored: Sequence[bytes], name: Callable[[int], str]) -> None:
    """
    See to it that events have the digests that are stored with them; `name` says what the n-th is, for the error.

    Raises:
        DamagedError: one has not.
    """
    found = list(computed)
    if found != stored:
        first = next(place for place, digest in enumerate(stored) if found[place] != digest)
        raise DamagedError(name(first), "it does not match its digest")
