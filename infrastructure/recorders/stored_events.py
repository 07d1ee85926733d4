"""
The common part of Refold's recorders for the `eventsourcing` package, on every database.

The events of another application are in the same kind of log as Refold's own. A `StoredEvent` is an event of the stream
named after its originator; its topic is the tag, its state the payload. The digest covers both.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple
from uuid import UUID

import msgspec
from eventsourcing import persistence
from eventsourcing.persistence import (
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    PersistenceError,
    StoredEvent,
    Tracking,
)

from ...domain.errors import (
    ConcurrencyError,
    DamagedError,
    InvalidInputError,
    StorageClosedError,
    StorageError,
    StorageUnavailableError,
)
from ...domain.ids import VERSION_MAX
from ...domain.log.envelope import NO_DIGEST, NO_META, PAYLOAD_BYTES_MAX, UNKEYED
from ...domain.positions import Position
from ..log.codec import decode_meta
from ..log.records import Draft, Part

IdType = Literal["uuid", "text"]
NAME_LENGTH_MAX = 32
PURPOSE_LENGTH_MAX = 20
TEXT_BYTES_MAX = 2_000
# The largest notification id.
LAST = (1 << 63) - 1
FOREIGN_STARTS = (0, 1)
PLAIN_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_ENCODER = msgspec.msgpack.Encoder()


def require_storable(tracking: Tracking) -> None:
    """
    Require that both databases can store a position. They would refuse it only in the transaction of its events, in a
    thread that commits for several callers.

    Raises:
        DataError: the name cannot be stored, or the id is too large.
    """
    storable(tracking.application_name)
    if abs(tracking.notification_id) > LAST:
        raise DataError(f"the notification id {tracking.notification_id} is larger than any can be: {LAST}")


def within(number: int, most: int = LAST) -> int:
    """Return the nearest bound that both databases take, for a range of stored numbers, which are 0 or more."""
    return max(-1, min(number, most))


@contextmanager
def translated_for_eventsourcing(driver_error: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Turn Refold's errors, and those of the driver if one is given, into those of `eventsourcing.persistence`."""
    try:
        yield
    except ConcurrencyError as error:
        wanted, last = error.expected + 1, error.actual
        raise IntegrityError(f"version {wanted} of {error.stream} does not follow its last, {last}") from error
    except StorageError as error:
        raise _kind_of(error, driver_error)(str(error)) from error
    except (DamagedError, InvalidInputError) as error:
        cause = error.__cause__
        raise (_namesake(cause) if isinstance(cause, driver_error) else DataError)(str(error)) from error
    except driver_error as error:
        raise _namesake(error)(str(error)) from error


def _kind_of(error: StorageError, driver_error: type[Exception] | tuple[()]) -> type[PersistenceError]:
    if isinstance(error.__cause__, driver_error):
        return _namesake(error.__cause__)
    cannot_be_used = isinstance(error, StorageClosedError | StorageUnavailableError)
    return InterfaceError if cannot_be_used else OperationalError


def _namesake(error: Exception) -> type[PersistenceError]:
    """
    Return the error class of `eventsourcing` with the same name: drivers and the package use the names of PEP 249.
    """
    for kind in type(error).__mro__:
        known = getattr(persistence, kind.__name__, None)
        if isinstance(known, type) and issubclass(known, PersistenceError):
            return known
    return PersistenceError


def table_prefix(application: str) -> str:
    """Return the prefix of an application's table names, which no other application has."""
    return f"{safe_name(application)}__"


def safe_name(text: str, *, length_max: int = NAME_LENGTH_MAX) -> str:
    """
    Return an identifier: lower case, no double underscore, not too long.

    A text that has to be changed for that gets a hash of itself, so that two texts give two identifiers.
    """
    name = text.lower() or "stored"
    if len(name) <= length_max and PLAIN_NAME.fullmatch(name):
        return name
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    words = re.sub(r"[^a-z0-9]+", "_", f"app_{name}")
    return f"{words[: length_max - 9].strip('_')}_{digest}"


def snapshot_table(prefix: str, purpose: str) -> str:
    """Return the name of the table for records apart from events, for a purpose like "snapshots"."""
    return f"{prefix}stored_{safe_name(purpose, length_max=PURPOSE_LENGTH_MAX)}"


