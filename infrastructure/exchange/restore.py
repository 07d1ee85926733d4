"""
Restoring a store from a backup, as it was at the end of the backup or at an earlier moment.

The store is made in a temporary place: in a file beside the target, or in a schema. It is read back, compared with the
backup, and then put in place in one step. So a restore that is killed changes nothing, and the next one removes what it
left.

Positions, times and digests are those of the backup. The restored store is not the store that was backed up, so it gets
a new lineage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ...domain.arguments import require_functions, require_path
from ...domain.clock import exact
from ...domain.erasure.events import STREAM as ERASURES
from ...domain.errors import (
    ConcurrencyError,
    DamagedError,
    DamagedFileError,
    InvalidInputError,
    NotFoundError,
    StorageUnavailableError,
)
from ...domain.log.envelope import NO_DIGEST, RecordedEvent
from ...domain.moments import MOMENTS, STREAM, MomentNamed
from ...domain.positions import BEGINNING, Moment, Position, cut_to
from ..databases import Database, is_on_server, location_of, open_database, tables_of
from ..log.codec import CODEC
from ..log.row_faults import opening
from ..projecting.store import ProjectionStore
from ..queries.cuts import Cut, LogEnd, cut_at
from ..store_id import NOTE, lineage_of
from ..trust.tables import ADD_KEY, Statement
from .backup import chain_of
from .backup_file import REMEDY, BackupFile, Stream, damaged_backup, reading_backup
from .copying import BYTES, CopyClock, Incoming
from .event_files import Progress, is_same_file, pages_up_to
from .tally import Tally

if TYPE_CHECKING:
    from ..trust.keys import Keys

RESTORED = f"{NOTE}/restored"


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """
    The result of a restore: the store at `target` has `events` up to `moment`, and the id `lineage`.

    `source` is the store that was backed up, `source_lineage` its id, `made_at` the time of the backup in microseconds
    since 1970, UTC.
    """

    file: str
    target: str
    source: str
    source_lineage: str
    lineage: str
    moment: str
    events: int
    made_at: int


class _BackedUp:
    """The named moments and the end of the log in a backup, in the form in which cuts are found."""

    def __init__(self, file: BackupFile) -> None:
        self._file = file
        self.has_slices = file.record.has_slices

    def now(self) -> Moment:
        """Return the moment of the last event."""
        return self._file.moment

    def moments(self) -> Mapping[str, Moment]:
        """Return the named moments."""
        if self._file.record.is_encrypted:
            raise InvalidInputError("the names of moments are encrypted in this backup: give a position or a time")
        events = [CODEC.decode(one.event, f"event {one.reference}") for _, one in self._file.events_of(STREAM)]
        names = MOMENTS.fold({}, [one for one in events if isinstance(one, MomentNamed)])
        return {name: Moment.parse(text) for name, text in names.items()}

    def moment(self, name: str) -> Moment | None:
        """Return the moment of a name; None if there is none."""
        return self.moments().get(name)

    def before_copy(self, number: int) -> Moment | None:
        """Return None: positions of a store from before it was copied are not looked up in a backup."""
        return None


class _End(LogEnd):
    """The end of a backup: nothing is known of later events."""

    whole, remedy = "the backup", ": back up again, or restore its end"

    def __init__(self, file: _BackedUp) -> None:
        super().__init__(file)  # type: ignore[arg-type]  # its events are not looked at

    def cut_at(self, time: int) -> Cut:
        """Return the time itself, because nothing more is recorded in a backup."""
        return time


class _Restore:
    """The events of a backup up to a cut, on their way into a new log."""

    def __init__(self, file: BackupFile, cut: Cut, keys: Keys | None) -> None:
        self._file, self._cut, self._keys = file, cut, keys
        self._heads = None if isinstance(cut, int) else dict(cut.heads)
        self.tally = Tally()
        self.moment = Moment()
        self.is_erased = False

    def _includes(self, one: RecordedEvent) -> bool:
        if self._heads is None:
            return one.recorded_at <= self._cut  # type: ignore[operator]  # a time, then
        return one.position.number <= self._heads.get(one.position.slice, 0)

    def _events(self, progress: Progress | None) -> Iterator[tuple[Stream, RecordedEvent]]:
        for done, frame in enumerate(self._file.chunks, 1):
            for stream, one in self._file.open(frame).events():
                if self._includes(one):
                    yield stream, one
            if progress is not None:
                progress(done, len(self._file.chunks))

    def into(self, database: Database, clock: CopyClock, progress: Progress | None) -> str:
        """Write the events into an empty log and compare them; return the id of the new store."""
        log: Any = database[0]
        rows = database[1]
        incoming, ends = Incoming(log), dict[int, int]()
        digests: dict[str, bytes] = {}
        for stream, one in self._events(progress):
            before, digests[one.stream] = digests.get(one.stream, NO_DIGEST), one.digest
            made = log.chain.digest(before, one.stream, one.version, one.position, one.recorded_at, one.meta, one.event)
            self.is_erased |= made != one.digest
            number = one.position.slice if log.has_slices else stream.slice
            # The log says, when it is read back, whether something was erased there, or the backup was changed.
            incoming.add(one, one.event, number, is_erased=made != one.digest)
            self.tally.add(one.position.slice, one, one.event)
            ends[one.position.slice] = one.position.number
        self.moment = Moment.of(ends)
        if self._heads is not None and ends != {lane: number for lane, number in self._heads.items() if number}:
            raise self.damaged("it has other events than its record says")
        for stream, one in self._later_erasures():
            incoming.add(one, one.event, one.position.slice if log.has_slices else stream.slice)
        incoming.write()
        self._require_equal(log)
        record = self._file.record
        if record.keys:
            tables = tables_of(log)
            tables.make()
            tables.change(*(Statement(ADD_KEY, row) for row in record.keys))
        for name, text in record.notes.items():
            rows.set_note(name, before=None, after=text)
        self._set_back(log, rows)
        rows.set_note(RESTORED, before=None, after=f"{record.lineage} {self.moment}")
        clock.is_copying = False
        return lineage_of(rows)

    def _later_erasures(self) -> Iterator[tuple[Stream, RecordedEvent]]:
        """Yield the erasures after the cut: what they erased is not in the backup, and stays erased."""
        if not self.is_erased:
            return
        for stream, one in self._file.events_of(ERASURES):
            if not self._includes(one):
                yield stream, one

    def _set_back(self, log: Any, rows: ProjectionStore) -> None:
        """Set each place of a subscription that is after the cut back to the cut."""
        places = rows
        if self._file.record.is_encrypted:
            from ..trust.key_ring import KeyRing
            from ..trust.sealed_rows import SealedProjectionStore

            assert self._keys is not None, "its chain was made with them"
            places = SealedProjectionStore(log, tables_of(log), KeyRing(tables_of(log), self._keys), rows)
        ends = dict(self.moment.heads)
        for name in self._file.record.notes:
            # A place that cannot be read stays: the subscriber gets the same error as in the store that was backed up.
            with suppress(DamagedError, InvalidInputError):
                text = places.note(name)
                places.set_note(name, before=text, after=str(cut_to(Moment.parse(text or ""), ends)))

    def _require_equal(self, log: Any) -> None:
        found = Tally()
        try:
            for page in pages_up_to(log, limit=4_096, until=self.moment):
                for one in page:
                    found.add(one.position.slice, one, bytes(one.event))
        except DamagedError as error:
            raise self.damaged(f"{error.what}: {error.reason}") from error
        if self.tally.differs(found) is not None or found.root() != self.tally.root():
            raise self.damaged("the events that were restored are not those of the backup")

    def damaged(self, reason: str) -> DamagedFileError:
        """Return the error for a backup that has something wrong in it."""
        return damaged_backup(self._file.path, reason)


def restore(
    path: str | Path,
    into: str | Path,
    *,
    at: str | datetime | Moment | Position | None = None,
    overwrite: bool = False,
    keys: Keys | None = None,
    progress: Progress | None = None,
) -> RestoreReport:
    """
    Make the store at the location `into` from a backup: as it was when it was backed up, or `at` an earlier moment, a
    position (`pos:17`), an aware time or the name of a moment.

    The backup of a store that has keys needs the `keys` of the store. A store that has events is only replaced with
    `overwrite`. Its rows of projections are not in a backup, and are made anew by the first questions.

    Raises:
        InvalidInputError: the file is no backup, the moment is malformed, the location has events, is that of the
            backup, or is of another kind than the store that was backed up.
        NotFoundError: no moment has this name, the backup ends before this position, or has nothing up to this moment.
        DamagedFileError: the backup was changed or cut off; nothing was restored.
        KeyUnavailableError: the store was made with keys, and these are not they.
        StorageBusyError: programs use the store that is to be replaced, or the backup is being written.
    """
    require_functions(progress=progress)
    target = location_of(into)
    with reading_backup(require_path(path)) as file:
        record = file.record
        _require_place(file, target)
        if not overwrite:
            _require_empty(target)
        backed_up = _BackedUp(file)
        cut: Cut = backed_up.now() if at is None else cut_at(at, backed_up, _End(backed_up))
        work, clock = _Restore(file, cut, keys), CopyClock()
        with _aside(target, overwrite=overwrite) as (aside, put_in_place):
            chain_key = chain_of(file, keys).key
            log, rows = open_database(aside, codec=BYTES, system=clock, is_raw=True, chain_key=chain_key)
            with closing(log):
                where = log.database.where if record.has_slices else target  # type: ignore[attr-defined]
                try:
                    with opening(str(file.path), remedy=REMEDY):
                        lineage = work.into((log, rows), clock, progress)
                except ConcurrencyError as error:
                    # Nobody else knows of the new store.
                    raise work.damaged("its events are not in their order") from error
            _require_something(file, work.moment, at)
            put_in_place()
    return RestoreReport(
        file=str(path),
        target=where,
        source=record.source,
        source_lineage=record.lineage,
        lineage=lineage,
        moment=str(work.moment),
        events=work.moment.events,
        made_at=record.made_at,
    )


def _require_place(file: BackupFile, target: str) -> None:
    """Require that a location is of the kind of the store that was backed up, and is not that of the backup."""
    if is_same_file(file.path, target):
        raise InvalidInputError(f"{file.path} is the backup itself: restore it into another file")
    record = file.record
    if target == ":memory:":
        raise InvalidInputError("a backup cannot be restored into memory: name a file or postgresql://...")
    if is_on_server(target) != record.has_slices:
        kind, other = ("PostgreSQL", "a file") if record.has_slices else ("a file", "PostgreSQL")
        raise InvalidInputError(
            f"the backup is of a store on {kind}: restore it into one of this kind; `refold copy` brings it to {other}"
        )


def _require_empty(target: str) -> None:
    """Require that a location has no events, before the backup is read as a whole."""
    try:
        log: Any = open_database(target, create=False, read_only=True, codec=BYTES, is_raw=True)[0]
    except StorageUnavailableError:
        # There is no store; or there is something else, which is refused when the restored store is put in place.
        return
    with closing(log):
        if log.now() != BEGINNING:
            raise InvalidInputError(
                f"{log.database.where} has events: restore into a new place (--into), or overwrite them (--overwrite)"
            )


def _require_something(file: BackupFile, moment: Moment, at: object) -> None:
    """Require that a restore gives events, if there are any: an empty store is of no use, and may replace another."""
    if moment == BEGINNING != file.moment:
        _, first = next(file.open(file.chunks[0]).events())
        raise NotFoundError(f"the backup has no event up to {at}: its first is of {exact(first.recorded_at)}")


def _aside(target: str, *, overwrite: bool) -> AbstractContextManager[tuple[str, Callable[[], None]]]:
    """Return the context manager of a temporary place and of the function that moves its store to `target`."""
    if is_on_server(target):
        from ..log.postgres.staged_log import made_aside as made_in_schema

        return made_in_schema(target, overwrite=overwrite)
    from ..log.sqlite.staged_log import made_aside as made_in_file

    return made_in_file(target, overwrite=overwrite)
