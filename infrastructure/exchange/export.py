"""
Exporting contexts, with everything that they name, into a file of events.

Each event is read once, in the order that is cheapest for the log. Its line is kept in a temporary file until the lines
of its stream are written.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import msgspec

from ...domain.arguments import require_functions, require_path, require_texts
from ...domain.errors import ContextNotFoundError, DamagedError
from ...domain.ids import OF_STORE
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import LiveLog
from ..context_streams import named_versions, root_of
from .event_files import FORM_VERSION, End, EventLine, Header, Progress, line_of, pages_up_to, writing_file

PAGE_EVENTS = 2_048
_encode = msgspec.json.Encoder().encode


class Collection:
    """Streams with their events as lines, and with all streams that these events name."""

    def __init__(self, log: LiveLog, lines: IO[bytes]) -> None:
        self._log, self._lines = log, lines
        # The last version of each stream.
        self.versions: dict[str, int] = {}
        self.events = 0
        # Streams that an event named and that are not collected that far yet, with the version that is needed.
        self._missing: dict[str, int] = {}
        # For each stream: its root, the streams that its first event names, and the beginning and end of each piece
        # of the file with its lines.
        self._roots: dict[str, str] = {}
        self._behind: dict[str, tuple[str, ...]] = {}
        self._places: dict[str, array[int]] = {}
        self._end = 0

    def take_all(self) -> None:
        """Collect all streams as they are now."""
        for page in pages_up_to(self._log, limit=PAGE_EVENTS):
            for recorded in page:
                # Events of a store, such as named moments, are about this log, and mean nothing in another log.
                if not recorded.stream.startswith(OF_STORE):
                    self._take(recorded)
        self._take_missing()

    def take(self, heads: Mapping[str, int]) -> None:
        """Collect streams, each up to a version."""
        for stream, head in heads.items():
            self._take_stream(stream, head)
        self._take_missing()

    def order(self) -> list[str]:
        """Return the streams in an order in which each comes after those that its first event names."""
        order: dict[str, None] = {}
        begun: set[str] = set()
        for start in sorted(self.versions):
            waiting = [start]
            while waiting:
                stream = waiting[-1]
                # This ends the loop for first events that name each other, which no call writes.
                if stream in begun:
                    order[waiting.pop()] = None
                    continue
                begun.add(stream)
                waiting += [name for name in self._behind[stream] if name not in begun and name in self.versions]
        return list(order)

    def write(self, file: IO[bytes], progress: Progress | None = None) -> list[str]:
        """Write what was collected, as a whole file; return the streams in their order."""
        order = self.order()
        _write(file, Header(FORM_VERSION, len(order)))
        for number, stream in enumerate(order, 1):
            file.writelines(self._lines_of(stream))
            if progress is not None:
                progress(number, len(order))
        _write(file, End(self.events))
        return order

    def _lines_of(self, stream: str) -> Iterator[bytes]:
        """Yield the lines of a stream, in pieces."""
        places = iter(self._places[stream])
        for start, end in zip(places, places, strict=True):
            self._lines.seek(start)
            yield self._lines.read(end - start)

    def _take_missing(self) -> None:
        """Collect the streams that events name, and the streams that their events name, each up to its present end."""
        while self._missing:
            stream, version = self._missing.popitem()
            if version > self.versions.get(stream, 0):
                self._take_stream(stream, self._log.head(stream))

    def _take_stream(self, stream: str, head: int) -> None:
        for after in range(self.versions.get(stream, 0), head, PAGE_EVENTS):
            for recorded in self._log.read(stream, after=after, until=min(head, after + PAGE_EVENTS)):
                self._take(recorded)

    def _take(self, recorded: RecordedEvent) -> None:
        stream, event = recorded.stream, recorded.event
        self.events += 1
        self.versions[stream] = recorded.version
        named = tuple(named_versions(event, stream))
        if stream not in self._roots:
            self._roots[stream] = root_of(event, stream)
            self._behind[stream] = tuple(name for name, _ in named if name != stream)
            self._places[stream] = array("q")
        for name, version in named:
            if version > self.versions.get(name, 0):
                self._missing[name] = max(version, self._missing.get(name, 0))
        self._put(stream, _encode(self._line(recorded)) + b"\n")

    def _line(self, recorded: RecordedEvent) -> EventLine:
        return EventLine(
            stream=recorded.stream,
            version=recorded.version,
            root=self._roots[recorded.stream],
            recorded_at=recorded.recorded_at,
            meta=recorded.meta,
            event=line_of(recorded.event),
        )

    def _put(self, stream: str, line: bytes) -> None:
        places, start = self._places[stream], self._end
        self._lines.write(line)
        self._end += len(line)
        if places and places[-1] == start:
            places[-1] = self._end
        else:
            places.extend((start, self._end))


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The amount that was written; `along` are streams that were exported only because the requested ones name them."""

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
    Write streams (`kind:id`), or all, and all streams that they name, into a file, which is replaced as a whole.

    `progress` is called with the streams written so far and their number.

    Raises:
        NotFoundError: there is no such context; nothing was written.
        InvalidInputError: the file cannot be written, or is a file of the log itself.
        DamagedError: an event cannot be read; the file is as it was.
    """
    require_functions(progress=progress)
    asked = None if streams is None else _heads(log, streams)
    target = require_path(path)
    with writing_file(target, log) as file, TemporaryFile(dir=Path(file.name).parent) as lines:
        collection = Collection(log, lines)
        try:
            if asked is None:
                collection.take_all()
            else:
                collection.take(asked)
        except DamagedError as error:
            if type(error) is not DamagedError:
                raise
            remedy = f"{error.remedy}; contexts that do not need this event can be exported by their names"
            raise DamagedError(error.what, error.reason, remedy=remedy) from error
        order = collection.write(file, progress)
    along = () if asked is None else tuple(stream for stream in order if stream not in asked)
    return ExportReport(streams=len(order), events=collection.events, along=along)


def _heads(log: LiveLog, streams: Iterable[str]) -> dict[str, int]:
    heads: dict[str, int] = {}
    for stream in dict.fromkeys(require_texts(streams, "the streams")):
        heads[stream] = 0 if stream.startswith(OF_STORE) else log.head(stream)
        if not heads[stream]:
            raise ContextNotFoundError(stream)
    return heads


def _write(file: IO[bytes], line: msgspec.Struct) -> None:
    file.write(_encode(line) + b"\n")
