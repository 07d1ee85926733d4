"""
Leases and crews: which process works on what; if one is killed, another process soon takes over.

A lease is a note that its holder changes every BEAT_SECONDS. A process that wants the lease watches the note. If the
note stays the same for TAKE_OVER_SECONDS, the lease is free. So the clocks of two processes are never compared.

Workers share the projections that they keep up to date. Each worker has one such note, whatever it works on, and reads
the notes of the others. It computes its share from the notes alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...domain.clock import Stopwatch
from ...domain.concurrency.locks import renew_in_child
from ...projections.contract import PartitionableProjection, PositionalProjection, Projection
from .store import ProjectionStore

BEAT_SECONDS = 0.5
TAKE_OVER_SECONDS = 3.0
MEMBER = "worker/"
# Python refuses to parse a number of thousands of digits, and no worker has such a place.
_PLACE = re.compile("[0-9]{1,18}")


class Lease:
    """The exclusive right of one worker to work on something, as long as it calls `hold` regularly."""

    def __init__(self, store: ProjectionStore, name: str, watch: Stopwatch) -> None:
        self._store, self._watch = store, watch
        self._note = f"lease/{name}"
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        # A child process does not hold the lease of its parent.
        self._owner = f"{os.getpid()}.{os.urandom(4).hex()}"
        self._beat = 0
        # The value that this worker last wrote to the note, and when; None while it does not hold the lease.
        self._held: str | None = None
        self._held_at = 0.0
        self._seen: str | None = None
        self._seen_at = 0.0

    def hold(self) -> bool:
        """Take the lease, or renew it; return whether this worker holds it."""
        now = self._watch.monotonic()
        if self._held is not None:
            return now - self._held_at < BEAT_SECONDS or self._write(self._held, now)
        seen = self._store.note(self._note)
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        is_free = seen is None or now - self._seen_at > TAKE_OVER_SECONDS
        return is_free and self._write(seen, now)

    def _write(self, before: str | None, now: float) -> bool:
        self._beat += 1
        mine = f"{self._owner}.{self._beat}"
        is_mine = self._store.set_note(self._note, before=before, after=mine)
        self._held, self._held_at = (mine if is_mine else None), now
        return is_mine

    def release(self) -> None:
        """Release the lease, so that others need not wait."""
        if self._held is not None:
            self._store.set_note(self._note, before=self._held, after=None)
            self._held = None


def holder_of(store: ProjectionStore, name: str) -> str | None:
    """Return the process that holds a lease, as `PID.ID`, also if it was killed since; None if nobody holds it."""
    held = store.note(f"lease/{name}")
    return None if held is None else held.rpartition(".")[0]


class Member(NamedTuple):
    """A worker as its note shows it: its place in the order in which workers came, and its projections."""

    place: int
    id: str
    names: tuple[str, ...]


class Crew:
    """The workers of a store, seen by one of them."""

    def __init__(self, store: ProjectionStore, names: Iterable[str], watch: Stopwatch) -> None:
        self._store, self._watch = store, watch
        self._names = sorted(names)
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        # A child process is another worker than its parent.
        self._id = f"{os.getpid()}.{os.urandom(4).hex()}"
        self._place = self._beat = 0
        self._noted: str | None = None
        self._noted_at = 0.0
        # The notes of the others, and since when each of them is as it is.
        self._seen: dict[str, tuple[str, float]] = {}
        # All workers, in the order in which they came.
        self.members: tuple[Member, ...] = ()

    def hold(self) -> bool:
        """
        Join, or renew the note of this worker; read the notes of the others.

        Returns False if the others took this worker for dead; the next call joins again.
        """
        now = self._watch.monotonic()
        if self._noted is not None and now - self._noted_at < BEAT_SECONDS:
            return True
        others = self._others(now)
        if self._noted is None:
            # It comes last, so that the workers that are there go on with their work.
            self._place = 1 + max((one.place for one in others), default=0)
        self._beat += 1
        note = f"{self._place} {self._beat} {' '.join(self._names)}"
        is_mine = self._store.set_note(MEMBER + self._id, before=self._noted, after=note)
        if not is_mine:
            self._after_fork()
            return False
        self._noted, self._noted_at = note, now
        me = Member(self._place, self._id, tuple(self._names))
        self.members = tuple(sorted([*others, me]))
        return True

    def _others(self, now: float) -> list[Member]:
        """Return the other workers that are alive, and remove the notes of those that are not."""
        notes = self._store.notes(MEMBER)
        notes.pop(MEMBER + self._id, None)
        self._seen = {
            name: seen if (seen := self._seen.get(name)) and seen[0] == note else (note, now)
            for name, note in notes.items()
        }
        alive = {name: note for name, (note, since) in self._seen.items() if now - since <= TAKE_OVER_SECONDS}
        for name in notes.keys() - alive.keys():
            self._store.set_note(name, before=notes[name], after=None)
        return _members(alive)

    def share(self, projection: Projection) -> frozenset[int]:
        """Return the groups of slices, by number, in which this worker keeps a projection up to date."""
        workers = workers_on(self.members, self._store, projection)
        parts = parts_of(self._store, projection)
        return frozenset(number for number in range(parts) if workers[number % len(workers)] == self._id)

    def release(self) -> None:
        """Leave, so that the others need not wait."""
        if self._noted is not None:
            self._store.set_note(MEMBER + self._id, before=self._noted, after=None)
            self._noted = None


def parts_of(store: ProjectionStore, projection: Projection) -> int:
    """Return into how many groups of slices workers may divide a projection; 1 if it cannot be divided."""
    stays = isinstance(projection, PartitionableProjection) and projection.stays_in_slice
    return store.groups if stays or isinstance(projection, PositionalProjection) else 1


def members_of(store: ProjectionStore) -> list[Member]:
    """Return the workers of a store, in the order in which they came; also those that were killed since."""
    return sorted(_members(store.notes(MEMBER)))


def workers_on(members: Iterable[Member], store: ProjectionStore, projection: Projection) -> list[str]:
    """Return the ids (`PID.ID`) of those workers that keep a projection up to date."""
    ids = [one.id for one in members if projection.name in one.names]
    return ids[: parts_of(store, projection)]


def _members(notes: Mapping[str, str]) -> list[Member]:
    members = []
    for name, note in notes.items():
        place, _, rest = note.partition(" ")
        if _PLACE.fullmatch(place):
            members.append(Member(int(place), name.removeprefix(MEMBER), tuple(rest.split()[1:])))
    return members
