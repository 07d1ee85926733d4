"""
A log on top of another log as it was at a moment: appended events stay in memory.

New streams may begin here and name items of the log below. The streams below cannot grow, since they belong to that
log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from ..clock import System
from ..concurrency.locks import synchronized
from ..concurrency.promises import Settled
from ..errors import DecisionRefusedError
from ..positions import Moment
from .envelope import Event, RecordedEvent
from .gate import gate_of
from .memory_log import MemoryLog
from .ports import Log, NewEvents, Pending, Range, Receipt, StreamEnd


class OverlayLog:
    """The log below as of `moment` (a cut of it, or microseconds since 1970), and the events appended here."""

    def __init__(self, below: Log, moment: Moment | int, system: System) -> None:
        self._below, self._moment = below, moment
        self._here = MemoryLog(system)
        self._roots: dict[str, str] = {}
        self._heads: dict[str, int] = {}
        self._lock = threading.RLock()
        self._is_finished = False
        self.gate = gate_of(below)

    @synchronized
    def append(self, batch: Sequence[NewEvents], *, wait: bool = True) -> Pending[list[Receipt]]:
        """
        Append all of `batch` or nothing, in memory.

        Raises (from `result()`):
            DecisionRefusedError: a stream is in the log below, or this log is finished.
            ConcurrencyError: a stream's head is not at the expected version.
        """
        fault = self._fault_of(batch)
        if fault is not None:
            return Settled(None, DecisionRefusedError(fault))
        # Done before the append, so that an interrupt between the two leaves no stream here that is not in this list.
        for new in batch:
            if not self._here.head(new.stream):
                self._roots[new.stream] = new.root
        return self._here.append(batch, wait=wait)

    def _fault_of(self, batch: Sequence[NewEvents]) -> str | None:
        if self._is_finished:
            return "this what-if was kept and takes nothing more: open its branches in the store"
        past = (new.stream for new in batch if new.stream not in self._roots and self.head(new.stream))
        stream = next(past, None)
        return None if stream is None else f"{stream} can only be read here: fork it, and change the fork"

    @synchronized
    def finish(self) -> list[NewEvents]:
        """
        Accept no more events, and return those that were appended: each stream from its beginning, in the order of
        their creation.
        """
        self._is_finished = True
        return [self._as_new(stream, root) for stream, root in self._roots.items() if self._here.head(stream)]

    def reopen(self) -> None:
        """Accept events again."""
        self._is_finished = False

    def _as_new(self, stream: str, root: str) -> NewEvents:
        recorded = self._here.read(stream)
        return NewEvents(
            stream=stream,
            expected_version=0,
            events=tuple(one.event for one in recorded),
            # A key belongs to the call that was made here; in the other log it would be a different call.
            metas=tuple(msgspec.structs.replace(one.meta, idempotency_key=None, fingerprint=None) for one in recorded),
            root=root,
        )

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[RecordedEvent]:
        if stream in self._roots:
            return self._here.read(stream, after=after, until=until, known=known)
        return self._below.read(stream, after=after, until=self._last(stream, until), known=known)

    def read_events(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[Event]:
        if stream in self._roots:
            return self._here.read_events(stream, after=after, until=until, known=known)
        return self._below.read_events(stream, after=after, until=self._last(stream, until), known=known)

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        from_below = [
            Range(stream, after, self._last(stream, until))
            for stream, after, until in ranges
            if stream not in self._roots
        ]
        found = iter(self._below.read_ranges(from_below))
        return [
            self._here.read_events(stream, after=after, until=until) if stream in self._roots else next(found)
            for stream, after, until in ranges
        ]

    def recorded_under(self, stream: str, key: str) -> list[RecordedEvent]:
        if stream in self._roots:
            return self._here.recorded_under(stream, key)
        head = self.head(stream)
        return [one for one in self._below.recorded_under(stream, key) if one.version <= head]

    def head(self, stream: str) -> int:
        if stream in self._roots:
            return self._here.head(stream)
        if stream not in self._heads:
            self._heads[stream] = self._below.version_at(stream, self._moment)
        return self._heads[stream]

    def end(self, stream: str) -> StreamEnd:
        return self._here.end(stream) if stream in self._roots else StreamEnd(self.head(stream))

    def version_at(self, stream: str, moment: Moment | int) -> int:
        if stream in self._roots:
            return self._here.version_at(stream, moment)
        return min(self.head(stream), self._below.version_at(stream, moment))

    def streams(self, prefix: str = "", *, limit: int | None = None) -> list[str]:
        below = [stream for stream in self._below.streams(prefix) if self.head(stream)]
        return sorted({*below, *self._here.streams(prefix)})[:limit]

    def snapshot(self, stream: str) -> bytes | None:
        return (self._here if stream in self._roots else self._below).snapshot(stream)

    def keep_snapshot(self, stream: str, pack: Callable[[], bytes | None]) -> None:
        """Keep it in memory, as all that comes here; the log below is only read."""
        self._here.keep_snapshot(stream, pack)

    def _last(self, stream: str, until: int | None) -> int:
        head = self.head(stream)
        return head if until is None else min(until, head)
