"""
Writing contexts, or a whole store, into a file of Refold's own form.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from ...domain.adopting import named_streams
from ...domain.errors import NotFoundError
from ...domain.moments import STREAM as MOMENTS
from ...domain.ports import LiveLog
from ..named_versions import named_versions
from ..opening import root_of
from .files import writing_file
from .form import FORM_VERSION, End, EventLine, Header
from .plain import line_of

__all__ = ["ExportReport", "export_events"]

PAGE_EVENTS = 2_048
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
    # Named moments are places in this log, and mean nothing in another.
    whole = (stream for stream in log.streams() if stream != MOMENTS) if streams is None else streams
    asked = dict.fromkeys(whole)
    for stream in asked:
        if stream == MOMENTS or not log.head(stream):
            raise NotFoundError(f"there is no context {stream!r}: `refold contexts` lists them")
    heads = {stream: log.head(stream) for stream in asked}
    _add_named(log, heads)
    order = _in_order(log, heads)
    events = 0
    with writing_file(Path(path), log) as file:
        _write(file, Header(FORM_VERSION, len(order)))
        for number, stream in enumerate(order, 1):
            for line in _lines(log, stream, heads[stream]):
                _write(file, line)
                events += 1
            if progress is not None:
                progress(number, len(order))
        _write(file, End(events))
    along = tuple(stream for stream in order if stream not in asked)
    return ExportReport(streams=len(order), events=events, along=along)


def _add_named(log: LiveLog, heads: dict[str, int]) -> None:
    """Add the streams that events name, and those that theirs do, each as far as it goes now."""
    waiting = [(stream, 0) for stream in heads]
    while waiting:
        stream, seen = waiting.pop()
        for event in _events(log, stream, seen, heads[stream]):
            for name, version in named_versions(event, stream):
                known = heads.get(name, 0)
                # What is named may have grown since somebody looked how far it goes.
                if version > known:
                    heads[name] = max(known, log.head(name))
                    waiting.append((name, known))


def _in_order(log: LiveLog, heads: dict[str, int]) -> list[str]:
    """Order streams so that each comes behind those that its first event names."""
    order: dict[str, None] = {}
    for start in sorted(heads):
        waiting = [start]
        while waiting:
            stream = waiting[-1]
            first = log.read_events(stream, until=1)
            missing = [name for event in first for name in named_streams(event) if name not in order and name != stream]
            if missing:
                waiting += missing
            else:
                order[waiting.pop()] = None
    return list(order)


def _events(log: LiveLog, stream: str, seen: int, head: int) -> Iterator[Any]:
    for after in range(seen, head, PAGE_EVENTS):
        yield from log.read_events(stream, after=after, until=min(head, after + PAGE_EVENTS))


def _lines(log: LiveLog, stream: str, head: int) -> Iterator[EventLine]:
    root = ""
    for after in range(0, head, PAGE_EVENTS):
        for recorded in log.read(stream, after=after, until=min(head, after + PAGE_EVENTS)):
            root = root or root_of(recorded.event, stream)
            yield EventLine(
                stream=stream,
                version=recorded.version,
                root=root,
                recorded_at=recorded.recorded_at,
                meta=recorded.meta,
                event=line_of(recorded.event),
            )


def _write(file: IO[bytes], line: msgspec.Struct) -> None:
    file.write(_encode(line) + b"\n")
