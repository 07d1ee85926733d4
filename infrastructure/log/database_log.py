"""
The part of a log that is the same on every database: committing, receipts, snapshots, and the comparison with evidence.

The module `log.py` of each database has the rest: how requests are written, and how events are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from ...domain.concurrency.locks import News
from ...domain.concurrency.promises import Settled
from ...domain.errors import ConcurrencyError, InvalidInputError, RefoldError
from ...domain.log.envelope import Chain, Event, Meta, RecordedEvent
from ...domain.log.ports import NewEvents, Pending, Range, Receipt
from ...domain.positions import Moment, require_kind
from .acknowledged import Acknowledged, is_small
from .background import LogSnapshots
from .codec import Codec
from .compression import Compression, Plain
from .evidence import Evidence, require_boundary, require_version, require_versions
from .group_commit import GroupCommitter, Leavable
from .records import Appended, Draft, Part, Request, draft_of, receipts_of

T = TypeVar("T")
Batch = Sequence[NewEvents]
Answer = list[Receipt] | Exception


class DatabaseLog(ABC):
    """A log in a database; see `refold.domain.log.ports.LiveLog` for what its methods promise."""

    has_slices: bool
    # Its table is that of the database, and is there once the database is open.
    _snapshots: LogSnapshots

    def __init__(self, codec: Codec, packing: Compression | Plain, paused: Leavable | None = None) -> None:
        self.codec, self.chain, self.news = codec, Chain(), News()
        # How new rows are compressed.
        self._packing = packing
        self.evidence: Evidence | None = None
        self._acknowledged = Acknowledged()
        self._committer: GroupCommitter[Batch, list[Receipt]] = GroupCommitter(self._commit, paused)

    # Writing

    def append(self, batch: Batch, *, wait: bool = True) -> Pending[list[Receipt]]:
        if len(batch) != 1 and len({new.stream for new in batch}) != len(batch):
            return Settled(None, InvalidInputError("a stream may stand in a batch once: join its events"))
        return self._committer.submit(batch, wait=wait)

    @abstractmethod
    def _commit(self, batches: Sequence[Batch]) -> Iterable[Answer]:
        """Append batches in one transaction; yield the receipts of each, or the error by which it is refused."""

    @abstractmethod
    def _part(self, new: NewEvents) -> Part:
        """Return new events in the form in which they are written."""

    def _drafted(self, batch: Batch) -> Request | Exception:
        """Return a batch in the form in which it is written, or the error by which it is refused."""
        try:
            return Request([self._part(new) for new in batch])
        except (RefoldError, ValueError, TypeError, OverflowError) as error:
            return error

    def _answered(
        self, batches: Sequence[Batch], drafted: Sequence[Request | Exception], answers: Iterable[Appended | Exception]
    ) -> Iterator[Answer]:
        """Yield the answer to each batch, given those to the requests that were drafted."""
        left = iter(answers)
        for batch, request in zip(batches, drafted, strict=True):
            if isinstance(request, Exception):
                yield request
                continue
            if isinstance(answer := next(left), Exception):
                yield answer
                continue
            try:
                receipts = receipts_of(batch, answer, self.read)
            except RefoldError as error:
                # The earlier call with this key may be another one, or damaged. The other requests of the group are
                # written.
                yield error
            else:
                self._note(receipts, are_small=is_small(request))
                yield receipts

    def _note(self, receipts: list[Receipt], *, are_small: bool) -> None:
        self._acknowledged.note(receipts, are_small=are_small)
        if self.evidence is not None:
            self.evidence.note(receipts)

    def _receipts(self, new: Batch, answer: Appended | ConcurrencyError) -> list[Receipt]:
        """Return the receipts of events that were appended with other work, and note them."""
        if isinstance(answer, ConcurrencyError):
            raise answer
        receipts = receipts_of(new, answer[: len(new)], self.read)
        self._note(receipts, are_small=False)
        return receipts

    def draft(self, tag: str, meta: Meta, payload: bytes) -> Draft:
        """Return an event, given by its payload, in the form that `copy_in` takes."""
        return draft_of(tag, meta, payload, self._packing)

    def sealed_payload(self, stream: str, version: int, meta: Meta, payload: bytes) -> tuple[Meta, bytes]:
        return meta, payload

    def forget(self) -> None:
        self._acknowledged.forget_events()

    # Reading

    def use_evidence(self, evidence: Evidence) -> None:
        """Compare with this evidence what is read from now on."""
        self.evidence = self._snapshots.evidence = evidence

    @abstractmethod
    def _reached(self, stream: str) -> int:
        """Return the last version that is known of a stream from outside of the database."""

    @abstractmethod
    def read(self, stream: str, *, after: int = 0, until: int | None = None) -> list[RecordedEvent]: ...

    @abstractmethod
    def _read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]: ...

    @abstractmethod
    def _last_version(self, stream: str) -> int: ...

    @abstractmethod
    def _version_at(self, stream: str, moment: Moment | int) -> int: ...

    def _reaching(self, wanted: Range, read: Callable[[], list[T]]) -> list[T]:
        """Return the events of a range, after requiring that none is missing at its end that is known."""
        if self.evidence is None:
            return read()
        reached = self._reached(wanted.stream)
        found = read()
        require_version(wanted.stream, max(wanted.after, 0) + len(found), min(wanted.until, reached))
        return found

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        if self.evidence is None:
            return self._read_ranges(ranges)
        reached = {stream: self._reached(stream) for stream in {one.stream for one in ranges}}
        found = self._read_ranges(ranges)
        require_versions(ranges, found, reached)
        return found

    def head(self, stream: str) -> int:
        reached = self._reached(stream)
        found = self._last_version(stream)
        require_version(stream, found, reached)
        return found

    def version_at(self, stream: str, moment: Moment | int) -> int:
        if isinstance(moment, Moment):
            require_kind(moment, has_slices=self.has_slices)
        version = self._version_at(stream, moment)
        if self.evidence is not None:
            require_boundary(partial(self.read, stream), version, partial(_is_in, moment))
        return version

    # Snapshots

    def snapshot(self, stream: str) -> bytes | None:
        return self._snapshots.read(stream)

    def keep_snapshot(self, stream: str, pack: Callable[[], bytes | None]) -> None:
        self._snapshots.keep(stream, pack)

    def streams_with_snapshot(self) -> list[str]:
        return self._snapshots.table.streams()


def _is_in(moment: Moment | int, one: RecordedEvent) -> bool:
    """Return whether a moment includes an event."""
    if isinstance(moment, int):
        return one.recorded_at <= moment
    return one.position.number <= moment.head(one.position.slice)
