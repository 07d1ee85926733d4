"""
The events that this process knows to be in a log because they were acknowledged.

They suffice to notice that the log went back, and to say which events are gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple, Protocol

from ...domain.concurrency.locks import fork_safe_lock, synchronized
from ...domain.errors import LogWentBackError, Lost
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Receipt, StreamEnd
from .large_texts import LARGE_TEXT_BYTES
from .records import Request

ENDS_MAX = 10_000
RECENT_MAX = 256
NOTHING: Mapping[str, StreamEnd] = MappingProxyType({})


class AcknowledgedEnd(NamedTuple):
    """An event that was acknowledged; while it is there, so is every event before it in its slice (`lane`)."""

    stream: str
    version: int
    digest: bytes
    number: int
    lane: int


class Present(Protocol):
    """A database as it is now, without anything remembered of it."""

    def heads(self, streams: Sequence[str]) -> Sequence[int]:
        """Return the last version of each stream; 0 if it has none."""

    def digests(self, places: Sequence[tuple[str, int]]) -> Sequence[bytes | None]:
        """Return the digest at each version of a stream; None if there is no such event."""


def is_small(request: Request) -> bool:
    """Return whether the events of a request are small enough to be kept for a while."""
    return not any(len(draft.payload) >= LARGE_TEXT_BYTES for part in request.parts for draft in part.drafts)


class Nothing:
    """A database that does not exist any more."""

    def heads(self, streams: Sequence[str]) -> list[int]:
        return [0 for _ in streams]

    def digests(self, places: Sequence[tuple[str, int]]) -> list[None]:
        return [None for _ in places]


class Acknowledged:
    """The ends of the streams that this process wrote to, and the newest small events."""

    def __init__(self) -> None:
        self._ends: dict[str, AcknowledgedEnd] = {}
        self._last_by_slice: dict[int, AcknowledgedEnd] = {}
        self._recent: deque[RecordedEvent] = deque(maxlen=RECENT_MAX)
        self._noted: list[Receipt] = []
        # A reader that finds a missing event sorts `_noted` while the writer adds to it.
        self._lock = fork_safe_lock()

    def note(self, receipts: Sequence[Receipt], *, are_small: bool = False) -> None:
        """
        Remember receipts that are on disk now. Small events are kept for a while; large ones would need too much
        memory.
        """
        if are_small:
            # Every append calls this, so receipts are only collected here and sorted later, many at once.
            self._noted.extend(receipts)
            if len(self._noted) < RECENT_MAX:
                return
        self._put_in_order()
        if not are_small:
            self._take(receipts)

    @synchronized
    def _put_in_order(self) -> None:
        noted = self._noted[:]
        # The writer may have noted more meanwhile.
        del self._noted[: len(noted)]
        self._take(noted)
        for receipt in noted:
            self._recent.extend(receipt.events[-RECENT_MAX:])

    @synchronized
    def _take(self, receipts: Sequence[Receipt]) -> None:
        last = {one.events[-1].stream: one.events[-1] for one in receipts if one.events and not one.replayed}
        for stream, event in last.items():
            lane, number = event.position.slice, event.position.number
            end = self._ends[stream] = AcknowledgedEnd(stream, event.version, event.digest, number, lane)
            # Streams come in the order of their first event here, so another stream of the slice may have a later
            # event.
            if lane not in self._last_by_slice or self._last_by_slice[lane].number < number:
                self._last_by_slice[lane] = end
        if len(self._ends) > ENDS_MAX:
            self._ends = dict(list(self._ends.items())[ENDS_MAX // 2 :])

    @synchronized
    def forget_events(self) -> None:
        """Forget the newest events; their places and digests stay known."""
        self._put_in_order()
        self._recent.clear()

    def witness(self, number: int) -> AcknowledgedEnd | None:
        """Return the event that was acknowledged last in a slice, or None: if it is gone, the log went back."""
        self._put_in_order()
        return self._last_by_slice.get(number)

    def went_back(self, where: str, present: Present, stream: str, known: StreamEnd) -> LogWentBackError:
        """Return the error for a log that lacks `known` of a stream; it lists all events that are gone."""
        lost = self.lost(present, {stream: known})
        (found,) = present.heads([stream])
        return LogWentBackError(where, stream=stream, acknowledged=known.version, found=found, lost=lost)

    def lost(self, present: Present, known: Mapping[str, StreamEnd] = NOTHING) -> list[Lost]:
        """
        Return the events that were acknowledged, or are `known`, but are missing; from now on trust only those that
        exist.

        So the log reports the loss to this process once. After that, each view that shows a lost event reports it until
        it is read again.
        """
        noted = self._all_noted()
        ends = {stream: StreamEnd(end.version, end.digest) for stream, end in noted.items()}
        for stream, end in known.items():
            ends[stream] = max(end, ends.get(stream, end))
        digests = present.digests([(stream, end.version) for stream, end in ends.items()])
        gone = [
            stream
            for (stream, end), digest in zip(ends.items(), digests, strict=True)
            if digest is None or end.digest not in (b"", digest)
        ]
        lost = [
            one
            for stream, head in zip(gone, present.heads(gone), strict=True)
            for one in self._lost_of(stream, head, ends[stream].version, present)
        ]
        self._forget({stream: noted[stream] for stream in gone if stream in noted})
        return lost

    @synchronized
    def _all_noted(self) -> dict[str, AcknowledgedEnd]:
        self._put_in_order()
        return {**self._ends}

    @synchronized
    def _forget(self, gone: Mapping[str, AcknowledgedEnd]) -> None:
        # An event that was noted after the search may be gone as well, and nobody knows that yet: keep it.
        self._ends = {stream: end for stream, end in self._ends.items() if gone.get(stream) != end}
        self._last_by_slice = {end.lane: end for end in sorted(self._ends.values(), key=attrgetter("number"))}

    def _lost_of(self, stream: str, head: int, end: int, present: Present) -> Iterator[Lost]:
        """Yield the versions after `head`, and the earlier ones that now hold other events."""
        recent = {one.version: one for one in [*self._recent] if one.stream == stream and one.version <= end}
        digests = present.digests([(stream, version) for version in recent])
        others = {one.version for one, digest in zip(recent.values(), digests, strict=True) if one.digest != digest}
        for version in sorted({*others, *range(head + 1, end), end}):
            yield Lost(f"{stream}@{version}", recent[version].event if version in recent else None)