def stream_of(originator_id: UUID | str, id_type: IdType) -> str:
    """
    Return the stream of an originator, which is its id; a UUID is written in hexadecimal digits.

    Raises:
        DataError: ids are UUIDs here and this is not one, or the id cannot be stored.
    """
    if isinstance(originator_id, UUID):
        return originator_id.hex
    if id_type == "text":
        return storable(originator_id)
    try:
        return UUID(originator_id).hex
    except ValueError as error:
        raise DataError(f"{originator_id!r} is not a UUID: set ORIGINATOR_ID_TYPE to text") from error


def storable(text: str) -> str:
    """
    Return an id, a topic or a name that both databases can store and find by an index.

    Raises:
        DataError: they cannot.
    """
    if not isinstance(text, str):
        raise DataError(f"{text!r} is no text")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise DataError(f"{text!r} holds a lone surrogate, which is not UTF-8") from error
    if size > TEXT_BYTES_MAX or "\0" in text:
        raise DataError(f"{text[:80]!r} has NUL in it, or more than TEXT_BYTES_MAX ({TEXT_BYTES_MAX:,}) bytes")
    # Exactly a `str`: a subclass of an application's own could not be encoded for the digest.
    return str.__str__(text)


def originator_of(stream: str, id_type: IdType) -> UUID | str:
    return UUID(stream) if id_type == "uuid" else stream


def parts_of(
    stored_events: Sequence[StoredEvent], id_type: IdType, lane: int, shrink: Callable[[bytes], bytes]
) -> list[Part]:
    """
    Return events as parts to append, in their order; consecutive events of one stream are one part.

    Raises:
        DataError, IntegrityError: the log does not accept an event.
    """
    parts: list[Part] = []
    drafts: list[Draft] = []
    expected: tuple[str, int] | None = None
    for event in stored_events:
        version, topic, state = content_of(event)
        place = (stream_of(event.originator_id, id_type), version)
        draft = _draft_of(topic, state, shrink)
        if place != expected:
            drafts = []
            parts.append(Part(*place, drafts, lane, starts=FOREIGN_STARTS))
        drafts.append(draft)
        expected = (place[0], place[1] + 1)
    return parts


def content_of(event: StoredEvent) -> tuple[int, str, bytes]:
    """
    Return version, topic and state of an event or a snapshot, of exactly these types.

    Raises:
        DataError, IntegrityError: one of them cannot be stored.
    """
    version, topic, state = event.originator_version, event.topic, event.state
    if not isinstance(version, int) or version > VERSION_MAX:
        raise DataError(f"{version!r} is no version")
    if version < 0:
        raise IntegrityError(f"version {version} of {event.originator_id}: the first is 0 or 1")
    if not isinstance(topic, str) or not isinstance(state, bytes | bytearray | memoryview):
        raise DataError(f"topic and state of {event.originator_id} must be text and bytes")
    # True is an int, too, but the digest of True is not that of the 1 that is stored.
    return int(version), storable(topic), bytes(state)


def _draft_of(topic: str, state: bytes, shrink: Callable[[bytes], bytes]) -> Draft:
    if len(state) > PAYLOAD_BYTES_MAX:
        raise DataError(f"a state of {len(state):,} bytes is over PAYLOAD_BYTES_MAX ({PAYLOAD_BYTES_MAX:,})")
    return Draft(topic, _covered(topic, state), shrink(state), NO_META)


def _covered(topic: str, state: bytes) -> bytes:
    return _ENCODER.encode((topic, state))


class Stored(NamedTuple):
    """A recorded event as it is stored, and the digest of the event before it in its stream."""

    slice: int
    number: int
    stream: str
    version: int
    recorded_at: int
    topic: str
    meta: bytes | None
    state: bytes
    digest: bytes
    previous: bytes | None


def opened_state(row: Stored, expand: Callable[[bytes, str], bytes]) -> bytes:
    """
    Return the state that was recorded, checked against its digest.

    Raises:
        DamagedError: it does not match, or the event before it is missing.
    """
    what = f"event {row.stream}@{row.version}"
    if row.previous is None and row.version > max(FOREIGN_STARTS):
        raise DamagedError(f"event {row.stream}@{row.version - 1}", "it is missing")
    state = expand(row.state, what)
    digest = UNKEYED.digest(
        row.previous or NO_DIGEST,
        row.stream,
        row.version,
        Position(row.slice, row.number),
        row.recorded_at,
        decode_meta(row.meta),
        _covered(row.topic, state),
    )
    if digest != row.digest:
        raise DamagedError(what, "it does not match its digest")
    return state
