"""Logs over another log: the calls that they only pass on to it, and a log behind a gate, which is asked first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..concurrency.locks import News
from ..errors import DamagedError
from ..positions import Moment, Partition
from .envelope import Event, Meta, RecordedEvent
from .gate import Gate
from .ports import (
    KeyRow,
    LiveLog,
    NewEvents,
    Page,
    PagedLog,
    PartitionedLog,
    Pending,
    Range,
    Receipt,
    Remnant,
    StreamEnd,
)


class LogOver:
    """A log over `below`, which alone gives versions, positions, news, the names of files, and the faults in them."""

    def __init__(self, below: LiveLog) -> None:
        self.below = below

    @property
    def news(self) -> News:
        return self.below.news

    @property
    def has_slices(self) -> bool:
        return self.below.has_slices

    def head(self, stream: str) -> int:
        return self.below.head(stream)

    def end(self, stream: str) -> StreamEnd:
        return self.below.end(stream)

    def version_at(self, stream: str, moment: Moment | int) -> int:
        return self.below.version_at(stream, moment)

    def now(self) -> Moment:
        return self.below.now()

    def wait_for_news(self, seen: Moment, *, timeout_seconds: float) -> None:
        self.below.wait_for_news(seen, timeout_seconds=timeout_seconds)

    def files(self) -> Sequence[str]:
        return self.below.files()

    def damaged_files(self) -> Iterable[DamagedError]:
        return self.below.damaged_files()

    def damaged_texts(self) -> Iterable[DamagedError]:
        return self.below.damaged_texts()

    def damaged_rows(self) -> Iterable[DamagedError]:
        return self.below.damaged_rows()

    def forget(self) -> None:
        self.below.forget()

    def close(self) -> None:
        self.below.close()


def gated(log: LiveLog, gate: Gate) -> LiveLog:
    """Return a log behind a gate."""
    return _GatedPartitionedLog(log, gate) if isinstance(log, PartitionedLog) else GatedLog(log, gate)


class GatedLog(LogOver):
    """
    A `LiveLog` whose events are handed out and taken if the gate allows it.

    Answers that the log below gives alone are given to everybody: they hold no content of contexts.
    """

    def __init__(self, behind: LiveLog, gate: Gate) -> None:
        super().__init__(behind)
        self.gate = gate

    @property
    def behind_gate(self) -> LiveLog:
        """The log below, by the name that only a gate has."""
        return self.below

    def append(self, batch: Sequence[NewEvents], *, wait: bool = True) -> Pending[list[Receipt]]:
        """
        Append all of `batch` or nothing.

        Raises:
            NotAllowedError: an actor may not record an event; nothing was appended.
        """
        # A journal has asked for its events when it decided on them.
        if not self.gate.is_inside:
            for new in batch:
                self.gate.admit(new)
        return self.below.append(batch, wait=wait)

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[RecordedEvent]:
        self.gate.ask("read", stream)
        return self.below.read(stream, after=after, until=until, known=known)

    def read_events(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[Event]:
        self.gate.ask("read", stream)
        return self.below.read_events(stream, after=after, until=until, known=known)

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        for stream in dict.fromkeys(one.stream for one in ranges):
            self.gate.ask("read", stream)
        return self.below.read_ranges(ranges)

    def recorded_under(self, stream: str, key: str) -> list[RecordedEvent]:
        self.gate.ask("read", stream)
        return self.below.recorded_under(stream, key)

    def snapshot(self, stream: str) -> bytes | None:
        self.gate.ask("read", stream)
        return self.below.snapshot(stream)

    def keep_snapshot(self, stream: str, pack: Callable[[], bytes | None]) -> None:
        self.below.keep_snapshot(stream, pack)

    def streams(self, prefix: str = "", *, limit: int | None = None) -> list[str]:
        self.gate.ask("search")
        return self.below.streams(prefix, limit=limit)

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = False) -> Page:
        self.gate.ask("read")
        return self.below.read_all(after=after, limit=limit, until=until, undecodable=undecodable)

    def erase(self, remnants: Sequence[Remnant], new: Sequence[NewEvents]) -> list[Receipt]:
        self.gate.ask("admin")
        return self.below.erase(remnants, new)

    def sealed_payload(self, stream: str, version: int, meta: Meta, payload: bytes) -> tuple[Meta, bytes]:
        return self.below.sealed_payload(stream, version, meta, payload)

    def scrub(self) -> list[str]:
        self.gate.ask("admin")
        return self.below.scrub()

    def idempotency_keys(self) -> Iterable[KeyRow]:
        self.gate.ask("read")
        return self.below.idempotency_keys()

    def streams_with_snapshot(self) -> Iterable[str]:
        self.gate.ask("search")
        return self.below.streams_with_snapshot()

    def doubtful_streams(self) -> Iterable[str]:
        self.gate.ask("search")
        return self.below.doubtful_streams()


class _GatedPartitionedLog(GatedLog):
    """A gated log whose partitions can be read, too."""

    @property
    def location(self) -> str:
        return self._partitioned.location

    @property
    def _partitioned(self) -> PartitionedLog:
        assert isinstance(self.below, PartitionedLog)
        return self.below

    def prepare_partitions(self) -> None:
        self._partitioned.prepare_partitions()

    def partition(self, partition: Partition) -> PagedLog:
        return _GatedPages(self._partitioned.partition(partition), self.gate)


class _GatedPages:
    """A partition behind a gate."""

    def __init__(self, behind: PagedLog, gate: Gate) -> None:
        self._behind, self._gate = behind, gate

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = False) -> Page:
        self._gate.ask("read")
        return self._behind.read_all(after=after, limit=limit, until=until, undecodable=undecodable)

    def now(self) -> Moment:
        return self._behind.now()
