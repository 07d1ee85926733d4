"""
Archiving: the texts of cold contexts go from the log into a file, and come back by one call.

In the log, `[archived]` replaces the texts: an archived event is stored like an erased one, and its digest stays. The
file is an export of the contexts that has each event exactly as it was stored: as JSON if the JSON gives the same bytes
again, else in base64. So the events of an encrypted store stay encrypted. The event that records an archive has a hash
of its file.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import msgspec

from ...domain.arguments import require_path
from ...domain.canonical import require_unicode
from ...domain.chat.events import ARCHIVED_TEXT
from ...domain.clock import DAY_MICROSECONDS, System
from ...domain.context.transaction import require_no_transaction
from ...domain.erasure.events import (
    STREAM,
    Archive,
    StoreErased,
    StoreUnarchived,
    erased_events,
    events_of_store,
    seal_of,
)
from ...domain.erasure.skeleton import Mask
from ...domain.errors import (
    ConcurrencyError,
    DamagedFileError,
    HeldError,
    InvalidInputError,
    NotFoundError,
    StorageBusyError,
    StorageReadOnlyError,
)
from ...domain.log.envelope import NO_DIGEST, Chain, Event, Meta, RecordedEvent, encode_payload
from ...domain.log.ports import LiveLog, PartitionedLog, Remnant
from ...projections.catalogue import CATALOGUE
from ..context_streams import context_named
from ..databases import stored_log
from ..files import OWNER
from ..log.codec import CODEC
from ..projecting.runner import ProjectionRunner
from ..trust.erasing import ATTEMPTS_MAX, ErasedContext, Eraser, contexts_of, require_reason
from ..trust.retention import Time, days_of
from ..trust.selection import Sealed, Selection
from .backup import reading_stored, stored_payload
from .event_files import EventLine, event_in, lines_in, payload_line, writing_file
from .export import Collection

PAGE_EVENTS = 2_048
HASH = "blake2b"
# An older archive may have events that were packed twice; only the bytes of such an event begin with one of these.
PACKED_BYTES = (b"\xc4", b"\xc5", b"\xc6")


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """
    The contexts whose texts went into a file, or (`is_dry_run`) would go, or came back from it.

    Each has the number of its events that changed; `events` is the number of all, and without any no file is made.
    `erased` is the number of those that did not come back, because they were erased meanwhile. `unreached` says where
    texts may still be beside the file.
    """

    file: str
    contexts: tuple[ErasedContext, ...]
    events: int
    is_dry_run: bool = False
    erased: int = 0
    unreached: tuple[str, ...] = ()


class Archivist:
    """Archives contexts of one store."""

    def __init__(self, eraser: Eraser, log: LiveLog, runner: ProjectionRunner, system: System) -> None:
        self._eraser, self._log, self._runner, self._system = eraser, log, runner, system

    # Archiving

    def archive(
        self, file: str | os.PathLike[str], contexts: Sequence[str], idle: Time | None, why: str, *, dry_run: bool
    ) -> Archived:
        """
        Put the texts of contexts into a new file: of those named, or of all without an event for the time `idle`.

        Raises:
            InvalidInputError: nothing says which contexts, or both; no reason is given; a transaction is open; the file
                is there already, with other bytes, or cannot be written; a context is archived already, or others show
                something of it.
            NotFoundError: there is no such context.
            HeldError: a context must be kept.
            StorageBusyError: others erased, archived or held all the time.
        """
        if bool(contexts) == (idle is not None):
            raise InvalidInputError("say which contexts: by their names, or idle= with a time")
        require_reason(why)
        require_no_transaction(self._log, "nothing is archived")
        path = Path(require_unicode(os.path.realpath(require_path(file)), "the file"))
        days = None if idle is None else days_of(idle)
        for _ in range(ATTEMPTS_MAX):
            # The version of the store's own stream: an erasure, a hold or an archive since then refuses the append.
            _ = self._eraser.state
            version = self._eraser.journal.version
            streams = self._streams_named(contexts) if days is None else self._idle(days)
            selection = Selection(self._log, Mask(text=ARCHIVED_TEXT))
            selection.versions = {stream: {*range(1, self._log.head(stream) + 1)} for stream in streams}
            if held := self._eraser.held(selection):
                raise HeldError(held)
            left = [*selection.sealed()]
            if dry_run or not left:
                found = contexts_of(one.remnant.stream for one in left)
                return Archived(file=str(path), contexts=found, events=len(left), is_dry_run=dry_run)
            with suppress(ConcurrencyError):
                return self._put_away(path, why, selection, left, version)
        raise StorageBusyError("others erased and archived all the time: try again when they pause")

    def _streams_named(self, contexts: Sequence[str]) -> list[str]:
        streams = [*dict.fromkeys(context_named(self._log, one) for one in contexts)]
        archives = self._eraser.state.archives
        for stream in streams:
            if stream in archives:
                raise InvalidInputError(f"{stream} is in {archives[stream].file} already: unarchive it first")
        showing = [one for one in self._eraser.takers(streams) if one not in streams and one not in archives]
        if showing:
            raise InvalidInputError(
                f"{', '.join(sorted(showing))} would lose what they took from it: archive them, too"
            )
        return streams

    def _idle(self, days: int) -> list[str]:
        """Return the contexts without a newer event, unless a newer one shows something of them."""
        until = int(self._system.now() * 1_000_000) - days * DAY_MICROSECONDS
        state = self._eraser.state
        kept = self._eraser.shown_in(state.held)
        rows = list(self._runner.rows(CATALOGUE))
        idle = {row.key for row in rows if row.changed_at <= until} - kept
        newer = {row.key for row in rows} - idle - state.archives.keys()
        shown = self._eraser.shown_in(newer)
        return sorted(idle - shown - state.archives.keys())

    def _put_away(self, path: Path, why: str, selection: Selection, left: Sequence[Sealed], version: int) -> Archived:
        archive = self._system.new_id("archive-")
        hashed, made = self._write(path, {stream: len(some) for stream, some in selection.versions.items()})
        said = StoreErased(erasure=archive, scope="archive", why=why, erased=(), file=str(path), hash=hashed)
        seals = ((one.remnant.stream, one.remnant.version, one.seal) for one in left)
        try:
            # Refused if the store's own stream has grown since this version.
            self._log.erase([one.remnant for one in left], [events_of_store(erased_events(said, seals), version)])
        except (ConcurrencyError, StorageReadOnlyError):
            # After any other error the events may be archived in the log: then only this file has the texts.
            if all(one.id != archive for one in self._eraser.state.archives.values()):
                # A file that was there before stays: a killed process left it, or another store has the same archive.
                if os.path.samestat(os.fstat(made), path.stat()):
                    path.unlink()
                raise
        finally:
            os.close(made)
        unreached = self._eraser.finish([archive], self._eraser.made_of(left))
        contexts = contexts_of(one.remnant.stream for one in left)
        return Archived(file=str(path), contexts=contexts, events=len(left), unreached=unreached)

    def _write(self, path: Path, heads: dict[str, int]) -> tuple[bytes, int]:
        """
        Write streams, each up to a version; return the hash of the file, and a descriptor of what was written.

        While the descriptor is open, no other archive takes the file for its own.
        """
        with (
            _as_stored(self._log) as stored,
            writing_file(path, self._log, is_new=True) as file,
            TemporaryFile(dir=path.parent) as lines,
        ):
            os.fchmod(file.fileno(), OWNER)
            collection = _StoredEvents(self._log, stored, lines)
            collection.take(heads)
            collection.write(file)
            return _hash_of(file), os.dup(file.fileno())

    # Unarchiving

    def unarchive(self, contexts: Sequence[str], file: str | os.PathLike[str] | None) -> Archived:
        """
        Put the texts of archived contexts back, from a file if it is not where it was; what was erased stays erased.

        Raises:
            NotFoundError: there is no such context, or it is not archived.
            InvalidInputError: the contexts are in several files, the file cannot be read, or a transaction is open.
            DamagedFileError: the file is not as it was written.
            StorageBusyError: others erased, archived or held all the time.
        """
        require_no_transaction(self._log, "nothing is archived")
        for _ in range(ATTEMPTS_MAX):
            archives, version = self._eraser.state.archives, self._eraser.journal.version
            streams = [*dict.fromkeys(context_named(self._log, one) for one in contexts)]
            for stream in streams:
                if stream not in archives:
                    raise NotFoundError(f"{stream} is not archived: `refold archive` lists those that are")
            found = {archives[stream].id: archives[stream] for stream in streams}
            if len(found) != 1:
                raise InvalidInputError("name contexts of one file at a time: `refold archive` lists them")
            (archive,) = found.values()
            path = Path(archive.file if file is None else file)
            with suppress(ConcurrencyError):
                return self._put_back(path, archive, streams, version)
        raise StorageBusyError("others erased and archived all the time: try again when they pause")

    def _put_back(self, path: Path, archive: Archive, streams: Sequence[str], version: int) -> Archived:
        erased = self._erased_since(archive)
        back: list[Sealed] = []
        # Events whose texts were erased in part before: without a seal they would count as damaged.
        in_part: list[tuple[str, int, bytes]] = []
        stayed = 0
        before = NO_DIGEST
        for recorded, payload, line in self._archived_events(path, archive, streams):
            stream, number = recorded.stream, recorded.version
            before = NO_DIGEST if number == 1 else before
            if number in erased.get(stream, ()):
                stayed += 1
            elif stored_payload(recorded.event) != payload:
                event = self._event_in(payload, recorded.reference)
                place = (stream, number, recorded.position)
                seal = seal_of(before, recorded.digest, place, recorded.recorded_at, line.meta, payload)
                remnant = Remnant(stream, number, recorded.digest, event, line.meta, payload)
                back.append(Sealed(remnant, seal, msgspec.structs.replace(recorded, event=event)))
                if self._digest(before, recorded, line.meta, payload) != recorded.digest:
                    in_part.append((stream, number, seal))
            before = recorded.digest
        called = self._system.new_id("unarchive-")
        said = StoreUnarchived(erasure=called, contexts=tuple(streams))
        events = erased_events(said, in_part) or [said]
        self._log.erase([one.remnant for one in back], [events_of_store(events, version)])
        self._eraser.finish([called], self._eraser.made_of(back))
        contexts = contexts_of(one.remnant.stream for one in back)
        return Archived(file=str(path), contexts=contexts, events=len(back), erased=stayed)

    def _erased_since(self, archive: Archive) -> dict[str, set[int]]:
        """Return the versions of each stream that were erased after an archive was made."""
        erased: dict[str, set[int]] = {}
        is_since = False
        for event in self._log.read_events(STREAM):
            if isinstance(event, StoreErased):
                is_since |= event.erasure == archive.id
                if is_since and event.scope != "archive":
                    for one in event.erased:
                        erased.setdefault(one.stream, set()).update(version for version, _ in one.versions())
        return erased

    def _archived_events(
        self, path: Path, archive: Archive, streams: Sequence[str]
    ) -> Iterator[tuple[RecordedEvent, bytes, EventLine]]:
        """Yield each event of these streams as it is stored now, with the payload and the line that the file has."""
        pages = _Pages(stored_log(self._log))
        for line in _checked_lines(path, archive):
            if line.stream not in streams:
                continue
            said = msgspec.json.decode(line.event)
            payload = base64.b64decode(said) if isinstance(said, str) else encode_payload(event_in(line.event))
            if payload[:1] in PACKED_BYTES:
                payload = msgspec.msgpack.decode(payload)
            yield pages.event(line.stream, line.version), payload, line

    def _digest(self, before: bytes, recorded: RecordedEvent, meta: Meta, payload: bytes) -> bytes:
        chain: Chain = stored_log(self._log).chain
        place = (recorded.stream, recorded.version, recorded.position)
        return chain.digest(before, *place, recorded.recorded_at, meta, payload)

    def _event_in(self, payload: bytes, reference: str) -> Event:
        """Return the event in a payload as it is stored."""
        if stored_log(self._log) is self._log:
            return CODEC.decode(payload, f"event {reference}")
        log: Any = self._log
        return log.event_in(payload, reference)  # type: ignore[no-any-return]


class _Pages:
    """The events of a log, asked for one by one in the order of their streams, and read a page at a time."""

    def __init__(self, log: LiveLog) -> None:
        self._log = log
        self._page: dict[int, RecordedEvent] = {}

    def event(self, stream: str, version: int) -> RecordedEvent:
        if version not in self._page or self._page[version].stream != stream:
            read = self._log.read(stream, after=version - 1, until=version - 1 + PAGE_EVENTS)
            self._page = {one.version: one for one in read}
        return self._page[version]


class _StoredEvents(Collection):
    """Streams with their events as lines, in the bytes in which they are stored, without the streams that they name."""

    def __init__(self, log: LiveLog, stored: LiveLog, lines: IO[bytes]) -> None:
        super().__init__(log, lines)
        self._stored = _Pages(stored)

    def _take_missing(self) -> None:
        """Do nothing: streams that events name are not archived with them."""

    def _line(self, recorded: RecordedEvent) -> EventLine:
        stored, line = self._stored.event(recorded.stream, recorded.version), super()._line(recorded)
        payload = stored_payload(stored.event)
        if encode_payload(recorded.event) != payload:
            # It is encrypted, or in an older shape, which its digest covers.
            line = msgspec.structs.replace(line, event=payload_line(payload))
        return msgspec.structs.replace(line, meta=stored.meta)


@contextmanager
def _as_stored(log: LiveLog) -> Iterator[LiveLog]:
    """Yield a log whose events are the bytes in which they are stored; one in memory has the events themselves."""
    stored = stored_log(log)
    if isinstance(stored, PartitionedLog):
        with reading_stored(stored.location, stored.chain) as (opened, _):  # type: ignore[attr-defined]
            yield opened
    else:
        yield stored


def _hash_of(file: IO[bytes]) -> bytes:
    file.seek(0)
    return hashlib.file_digest(file, HASH).digest()  # type: ignore[arg-type]


def _checked_lines(path: Path, archive: Archive) -> Iterable[EventLine]:
    """
    Return the lines of an archive.

    Raises:
        InvalidInputError: it cannot be read.
        DamagedFileError: it is not as it was written.
    """
    try:
        with path.open("rb") as file:
            is_same = _hash_of(file) == archive.hash
    except OSError as error:
        fault = f"{path} cannot be read: {error.strerror or error}"
        raise InvalidInputError(f"{fault}: say where the archive is now, with file= or --from") from error
    if not is_same:
        raise DamagedFileError(str(path), "it is not as the archive was written")
    return (line for _, _, line in lines_in(path))
