"""
Backing up a store, beside its writers, into a file that grows with each run.

A run reads the log from where the last one ended up to its present end, a page at a time, so that no writer waits.
Before that, the whole file is checked. Each event is checked against its digest when it is read, and all that was
written is read back. The events keep the bytes in which they are stored, so those of an encrypted store stay encrypted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...domain.arguments import require_functions, require_path
from ...domain.clock import REAL_SYSTEM
from ...domain.erasure.events import STREAM as ERASURES
from ...domain.erasure.events import Seals, seal_of
from ...domain.errors import (
    InvalidInputError,
    LogWentBackError,
    StorageBusyError,
    StorageFullError,
    StorageReadOnlyError,
)
from ...domain.ids import slice_of
from ...domain.log.envelope import NO_DIGEST, UNKEYED, Chain, RecordedEvent, encode_payload
from ...domain.log.memory_log import MemoryLog
from ...domain.log.ports import LiveLog, PartitionedLog
from ...domain.positions import Moment
from ..context_streams import root_of
from ..databases import Database, location_of, missing_keys, open_database, stored_log, tables_of
from ..files import replacing
from ..projecting.store import ProjectionStore, kept_by
from ..store_id import known_lineage, lineage_of
from ..trust.erasing import ATTEMPTS_MAX
from ..trust.tables import ADD_KEY, STORE, KeyRow, MemoryTables, Statement, keys_in
from .backup_file import (
    CHUNK_BYTES_MAX,
    CHUNK_EVENTS,
    UNKNOWN_SLICE,
    BackupFile,
    Record,
    Stream,
    chunk_of,
    damaged_backup,
    reading_backup,
    size_of,
    writing_backup,
)
from .copying import BYTES, SUBSCRIPTIONS
from .event_files import Progress, pages_up_to

if TYPE_CHECKING:
    from ..trust.keys import Keys

IN_MEMORY = ":memory:"


class BackupReport(msgspec.Struct, frozen=True, kw_only=True):
    """
    The state of a backup: it has the `events` of a store up to `moment`, of which the last run `added` some.

    `made_at` is in microseconds since 1970, UTC; `lineage` is the id of the store, `size` the length of the file.
    """

    file: str
    source: str
    lineage: str
    moment: str
    events: int
    added: int
    made_at: int
    size: int


class _Run:
    """A run of the backup of a log into a file."""

    def __init__(self, log: LiveLog, rows: ProjectionStore, file: BackupFile) -> None:
        self._log, self._rows, self._file = log, rows, file
        self.where = log.database.where if hasattr(log, "database") else IN_MEMORY
        # Whether an erasure is among the events that were taken.
        self.is_erasure = False
        # By slice: its last position in the file, and the digest of the event there.
        self._ends: dict[int, tuple[int, bytes]] = {}
        if file.records:
            self._ends = {number: (last, digest) for number, last, digest in file.records[-1].ends}

    @property
    def moment(self) -> Moment:
        """The moment up to which the events are in the file."""
        return Moment.of({number: last for number, (last, _) in self._ends.items()})

    def require_begun(self) -> None:
        """
        Require that the file has the first events of the log, and no others.

        Raises:
            InvalidInputError: the file is the backup of another store.
            LogWentBackError: the log lacks events that are in the file.
        """
        if self._file.records:
            record, lineage = self._file.records[-1], known_lineage(self._rows)
            is_other = record.lineage and lineage and record.lineage != lineage
            if is_other or record.has_slices != self._log.has_slices:
                raise InvalidInputError(
                    f"{self._file.path} is a backup of another store, {record.source}: name another file for this one"
                )
        for frame in self._file.left:
            for _, recorded in self._file.open(frame).events():
                self._note(recorded)
        self._require_ends()

    def _note(self, recorded: RecordedEvent) -> None:
        """Note an event that is in the file: it is the last one of its slice so far, and may record an erasure."""
        self._ends[recorded.position.slice] = recorded.position.number, recorded.digest
        self.is_erasure |= recorded.stream == ERASURES

    def _require_ends(self) -> None:
        """Require that the log has the last event of each slice of the file; its digest covers those before it."""
        moment = self.moment
        before = Moment.of({number: last - 1 for number, last in moment.heads})
        page = self._log.read_all(after=before, limit=max(1, len(moment.heads)), until=moment)
        found = {one.position.slice: (one.position.number, one.digest) for one in page.events}
        if not self._log.now().includes(moment) or found != self._ends:
            raise LogWentBackError(
                self.where,
                reason=f"it lacks events that are in the backup {self._file.path}",
                remedy="if that is right, back up into a new file; else restore the backup",
            )

    @property
    def is_overtaken(self) -> bool:
        """
        Whether something was erased after the moment up to which the events are in the file.

        An event that was erased before it was read matches its digest only together with the erasure.
        """
        return self._log.version_at(ERASURES, self.moment) < self._log.head(ERASURES)

    def take(self, until: Moment, progress: Progress | None) -> None:
        """Append the events up to a moment to the file."""
        waiting: list[tuple[Stream, RecordedEvent]] = []
        size = 0
        for page in pages_up_to(self._log, limit=CHUNK_EVENTS, after=self.moment, until=until):
            for stream, recorded in map(self._stored, page):
                size += size_of(recorded)
                if waiting and (len(waiting) >= CHUNK_EVENTS or size > CHUNK_BYTES_MAX):
                    self._file.add(chunk_of(waiting))
                    waiting, size = [], size_of(recorded)
                waiting.append((stream, recorded))
                self._note(recorded)
            if progress is not None:
                progress(self.moment.events, until.events)
        if waiting:
            self._file.add(chunk_of(waiting))

    def _stored(self, recorded: RecordedEvent) -> tuple[Stream, RecordedEvent]:
        """Return an event with its payload, and its stream with its slice if it begins with this event."""
        number = self._slice_of(recorded) if recorded.version == 1 else UNKNOWN_SLICE
        return Stream(recorded.stream, number), msgspec.structs.replace(recorded, event=stored_payload(recorded.event))

    def _slice_of(self, recorded: RecordedEvent) -> int:
        if self._log.has_slices:
            return recorded.position.slice
        log: Any = self._log
        if hasattr(log, "slice_of_stream"):
            return int(log.slice_of_stream(recorded.stream))
        # A log in memory does not store the slices of its streams.
        return slice_of(root_of(recorded.event, recorded.stream))

    def _keys(self) -> list[tuple[str, str, int, str, bytes]]:
        """Return the data keys of a store, if it has keys, wrapped by its master keys as they are stored."""
        if isinstance(self._log, MemoryLog):
            return []
        tables = tables_of(self._log)
        return [(*row[:-1], bytes(row.wrapped)) for row in keys_in(tables)] if tables.names() else []

    def lost_keys(self) -> bool:
        """Return whether the file has keys that have been destroyed in the store."""
        now = {row[0] for row in self._keys() if row[-1]}
        return any(row[-1] and row[0] not in now for record in self._file.records for row in record.keys)

    @property
    def is_news(self) -> bool:
        """Whether the last record differs from the present state of the store."""
        if self._file.left or not self._file.records:
            return True
        record = self._file.records[-1]
        has_other_notes = record.notes != kept_by(self._rows).notes(SUBSCRIPTIONS)
        return has_other_notes or record.keys != self._keys() or record.lineage != known_lineage(self._rows)

    def record(self, root: bytes, chunks: int) -> Record:
        """Return the record of what is in the file now."""
        moment = self.moment
        return Record(
            lineage=known_lineage(self._rows),
            source=self.where,
            has_slices=self._log.has_slices,
            moment=str(moment),
            events=moment.events,
            chunks=chunks,
            made_at=int(REAL_SYSTEM.now() * 1_000_000),
            ends=[(number, *end) for number, end in sorted(self._ends.items())],
            root=root,
            notes=kept_by(self._rows).notes(SUBSCRIPTIONS),
            keys=self._keys(),
        )


def stored_payload(event: Any) -> bytes:
    """Return the stored bytes of an event; a log that was opened with the codec BYTES has them as its events."""
    return bytes(event) if isinstance(event, msgspec.Raw) else encode_payload(event)


def back_up(log: LiveLog, rows: ProjectionStore, path: str | Path, *, progress: Progress | None) -> BackupReport:
    """
    Bring the backup of a log in a file up to the present end of the log; a new file gets the whole log.

    A log in a database must have been opened with the codec BYTES.

    Raises:
        InvalidInputError: the file cannot be written, is no backup, or is one of another store.
        DamagedError: the file was changed or cut off (a DamagedFileError), or the log is damaged.
        LogWentBackError: the log lacks events that are in the file.
        StorageBusyError: another process is writing the file, or others erased all the time.
    """
    with writing_backup(require_path(path)) as file:
        run = _Run(log, rows, file)
        run.require_begun()
        is_old, before = bool(file.chunks or file.left), run.moment.events
        run.take(log.now(), progress)
        if run.is_overtaken or (is_old and (run.is_erasure or run.lost_keys())):
            # Older chunks have the texts that were erased since, and older records the keys.
            file = _written_anew(log, rows, file.path, progress)
        elif run.is_news:
            file.finish(run.record)
        return _report(file, file.moment.events - before)


def _written_anew(log: LiveLog, rows: ProjectionStore, path: Path, progress: Progress | None) -> BackupFile:
    """Put a backup of the whole log in the place of a file, and return it."""
    with replacing(path) as new:
        for _ in range(ATTEMPTS_MAX):
            new.seek(0)
            new.truncate()
            file = BackupFile(path, new)
            run = _Run(log, rows, file)
            run.take(log.now(), progress)
            if not run.is_overtaken:
                file.finish(run.record)
                return file
        raise StorageBusyError("others erased all the time while the log was read: try again when they pause")


def back_up_store(log: LiveLog, rows: ProjectionStore, path: str | Path, *, progress: Progress | None) -> BackupReport:
    """Back up an open store, as `back_up` does; one in a database is read by connections of its own."""
    require_functions(progress=progress)
    # Before the store gets an id, which a backup names.
    path, stored = require_path(path), stored_log(log)
    if isinstance(stored, PartitionedLog):
        # Refused by a closed store; the connections that read it below would not notice.
        log.now()
        chain: Chain = stored.chain  # type: ignore[attr-defined]
        return _back_up_at(stored.location, path, progress, chain=chain, may_write=kept_by(rows) is rows)
    if stored.chain.key:
        raise InvalidInputError("a store in memory that has keys is not backed up: they are gone with it")
    lineage_of(rows)
    return back_up(log, rows, path, progress=progress)


def back_up_from(
    location: str, path: str | Path, *, keys: Keys | None = None, progress: Progress | None = None
) -> BackupReport:
    """
    Back up the store at a location, as `back_up` does; keyed digests are read with its `keys`.

    Raises:
        InvalidInputError, DamagedError, LogWentBackError, StorageBusyError: as for `back_up`.
        StorageUnavailableError: there is no store, or it cannot be reached.
    """
    found = location_of(location)
    if found == IN_MEMORY:
        raise InvalidInputError("a store in memory has no location: call its backup()")
    with closing(open_database(found, create=False, read_only=True, keys=keys)[0]) as log:
        chain = stored_log(log).chain
    return _back_up_at(found, path, progress, chain=chain, may_write=True)


def _back_up_at(
    location: str, path: str | Path, progress: Progress | None, *, chain: Chain, may_write: bool
) -> BackupReport:
    """Back up the store at a location, whose digests are computed by this chain; if it `may_write`, it gets an id."""
    with reading_stored(location, chain) as (log, rows):
        if may_write and not known_lineage(rows):
            _begin_lineage(location)
        return back_up(log, rows, path, progress=progress)


@contextmanager
def reading_stored(location: str, chain: Chain) -> Iterator[Database]:
    """Yield the log at a location with events as the bytes in which they are stored, and its rows."""
    log, rows = open_database(location, create=False, read_only=True, codec=BYTES, is_raw=True, chain_key=chain.key)
    with closing(log):
        yield log, rows


def _begin_lineage(location: str) -> None:
    """Give a store the id of its lineage, unless it may only be read, or its disk is full."""
    with suppress(StorageReadOnlyError, StorageBusyError, StorageFullError):
        log, rows = open_database(location, create=False, is_raw=True)
        with closing(log):
            lineage_of(rows)


def check_backup(path: str | Path, *, keys: Keys | None = None) -> BackupReport:
    """
    Read a backup as a whole and check it: every byte, and every event against its digest. Without the `keys` of a store
    that has some its digests are not computed, and a warning says so.

    Raises:
        InvalidInputError: there is no such file, it is no backup, or its first run was not finished.
        DamagedFileError: it was changed or cut off.
        StorageBusyError: another process is writing it.
    """
    with reading_backup(require_path(path)) as file:
        report, ends, digests = _report(file, 0), dict[int, int](), dict[str, bytes]()
        is_checked = keys is not None or not file.record.keys
        if not is_checked:
            message = f"{path}: no digest was computed, as they are keyed: give the keys of the store"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        chain, erasures = chain_of(file, keys) if is_checked else UNKEYED, _Erasures(file)
        for frame in file.chunks:
            for _, one in file.open(frame).events():
                position, before = one.position, digests.get(one.stream, NO_DIGEST)
                digest = chain.digest(before, one.stream, one.version, position, one.recorded_at, one.meta, one.event)
                is_other = is_checked and one.digest != digest and not erasures.has(before, one)
                if is_other or position.number != ends.get(position.slice, 0) + 1:
                    raise damaged_backup(file.path, f"event {one.reference} does not match its digest")
                digests[one.stream], ends[position.slice] = one.digest, position.number
        if Moment.of(ends) != file.moment:
            raise damaged_backup(file.path, "it has other events than its record says")
        return report


class _Erasures:
    """The erasures in a backup, which are read when an event does not match its digest."""

    def __init__(self, file: BackupFile) -> None:
        self._file, self._seals = file, Seals()
        self._is_read = False

    def has(self, before: bytes, one: RecordedEvent) -> bool:
        """Return whether this is what an erasure left of an event; `before` is the digest before it."""
        if not self._is_read:
            self._seals.learn(msgspec.Raw(erased.event) for _, erased in self._file.events_of(ERASURES))
            self._is_read = True
        place = (one.stream, one.version, one.position)
        seal = seal_of(before, one.digest, place, one.recorded_at, one.meta, one.event)
        return self._seals.has(one.stream, one.version, seal)


def chain_of(file: BackupFile, keys: Keys | None) -> Chain:
    """
    Return the chain by which the digests of a backup are computed.

    Raises:
        KeyUnavailableError: the store was made with keys, and these are not they.
    """
    chain, rows = Chain(), file.record.keys
    if not rows:
        return chain
    if keys is None:
        raise missing_keys(KeyRow(*next(row for row in rows if row[0] == STORE)), str(file.path))
    from ..trust.key_ring import KeyRing

    tables = MemoryTables()
    tables.make()
    tables.change(*(Statement(ADD_KEY, row) for row in rows))
    chain.use(KeyRing(tables, keys).chain_key())
    return chain


def _report(file: BackupFile, added: int) -> BackupReport:
    record = file.record
    return BackupReport(
        file=str(file.path),
        source=record.source,
        lineage=record.lineage,
        moment=record.moment,
        events=record.events,
        added=added,
        made_at=record.made_at,
        size=file.size,
    )
