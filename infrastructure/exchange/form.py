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

import msgspec

from ...domain.log.envelope import Meta

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
