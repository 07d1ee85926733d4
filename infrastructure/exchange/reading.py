"""Reading a file of Refold's own form, line by line; that it is whole is known at its end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from ...domain.errors import InvalidInputError
from ...domain.log.envelope import Event, Meta
from .file_form import FORM_VERSION, End, EventLine, Header, event_in
from .files import reading_file

# An event is at most PAYLOAD_BYTES_MAX, and its line is not longer than its base64 with its envelope.
LINE_BYTES_MAX = 512 * 1024 * 1024


class ReadLine(NamedTuple):
    """A line of a file with its event: its number, and the offset where it begins."""

    number: int
    offset: int
    line: EventLine
    event: Event


def event_lines(path: Path) -> Iterator[ReadLine]:
    """
    Yield the events of a file, each with its envelope and its place.

    Raises:
        InvalidInputError: it is no such file, of a newer form, or cut off.
    """
    events = 0
    end: End | None = None
    for number, offset, data in _lines(path):
        if number == 1:
            _require_header(path, data)
            continue
        if end is not None:
            raise InvalidInputError(f"{path}, line {number}: nothing comes behind the end")
        if data.startswith(b'{"end"'):
            end = _decoded(path, number, data, End)
            continue
        line: EventLine = _decoded(path, number, data, EventLine)
        events += 1
        try:
            event = event_in(line.event)
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}, line {number}: {error}") from error
        yield ReadLine(number, offset, line, event)
    if end is None or end.end != events:
        raise InvalidInputError(f"{path} is cut off: it ends after {events:,} events without saying so")


def event_at(file: IO[bytes], offset: int) -> tuple[Event, Meta]:
    """Return the event whose line begins at an offset, and who recorded it; the line was read before."""
    file.seek(offset)
    line = msgspec.json.decode(file.readline(LINE_BYTES_MAX), type=EventLine)
    return event_in(line.event), line.meta


def _lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    with reading_file(path) as opened:
        offset = 0
        # A line without an end would be read until there is no memory left.
        for number in count(1):
            data = opened.readline(LINE_BYTES_MAX + 1)
            if not data:
                return
            if len(data) > LINE_BYTES_MAX:
                raise InvalidInputError(
                    f"{path}, line {number}: it is over LINE_BYTES_MAX, {LINE_BYTES_MAX:,}, so this is no export"
                )
            yield number, offset, data.rstrip(b"\n")
            offset += len(data)


def _require_header(path: Path, data: bytes) -> None:
    header: Header = _decoded(path, 1, data, Header)
    if header.refold > FORM_VERSION:
        raise InvalidInputError(f"{path} was written by a newer Refold (form {header.refold}): update this one")


def _decoded(path: Path, number: int, data: bytes, wanted: type[Any]) -> Any:
    try:
        return msgspec.json.decode(data, type=wanted)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path}, line {number}: this is not an export of Refold's: {error}") from error
