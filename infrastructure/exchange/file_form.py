"""
The form of a file of events: JSON Lines, a header, then an event a line, stream after stream, then the end.

    {"refold": 1, "streams": 2}
    {"stream": "chat:a", "version": 1, "root": "a", "recorded_at": 1795..., "meta": [...], "event": {"t": ...}}
    {"end": 5}

Bytes in events are base64. An event with a number that JSON does not have, such as infinity, is its whole payload in
base64. A stream comes after those that its first event names, so that a fork finds its parent. The number in the last
line is that of the events; without that line the file was cut off.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from ...domain.errors import DamagedError, InvalidInputError
from ...domain.log.envelope import PAYLOAD_BYTES_MAX, Meta, encode_payload
from ..log.codec import CODEC

FORM_VERSION = 1


class Header(msgspec.Struct, frozen=True):
    """The first line: which version of the form it is, and how many streams come."""

    refold: int
    streams: int


class EventLine(msgspec.Struct, frozen=True, kw_only=True):
    """
    An event with its envelope. `recorded_at` is in microseconds since 1970, UTC; `event` is its payload with its tag,
    as an object or, in base64, as the bytes that are stored.
    """

    stream: str
    version: int
    root: str
    recorded_at: int
    meta: Meta
    event: msgspec.Raw


class End(msgspec.Struct, frozen=True):
    """The last line: how many events there were."""

    end: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CODEC.events).decode
_decode_plain = msgspec.json.Decoder().decode


def line_of(event: Any) -> msgspec.Raw:
    """Return what a line has of an event."""
    said = _encode(event)
    # JSON has no infinity: it becomes a null. Few events have one, as what was not given is left out.
    # It writes some characters as six, so that the bytes may be shorter than a line can be.
    if len(said) > PAYLOAD_BYTES_MAX or (b"null" in said and not _says(said, event)):
        return msgspec.Raw(_encode(encode_payload(event)))
    return msgspec.Raw(said)


def _says(said: bytes, event: Any) -> bool:
    try:
        found: bool = _decode(said) == event
    except msgspec.ValidationError:
        return False
    return found


def event_in(said: msgspec.Raw) -> Any:
    """
    Return the event that a line has, in its newest shape.

    Raises:
        InvalidInputError: it is none.
    """
    try:
        return _decode(said)
    except msgspec.ValidationError:
        return _event_in_plain(said)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"the event is no JSON: {error}") from error


def _event_in_plain(line: msgspec.Raw) -> Any:
    """Return the event of a line that has it as its bytes, or in an older shape."""
    try:
        said = _decode_plain(line)
        if isinstance(said, str):
            return CODEC.decode(base64.b64decode(said, validate=True), "its event")
        # To convert what was read looks at all types of events each time, which takes far longer.
        return _decode(_encode(_newest(said) if isinstance(said, dict) else said))
    except (msgspec.DecodeError, DamagedError, ValueError, RecursionError, OverflowError) as error:
        raise InvalidInputError(f"{error} (written by a newer Refold?)") from error


def _newest(said: dict[str, Any]) -> dict[str, Any]:
    try:
        return CODEC.upcast(said)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"the event is no {said.get('t')}: {error!r}") from error
