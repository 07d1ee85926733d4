"""
An event in a line of a file: as JSON that people can read, or as the bytes that are stored, where JSON cannot say it.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

import msgspec

from ...domain.envelope import encode_payload
from ...domain.errors import DamagedError, InvalidInputError
from ..codec import CODEC

__all__ = ["event_in", "line_of"]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CODEC.events).decode


def line_of(event: Any) -> msgspec.Raw | bytes:
    """
    Return what a line has of an event.
    """
    said = _encode(event)
    # JSON has no infinity: it becomes a null. Few events have one, as what was not given is left out.
    if b"null" in said and not _says(said, event):
        return encode_payload(event)
    return msgspec.Raw(said)


def _says(said: bytes, event: Any) -> bool:
    try:
        found: bool = _decode(said) == event
    except msgspec.ValidationError:
        return False
    return found


def event_in(said: Any) -> Any:
    """
    Return the event that a line has, in its newest shape.

    Raises:
        InvalidInputError: it is none.
    """
    try:
        if isinstance(said, str):
            return CODEC.decode(base64.b64decode(said, validate=True), "its event")
        newest = _newest(said) if isinstance(said, dict) else said
        # To convert what was read looks at all types of events each time, which takes far longer.
        return _decode(_encode(newest))
    except (msgspec.ValidationError, binascii.Error, DamagedError) as error:
        raise InvalidInputError(f"{error} (written by a newer Refold?)") from error


def _newest(said: dict[str, Any]) -> dict[str, Any]:
    try:
        return CODEC.upcast(said)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"the event is no {said.get('t')}: {error!r}") from error
