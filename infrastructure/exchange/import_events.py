"""Importing a file of events: the whole file is checked first, then written, stream by stream."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import msgspec

from ...domain.arguments import require_functions, require_path
from ...domain.erasure.events import STREAM as ERASURES
from ...domain.erasure.events import Erasures, StoreErased, events_of_store, fold
from ...domain.errors import ConcurrencyError, DamagedError, InvalidInputError
from ...domain.ids import split_stream_id, stream_id
from ...domain.kinds import KINDS
from ...domain.log.admission import admitted
from ...domain.log.envelope import encode_payload, require_payload_size
from ...domain.log.ports import LiveLog, NewEvents
from ..context_streams import named_versions, root_of
from ..log.codec import tag_of
from .event_files import EventLine, Progress, ReadLine, event_lines
from .rehearsal import rehearse

PAGE_EVENTS = 1_000
BATCH_EVENTS = 1_000


def checked_file(path: Path, log: LiveLog) -> dict[str, int]:
    """
    Check a whole file, and compare it with a log; return the versions that its streams, and that of erasures, have now.

    Raises:
        InvalidInputError: the file is not complete, or the log has another past of one of its streams.
    """
    check = _FileCheck(path, log)
    for stream, read in groupby(event_lines(path), key=lambda one: one.line.stream):
        check.look_at(stream, read)
    check.require_what_is_named()
    rehearse(path, log, check.growing)
    return check.heads


class _FileCheck:
    """The state of a check of a file so far."""

    def __init__(self, path: Path, log: LiveLog) -> None:
        self._path, self._log = path, log
        # The last version of each stream, here and in the log, and the highest version that an event names of each.
        self.versions: dict[str, int] = {}
        self.heads: dict[str, int] = {ERASURES: log.head(ERASURES)}
        self._named: dict[str, int] = {}
        # The offsets of the lines of each stream that is new or grows.
        self.growing: dict[str, array[int]] = {}

    def look_at(self, stream: str, read: Iterator[ReadLine]) -> None:
        """Check the events of a stream."""
        if stream in self.versions:
            raise self._fault(f"has the events of {stream} in two places: export it again")
        kind, context_id = split_stream_id(stream)
        if kind not in KINDS:
            raise self._fault(f"has events of {stream!r}, which is no context")
        try:
            stream_id(kind, context_id)
        except InvalidInputError as error:
            raise self._fault(f"has a context that cannot be: {error}") from error
        present = _Present(self._log, stream)
        calls: dict[str, int] = {}
        offsets = array("q")
        for one in read:
            offsets.append(one.offset)
            version = len(offsets)
            self._check(one, version, kind)
            self._check_key(one.line, calls)
            if not present.agrees(one, version):
                raise self._another(stream, version)
        self.versions[stream], self.heads[stream] = len(offsets), present.head
        if len(offsets) > present.head:
            self.growing[stream] = offsets

    def _check(self, read: ReadLine, version: int, kind: str) -> None:
        line, event = read.line, read.event
        stream = line.stream
        if line.version != version:
            raise self._fault(f"has version {line.version} of {stream} behind version {version - 1}")
        if not tag_of(event).startswith(f"{kind}."):
            raise self._fault(f"has an event in {stream} that does not belong there: {tag_of(event)}")
        for name in (line.meta.idempotency_key, line.root):
            if name and "\0" in name:
                raise self._fault(f"has {name!r} as a name in {stream}, which holds a NUL: no log takes that")
        if version == 1 and line.root != root_of(event, stream):
            raise self._fault(f"has {line.root!r} as the root of {stream}, and its first event says another")
        try:
            for name, last in named_versions(event, stream):
                self._named[name] = max(last, self._named.get(name, 0))
            self._require_storable(read)
        except DamagedError as error:
            raise self._fault(f"has a damaged event, version {version} of {stream}: {error.reason}") from error

    def _require_storable(self, read: ReadLine) -> None:
        """Require that the log accepts an event."""
        try:
            require_payload_size(admitted(read.event, read.line.stream))
        except InvalidInputError as error:
            raise InvalidInputError(f"{self._path}, line {read.number}: {error}") from error

    def _check_key(self, line: EventLine, calls: dict[str, int]) -> None:
        """Require that the events with one idempotency key follow each other, because they are appended together."""
        key = line.meta.idempotency_key
        if key is None:
            return
        last = calls.get(key, line.version - 1)
        if last != line.version - 1:
            raise self._fault(f"has {key!r} as the key of two calls of {line.stream}, at {last} and {line.version}")
        calls[key] = line.version

    def require_what_is_named(self) -> None:
        """Require that all versions that events name are in the file, or in the log already."""
        for stream, version in sorted(self._named.items()):
            if version > self.versions.get(stream, 0) and version > self._log.head(stream):
                raise self._fault(f"names version {version} of {stream}, which is neither in it nor here")

    def _another(self, stream: str, version: int) -> InvalidInputError:
        """Return the error for an event that the log has with another content."""
        here: Any = self._log.read_events(ERASURES)
        if stream in fold(Erasures(), here).archives:
            return InvalidInputError(f"{stream} is archived here: unarchive it, then import {self._path}")
        erased = (one.stream for event in here if isinstance(event, StoreErased) for one in event.erased)
        if stream in erased:
            return InvalidInputError(
                f"texts of {stream} were erased here, and {self._path} has them in version {version}: export it again"
            )
        return InvalidInputError(
            f"{stream} is here already, and its version {version} is another than {self._path} has: take the file into "
            "another store"
        )

    def _fault(self, what: str) -> InvalidInputError:
        return InvalidInputError(f"{self._path} {what}")


class _Present:
    """The events of a stream in a log, read page by page."""

    def __init__(self, log: LiveLog, stream: str) -> None:
        self._log, self._stream = log, stream
        self.head = log.head(stream)
        self._page: list[Any] = []

    def agrees(self, read: ReadLine, version: int) -> bool:
        """Return whether the log has the same event at a version, or ends before it."""
        if version > self.head:
            return True
        place = (version - 1) % PAGE_EVENTS
        if place == 0:
            end = min(self.head, version - 1 + PAGE_EVENTS)
            self._page = self._log.read_events(self._stream, after=version - 1, until=end)
        # Bytes are compared as well, because NaN does not equal itself.
        here = self._page[place]
        return bool(here == read.event) or encode_payload(here) == encode_payload(read.event)


class TakenIn(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of streams that were new, had grown, or were there already, and of events that were written."""

    added: int = 0
    extended: int = 0
    unchanged: int = 0
    events: int = 0


