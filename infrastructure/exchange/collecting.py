"""
Collecting what is exported: each event is read once, in the order that is cheapest for the log, and lies in a file
without a name until the turn of its stream comes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import IO

import msgspec

from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import LiveLog
from ...domain.moments import STREAM as MOMENTS
from ..log_pages import pages_up_to_now
from ..named_versions import named_versions
from ..opening import root_of
from .form import EventLine
from .plain import line_of

PAGE_EVENTS = 2_048
_encode = msgspec.json.Encoder().encode


class Collection:
    """Streams with their events as lines, and with everything that these name."""

    def __init__(self, log: LiveLog, lines: IO[bytes]) -> None:
        self._log, self._lines = log, lines
        # The last version of each stream.
        self.versions: dict[str, int] = {}
        self.events = 0
        # What is named and was not there yet when it was.
        self._missing: dict[str, int] = {}
        # Of each stream: its root, the streams that its first event names, and the beginning and end of each row of
        # its lines.
        self._roots: dict[str, str] = {}
        self._behind: dict[str, tuple[str, ...]] = {}
        self._places: dict[str, array[int]] = {}
        self._end = 0

    def take_all(self) -> None:
        """Collect all streams as they are now."""
        for page in pages_up_to_now(self._log, limit=PAGE_EVENTS):
            for recorded in page:
                # Named moments are places in this log, and mean nothing in another.
                if recorded.stream != MOMENTS:
                    self._take(recorded)
        self._take_missing()

    def take(self, heads: Mapping[str, int]) -> None:
        """Collect streams, each up to a version."""
        for stream, head in heads.items():
            self._take_stream(stream, head)
        self._take_missing()

    def order(self) -> list[str]:
        """Return the streams so that each comes behind those that its first event names."""
        order: dict[str, None] = {}
        begun: set[str] = set()
        for start in sorted(self.versions):
            waiting = [start]
            while waiting:
                stream = waiting[-1]
                # Without this, first events that name each other, as no call writes them, would lead round for ever.
                if stream in begun:
                    order[waiting.pop()] = None
                    continue
                begun.add(stream)
                waiting += [name for name in self._behind[stream] if name not in begun and name in self.versions]
        return list(order)

    def lines_of(self, stream: str) -> Iterator[bytes]:
        """Yield the lines of a stream, some at a time."""
        places = iter(self._places[stream])
        for start, end in zip(places, places, strict=True):
            self._lines.seek(start)
            yield self._lines.read(end - start)

    def _take_missing(self) -> None:
        """Collect the streams that events name, and those that theirs do, each as far as it goes now."""
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
