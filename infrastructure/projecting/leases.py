"""
Leases: one process at a time works on a projection; if it is killed, another process soon takes over.

A lease is a note that its holder changes every BEAT_SECONDS. A process that wants the lease watches the note. If the
note stays the same for TAKE_OVER_SECONDS, the lease is free. So the clocks of two processes are never compared.
"""

from __future__ import annotations

import os
import uuid

from ...domain.clock import Stopwatch
from ...domain.concurrency.locks import renew_in_child
from .store import ProjectionStore

BEAT_SECONDS = 0.5
TAKE_OVER_SECONDS = 3.0


class Lease:
    """The exclusive right of one worker to work on something, as long as it calls `hold` regularly."""

    def __init__(self, store: ProjectionStore, name: str, watch: Stopwatch) -> None:
        self._store, self._watch = store, watch
        self._note = f"lease/{name}"
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        # A child process does not hold the lease of its parent.
        self._owner = f"{os.getpid()}.{uuid.uuid4().hex[:8]}"
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
