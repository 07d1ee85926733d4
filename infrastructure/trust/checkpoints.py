"""
Checkpoints: the entries that a process writes to the witness of a store, and when.

Appending costs nothing more: a thread takes what was committed, adds it to the Merkle trees, and hands a checkpoint to
the witness, at most one a second, and at `flush` and `close`. Rows of segments are stored before their checkpoint, and
are made from the events alone. So whatever a crash leaves undone, the next process finds that fewer events were
witnessed than there are, never more.

A writer announces itself before it writes. So events behind the last checkpoint are either those of a writer that has
not closed the store, or somebody else's.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter

from ...domain.clock import DAY_SECONDS, REAL_SYSTEM
from ...domain.concurrency.locks import locked, renew_in_child
from ...domain.context.description import counted
from ...domain.errors import RefoldError, TamperedError
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import LiveLog, Receipt
from ...domain.positions import ONE_SEQUENCE, Moment
from ...projections.catalogue import CATALOGUE, CatalogueRow
from ..log.background import BackgroundWork
from ..log.evidence import SegmentRow, require_ends
from ..log.row_faults import REBUILD
from ..projecting.store import ProjectionStore, kept_by
from ..store_id import known_lineage, lineage_of
from .known_events import READ_EVENTS, KnownEvents
from .slices import SliceEvidence
from .witness import (
    NOTHING_SEEN,
    Accepted,
    Checkpoint,
    Entry,
    SliceSeen,
    Witness,
    WitnessHistory,
    WriterClosed,
    WriterOpened,
    is_over,
    reaching,
    root_over,
    text_of,
)

INTERVAL_SECONDS = 1.0
# After so many entries a checkpoint is a full one: it names all slices and writers, not only the slices that changed.
FULL_EVERY = 256
# At most so often a writer reads what others wrote to other slices: its checkpoint then proves their events as well.
LOOK_SECONDS = 300.0
# Appends that are kept in memory for a witness that is out of reach.
NOTED_MAX = 10_000
# A context with more events is not drawn: reading them would hold up an answer.
SAMPLED_EVENTS_MAX = 512
# The note in the database that a writer leaves when it cannot reach the witness.
OUTAGE = "witness/outage"
# The note that the store has a witness.
KNOWN = "witness/known"
ACCEPT = "if you know why, `refold witness accept`; else restore it from a copy that its witness knows"
LOGGER = logging.getLogger("refold")


class Checkpoints:
    """Writes the entries of a process to the witness of a store; `rows`, those of its projections, keep notes."""

    def __init__(self, known: KnownEvents, rows: ProjectionStore, witness: Witness, log: LiveLog | None = None) -> None:
        self.known, self.witness = known, witness
        # The log whose events projections fold; that of an encrypted store decrypts them.
        self._whole_log = known.log if log is None else log
        # Why the witness could not be reached; empty if it could.
        self.failure = ""
        self._notes = kept_by(rows)
        self._has_warned = self._is_closed = self._is_behind = False
        self._outage = ""
        self._written_at = self._sampled_at = 0.0
        self._looked_at = self._entry_at = REAL_SYSTEM.monotonic()
        # The text of the note as long as the witness does not know of this writer.
        self._unannounced = f"a writer of {socket.gethostname()}, who opened it at {_now()}"
        self._work = BackgroundWork(
            self._step,
            "writing checkpoints for the witness",
            pulse=lambda: len(known.noted),
            is_pressing=self._is_due,
        )
        known.wake = self._work.wake
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        self._stepping = threading.RLock()
        self._writer = REAL_SYSTEM.new_id("w")
        self._is_announced = False

    # The start

    def start(self) -> None:
        """
        Read what the witness saw, and compare the log with it.

        Raises:
            TamperedError: the log lacks events, has others in their place, or some that no writer announced.
        """
        try:
            self._connect()
        except RefoldError:
            raise
        except Exception as error:
            self._note_failure(error)
            if not self.known.read_only:
                self._note_outage(self._unannounced)

    def _connect(self) -> None:
        """Read the entries of the witness, and announce this process as a writer."""
        seen, known = WitnessHistory(self.witness.entries()), self.known
        if seen.unreadable and not seen.lineage:
            # It is the page of a proxy, or another file: a history that begins anew there has nothing to compare.
            raise ValueError(f"it has {counted(seen.unreadable, 'line')}, none of which is an entry")
        if not seen.lineage and self._notes.note(KNOWN):
            what = f"the witness {self.witness!r} has no entries, and this store had a witness: nothing is compared"
            self._warn(f"{what} with what that saw. If that is right, `refold witness accept` tells the new one why")
        lineage = known_lineage(self._notes) if known.read_only else lineage_of(self._notes)
        if seen.lineage and seen.lineage != lineage:
            what = f"it is the store {lineage or 'without an id'}, and its witness saw {seen.lineage}"
            raise TamperedError("the store", what, remedy=ACCEPT)
        now = known.log.now()
        require_ends(dict(now.heads), {lane: one.events for lane, one in sorted(seen.slices.items())})
        self._is_behind = not seen.checkpoints or (seen.last is not None and seen.last.is_behind)
        self._require_announced(seen, now)
        known.seen = seen
        if lineage and not known.read_only:
            self._announce(lineage)
        known.is_connected, self.failure = True, ""
        if not known.log.has_slices:
            known.state(ONE_SEQUENCE)
        if now.events > seen.events and not known.read_only:
            # Its writer was killed, or has not handed over its last checkpoint yet.
            self._is_behind = True
            self._work.wake()

    def _require_announced(self, seen: WitnessHistory, now: Moment) -> None:
        """Require that events behind the last checkpoint may be those of a writer that has not closed the store."""
        if self._is_behind or now.events <= seen.events or seen.writers:
            return
        self._outage = self._notes.note(OUTAGE) or ""
        behind = f"{now.events - seen.events:,} events behind its last checkpoint, which no writer announced"
        if not self._outage:
            raise TamperedError("the end of the log", f"it has {behind}", remedy=ACCEPT)
        self._warn(f"the store has {behind}: they are taken for those of {self._outage}, without the witness")

    def _announce(self, lineage: str) -> None:
        host, process = socket.gethostname(), os.getpid()
        self._add(WriterOpened(lineage=lineage, time=_now(), writer=self._writer, host=host, pid=process))
        self._is_announced = True
        if self._notes.note(KNOWN) is None:
            self._notes.set_note(KNOWN, before=None, after=_now())

    def _add(self, entry: Entry) -> None:
        self.witness.add(text_of(entry))
        self.known.seen.add(entry)
        self._entry_at = REAL_SYSTEM.monotonic()

    def _note_outage(self, note: str | None) -> None:
        self._notes.set_note(OUTAGE, before=self._notes.note(OUTAGE), after=note)

    def _note_failure(self, error: BaseException) -> None:
        """Say once that the witness cannot be reached; `verify` and `refold witness` say it as long as it is so."""
        self.failure = f"{type(error).__name__}: {error}"
        if not self._has_warned:
            self._has_warned = True
            self._warn(f"the witness {self.witness!r} cannot be reached ({self.failure}): events are recorded without")

    def _warn(self, message: str) -> None:
        LOGGER.warning(message)
        warnings.warn(message, RuntimeWarning, stacklevel=3)

    # Checkpoints

    def _is_due(self) -> bool:
        return REAL_SYSTEM.monotonic() - self._written_at >= INTERVAL_SECONDS

    def write(self) -> None:
        """Hand over a checkpoint of all that this process has committed; warn if the witness is out of reach."""
        # Under the lock: a thread in a step has taken the noted events, and may not have handed them over yet.
        while locked(self._stepping, self._has_more) and self._try_step():
            pass

    def _has_more(self) -> bool:
        return bool(self.known.noted) or self._is_behind

    def newest(self) -> tuple[Checkpoint | None, dict[int, SliceSeen]]:
        """Return the last checkpoint, and all slices as they were seen until then."""
        seen = self.known.seen
        return locked(self._stepping, lambda: (seen.last, dict(seen.slices)))

    def _try_step(self) -> bool:
        try:
            return self._step()
        except RefoldError:
            raise
        except Exception:
            return False

    def _step(self) -> bool:
        """Write a checkpoint of what was committed since the last one; return whether there is more to do."""
        return locked(self._stepping, self._locked_step)

    def _locked_step(self) -> bool:
        known = self.known
        known.is_awake = False
        if known.read_only or self._is_closed:
            return False
        try:
            if not known.is_connected:
                self._connect()
            if not self._is_announced or REAL_SYSTEM.monotonic() - self._entry_at > DAY_SECONDS:
                self._announce(known.seen.lineage or lineage_of(self._notes))
            return self._write()
        except RefoldError:
            raise
        except Exception as error:
            self._note_failure(error)
            if not self._is_announced and self._notes.note(OUTAGE) is None:
                # Another writer reached the witness, and removed the note.
                self._note_outage(self._unannounced)
            if len(known.noted) > NOTED_MAX:
                # They are in the log, which is read on when the witness is there again.
                known.noted, self._is_behind = [], True
            raise

    def _write(self) -> bool:
        known = self.known
        noted, known.noted = known.noted, []
        was_behind = self._is_behind
        changed: dict[int, SliceSeen] = {}
        try:
            for lane, events in _by_lane(noted):
                changed[lane] = self._add_events(lane, events)
            is_more = self._is_behind and self._catch_up(changed)
            if changed:
                self._hand_over(changed)
        except BaseException:
            known.noted[:0] = noted
            self._is_behind = was_behind
            raise
        return is_more

    def _state(self, lane: int) -> SliceEvidence:
        state = self.known.state(lane)
        assert state is not None, "the witness was asked"
        return state

    def _add_events(self, lane: int, events: Sequence[RecordedEvent]) -> SliceSeen:
        """Add committed events of a slice to its tree, and those of other writers before them."""
        state = self._state(lane)
        rows: list[SegmentRow] = []
        for recorded in events:
            number = recorded.position.number
            if number > state.count + 1:
                if self._is_behind:
                    break
                rows += self.known.read_on(lane, state, number - 1)
            if number == state.count + 1 and (row := state.add(recorded)) is not None:
                rows.append(row)
        self.known.keep(lane, rows)
        return state.seen()

    def _catch_up(self, changed: dict[int, SliceSeen]) -> bool:
        """Add a page of the events that were there before the store had a witness; return whether there are more."""
        left = READ_EVENTS
        for lane, end in self.known.log.now().heads:
            state = self._state(lane)
            until = min(end, state.count + left)
            if until > state.count:
                left -= until - state.count
                self.known.keep(lane, self.known.read_on(lane, state, until))
            # Or it was read before, and the witness could not be reached then.
            if state.count > self.known.seen.slices.get(lane, NOTHING_SEEN).events:
                changed[lane] = state.seen()
            if until < end:
                return True
        self._is_behind = False
        return False

    def _hand_over(self, changed: dict[int, SliceSeen]) -> None:
        seen = self.known.seen
        is_full = seen.since_full >= FULL_EVERY or not seen.checkpoints
        now = REAL_SYSTEM.monotonic()
        if seen.checkpoints and (is_full or (self.known.log.has_slices and now - self._looked_at >= LOOK_SECONDS)):
            # Others have opened and closed the store, and know more of the slices that they wrote to.
            fresh, self._looked_at = WitnessHistory(self.witness.entries()), now
            seen.writers = fresh.writers
            seen.slices = _newer_of(seen.slices, fresh.slices)
        all_slices = _newer_of(seen.slices, changed)
        named = all_slices if is_full else changed
        self._add(
            Checkpoint(
                lineage=seen.lineage,
                time=_now(),
                events=sum(one.events for one in all_slices.values()),
                root=root_over(all_slices).hex(),
                slices={str(lane): (one.events, one.root.hex(), one.sealed.hex()) for lane, one in named.items()},
                writer=self._writer,
                full=is_full,
                is_behind=self._is_behind,
                writers=[*seen.writers.values()] if is_full else (),
                note=f"with events of {self._outage}" if self._outage else "",
            )
        )
        # Only the last one is needed.
        del seen.checkpoints[:-1]
        self._written_at, self.failure = REAL_SYSTEM.monotonic(), ""
        if self._notes.note(OUTAGE):
            self._note_outage(None)
            self._outage = ""

    def look(self) -> None:
        """Hand over a checkpoint whose root is over all slices, if others wrote beside the writer of the last one."""
        if self.known.log.has_slices and not self.known.read_only:
            locked(self._stepping, self._look)

    def _look(self) -> None:
        seen = self.known.seen
        if not self._is_announced or self._is_closed or self.failure:
            return
        try:
            fresh = WitnessHistory(self.witness.entries())
            seen.writers, seen.slices = fresh.writers, _newer_of(seen.slices, fresh.slices)
            if fresh.last is not None and fresh.last.root != root_over(seen.slices).hex():
                self._hand_over({})
        except RefoldError:
            raise
        except Exception as error:
            self._note_failure(error)

    def sample(self, rows: Sequence[CatalogueRow]) -> None:
        """
        Compare one of the rows of the catalogue, drawn by chance, with the events of its context; at most one a second.

        Raises:
            TamperedError: it does not follow from them.
        """
        now, row = REAL_SYSTEM.monotonic(), random.choice(rows)
        if now - self._sampled_at < INTERVAL_SECONDS or row.version > SAMPLED_EVENTS_MAX:
            return
        self._sampled_at = now
        events = self._whole_log.read(row.key, until=row.version)
        if len(events) == row.version:
            try:
                folded = CATALOGUE.evolve_all(row.key, None, events)
            except Exception:
                # The projection cannot fold an event, and set it aside: its row was made without it.
                return
        if len(events) != row.version or folded != row:
            what = f"the row of {row.key} in the projection {CATALOGUE.name}"
            raise TamperedError(what, "it does not follow from the events", remedy=REBUILD)

    def accept(self, actor: str, reason: str) -> None:
        """Have the witness begin anew with the store as it is; its earlier entries stay, and count no more."""
        lineage = lineage_of(self._notes)
        with reaching(self.witness):
            self._add(Accepted(lineage=lineage, time=_now(), actor=actor, reason=reason))
            self._connect()
        self._is_behind = True

    def close(self) -> None:
        """Write the last checkpoint, and tell the witness that this process writes no more; may be called twice."""
        if self._is_closed:
            return
        self._work.close()
        try:
            self.write()
            locked(self._stepping, self._announce_end)
        finally:
            self._is_closed = True

    def _announce_end(self) -> None:
        if not self._is_announced or self.failure:
            return
        seen = self.known.seen
        try:
            others = self._ended_in(seen)
            if others:
                # They may have written an entry since.
                others = self._ended_in(WitnessHistory(self.witness.entries()))
            # A writer that was killed may have left events, and nobody else reads them before they are taken for
            # forged.
            self._is_behind = self._is_behind or bool(others)
            self.write()
            # Perhaps nobody writes to the store again, and each event is to be proved.
            self.look()
            if self.failure:
                return
            for writer in (*others, self._writer):
                self._add(WriterClosed(lineage=seen.lineage, time=_now(), writer=writer))
        except RefoldError:
            raise
        except Exception as error:
            self._note_failure(error)

    def _ended_in(self, seen: WitnessHistory) -> list[str]:
        now = REAL_SYSTEM.now()
        return [one.writer for one in seen.writers.values() if one.writer != self._writer and is_over(one, now)]


def _newer_of(slices: Mapping[int, SliceSeen], others: Mapping[int, SliceSeen]) -> dict[int, SliceSeen]:
    newer = {lane: one for lane, one in others.items() if lane not in slices or one.events > slices[lane].events}
    return {**slices, **newer}


def _now() -> str:
    return datetime.fromtimestamp(REAL_SYSTEM.now(), UTC).isoformat(timespec="milliseconds")


def _by_lane(noted: Sequence[Sequence[Receipt]]) -> list[tuple[int, list[RecordedEvent]]]:
    """Return the events of receipts by their slices, each in the order of positions."""
    lanes: dict[int, list[RecordedEvent]] = {}
    for receipts in noted:
        for receipt in receipts:
            for recorded in () if receipt.replayed else receipt.events:
                lanes.setdefault(recorded.position.slice, []).append(recorded)
    return [(lane, sorted(events, key=attrgetter("position.number"))) for lane, events in lanes.items()]
