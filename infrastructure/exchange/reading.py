"""
Reading a file of Refold's own form, line by line; that it is whole is known at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ...domain.errors import InvalidInputError
from .files import reading_file
from .form import FORM_VERSION, End, EventLine, Header
from .plain import event_in

__all__ = ["event_lines"]


def event_lines(path: Path) -> Iterator[EventLine]:
    """
    Yield the events of a file, each with its envelope.

    Raises:
        InvalidInputError: it is no such file, of a newer form, or cut off.
    """
    events = 0
    end: End | None = None
    for number, data in _lines(path):
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
        yield msgspec.structs.replace(line, event=event)
    if end is None or end.end != events:
        raise InvalidInputError(f"{path} is cut off: it ends after {events:,} events without saying so")


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    with reading_file(path) as opened:
        for number, data in enumerate(opened, 1):
            yield number, data.rstrip(b"\n")


def _require_header(path: Path, data: bytes) -> None:
    header: Header = _decoded(path, 1, data, Header)
    if header.refold > FORM_VERSION:
        raise InvalidInputError(f"{path} was written by a newer Refold (form {header.refold}): update this one")


def _decoded(path: Path, number: int, data: bytes, wanted: type[Any]) -> Any:
    try:
        return msgspec.json.decode(data, type=wanted)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path}, line {number}: this is not an export of Refold's: {error}") from error
