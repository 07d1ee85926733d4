"""Writing contexts, or a whole store, into a file of Refold's own form."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import msgspec

from ...domain.errors import NotFoundError
from ...domain.log.ports import LiveLog
from ...domain.moments import STREAM as MOMENTS
from .collecting import Collection
from .files import writing_file
from .form import FORM_VERSION, End, Header

Progress = Callable[[int, int], None]
_encode = msgspec.json.Encoder().encode


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """How much was written; `along` are streams that nobody asked for, and that those asked for name."""

    streams: int
    events: int
    along: tuple[str, ...] = ()


def export_events(
    log: LiveLog,
    path: str | os.PathLike[str],
    streams: Iterable[str] | None = None,
    *,
    progress: Progress | None = None,
) -> ExportReport:
    """
    Write streams (`kind:id`), or all, into a file, which is replaced as a whole; what they name comes along.

    `progress` is called with the streams written so far and their number.

    Raises:
        NotFoundError: there is no such context; nothing was written.
        InvalidInputError: the file cannot be written, or is where the log itself lies.
        DamagedError: an event cannot be read; the file is as it was.
    """
    asked = None if streams is None else _heads(log, streams)
    target = Path(path)
    with writing_file(target, log) as file, TemporaryFile(dir=target.parent) as lines:
        collection = Collection(log, lines)
        if asked is None:
            collection.take_all()
        else:
            collection.take(asked)
        order = collection.order()
        _write(file, Header(FORM_VERSION, len(order)))
        for number, stream in enumerate(order, 1):
            file.writelines(collection.lines_of(stream))
            if progress is not None:
                progress(number, len(order))
        _write(file, End(collection.events))
    along = () if asked is None else tuple(stream for stream in order if stream not in asked)
    return ExportReport(streams=len(order), events=collection.events, along=along)


def _heads(log: LiveLog, streams: Iterable[str]) -> dict[str, int]:
    heads: dict[str, int] = {}
    for stream in dict.fromkeys(streams):
        heads[stream] = 0 if stream == MOMENTS else log.head(stream)
        if not heads[stream]:
            raise NotFoundError(f"there is no context {stream!r}: `refold contexts` lists them")
    return heads


def _write(file: IO[bytes], line: msgspec.Struct) -> None:
    file.write(_encode(line) + b"\n")