def take_in_events(log: LiveLog, path: str | os.PathLike[str], *, progress: Progress | None = None) -> TakenIn:
    """
    Import the events of a file. The whole file is checked before anything is written.

    `progress` is called with the streams done so far and their number.

    Raises:
        InvalidInputError: the file is not such a file, is cut off or has a newer format; or it names events that are
            missing; or a context of the store has another past than in the file. Nothing was written.
        ConcurrencyError, StorageError: the streams before the one with the error are written; import it again.
    """
    require_functions(progress=progress)
    file = require_path(path)
    return take_in_checked(log, file, checked_file(file, log), progress=progress)


def take_in_checked(log: LiveLog, file: Path, checked: Mapping[str, int], *, progress: Progress | None) -> TakenIn:
    """Import the events of a file; none of its streams has grown in the log since `checked_file` returned `checked`."""
    done, count = TakenIn(), len(checked) - 1
    for number, (stream, read) in enumerate(groupby(event_lines(file), key=lambda one: one.line.stream), 1):
        head = log.head(stream)
        # Versions count from 1, without holes.
        written = _append(log, stream, islice(read, head, None), head, checked[ERASURES])
        done = _counted(done, head, written)
        if progress is not None:
            progress(number, count)
    return done


def _counted(done: TakenIn, head: int, written: int) -> TakenIn:
    outcome = "added" if not head else "extended" if written else "unchanged"
    counted = {outcome: getattr(done, outcome) + 1, "events": done.events + written}
    return msgspec.structs.replace(done, **counted)


def _append(log: LiveLog, stream: str, read: Iterable[ReadLine], head: int, erasures: int) -> int:
    """
    Append events; those with the same idempotency key are appended together, with that key.

    Raises:
        ConcurrencyError: the stream of erasures has not the version `erasures`, and the file may have what was erased.
    """
    written = 0
    # Nothing is recorded there; its version is compared in the transaction that records the events.
    unerased = events_of_store((), erasures)
    for key, group in groupby(read, key=lambda one: one.line.meta.idempotency_key):
        # Events with a key come from one call, and must stay in one append.
        while batch := list(islice(group, BATCH_EVENTS if key is None else None)):
            new = NewEvents(
                stream=stream,
                expected_version=head + written,
                events=tuple(one.event for one in batch),
                metas=tuple(one.line.meta for one in batch),
                root=batch[0].line.root,
                idempotency_key=key,
            )
            try:
                log.append([new, unerased] if head + written else [new]).result()
            except ConcurrencyError as error:
                if error.stream != ERASURES:
                    raise
                remedy = "import it again"
                raise ConcurrencyError(ERASURES, expected=erasures, actual=error.actual, remedy=remedy) from error
            written += len(batch)
    return written
