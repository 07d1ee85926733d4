"""
Housekeeping in its own thread, which starts when it is first needed, sleeps when there is no work, and ends with
`close`; the snapshots of a log, which such a thread stores; and a thread that looks for erasures by other processes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import cache
from time import monotonic
from typing import Protocol
from weakref import WeakKeyDictionary

from ...domain.concurrency.locks import News, locked, pause_for_forks, renew_in_child
from ...domain.concurrency.threads import start_if_possible
from ...domain.erasure.foreign_erasures import look
from ...domain.errors import RefoldError, StorageClosedError, StorageReadOnlyError
from ...domain.log.envelope import Chain
from .evidence import Evidence

# The next process that writes does the work that is left.
CLOSING_SECONDS_MAX = 5.0
# An agent pauses for longer than this while its model thinks.
QUIET_SECONDS = 0.05
# Work that is not pressing rests this many times as long as it worked.
REST_FACTOR = 6
# A standby may become a server that is written to, and a user may get the right.
READ_ONLY_SECONDS = 60.0
# Seconds between two looks for erasures by other processes. This one forgets their texts so late at most. None: never.
LOOK_SECONDS: float | None = 5.0
LOGGER = logging.getLogger("refold")


class BackgroundWork:
    """
    Calls `step` whenever it is woken, until `step` returns False.

    This thread shares the interpreter with the threads that append, so it waits until they pause: `pulse` is a number
    that changes while they are busy. If `is_pressing` returns true, it works while they are busy, too, and rests half
    of the time.

    Housekeeping saves space or time; no answer depends on it. When it fails, it logs a warning and tries again the next
    time it is woken.
    """

    def __init__(
        self,
        step: Callable[[], bool],
        what: str,
        *,
        pulse: Callable[[], int],
        is_pressing: Callable[[], bool] = lambda: False,
    ) -> None:
        self._step = step
        self._what = what
        self._pulse = pulse
        self._is_pressing = is_pressing
        self._seen: int | None = None
        self._closing = False
        self._deadline = float("inf")
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        self._woken = News()
        self._hurried = News()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Announce that there may be work."""
        self._woken.announce()
        if self._thread is None or not self._thread.is_alive():
            locked(self._starting, self._start)

    def close(self) -> bool:
        """Finish the work in at most CLOSING_SECONDS_MAX and end the thread; return whether there was a thread."""
        thread = locked(self._starting, self._begin_closing)
        # A thread whose start was interrupted never ran.
        if thread is not None and thread.is_alive():
            self._hurried.announce()
            self._woken.announce()
            thread.join()
        return thread is not None

    def _begin_closing(self) -> threading.Thread | None:
        self._closing = True
        self._deadline = monotonic() + CLOSING_SECONDS_MAX
        return self._thread

    def _start(self) -> None:
        if (self._thread is None or not self._thread.is_alive()) and not self._closing:
            self._thread = threading.Thread(target=self._run, name="refold-housekeeping", daemon=True)
            # At the end of a program the next process does the work.
            start_if_possible(self._thread)

    def _run(self) -> None:
        seen = 0
        while True:
            while self._woken.count == seen:
                self._woken.wait_past(seen, timeout_seconds=threading.TIMEOUT_MAX)
            seen = self._woken.count
            self._work()
            if self._closing:
                return

    def _work(self) -> None:
        try:
            while monotonic() < self._deadline:
                self._wait_for_quiet()
                begun = monotonic()
                if not self._step():
                    return
                # Work that is not pressing must not slow down others: it rests most of the time, except while closing.
                rest = 1 if self._is_pressing() else REST_FACTOR
                self._hurried.wait_past(0, timeout_seconds=rest * (monotonic() - begun))
        except StorageClosedError:
            # The database was closed while this thread worked, so no more work is needed.
            self._closing = True
        except Exception as error:
            LOGGER.warning("%s failed and will be tried again: %s", self._what, error)

    def _wait_for_quiet(self) -> None:
        """Return at once if the pulse has not changed since the last call; else once it has not changed for a while."""
        while not self._hurried.count and not self._is_pressing():
            pulse = self._pulse()
            if pulse == self._seen:
                return
            self._seen = pulse
            self._hurried.wait_past(0, timeout_seconds=QUIET_SECONDS)


class WaitingSnapshots:
    """
    The snapshots that are not stored yet, by stream; `store` stores one, `pulse` as for `BackgroundWork`.

    They are packed by the thread that stores them, or by a caller that opens the stream again before that.

    No answer depends on them: those that wait when the process ends are lost. Where a database may only be read, as by
    a user without the right or on a standby, none waits, and storing is tried again after READ_ONLY_SECONDS.
    """

    def __init__(self, where: str, store: Callable[[str, bytes], None], pulse: Callable[[], int]) -> None:
        self._store = store
        self._waiting: dict[str, Callable[[], bytes | None]] = {}
        self._refused_until = 0.0
        self._storing = BackgroundWork(self._store_one, f"storing snapshots in {where}", pulse=pulse)

    def put(self, stream: str, pack: Callable[[], bytes | None]) -> None:
        """Store later what `pack` returns."""
        # Each holds the state of its stream.
        if monotonic() >= self._refused_until:
            self._waiting[stream] = cache(pack)
            self._storing.wake()

    def get(self, stream: str) -> bytes | None:
        pack = self._waiting.get(stream)
        return None if pack is None else pack()

    def _store_one(self) -> bool:
        # Another thread may put one at any time, so there is no loop over the dict.
        stream = next(iter([*self._waiting]), None)
        if stream is None:
            return False
        pack = self._waiting[stream]
        try:
            packed = pack()
        except BaseException:
            # It would fail again, and others wait behind it.
            self._drop(stream, pack)
            raise
        if packed is not None:
            try:
                self._store(stream, packed)
            except StorageReadOnlyError:
                self._refused_until = monotonic() + READ_ONLY_SECONDS
                self._waiting.clear()
                raise
        self._drop(stream, pack)
        return bool(self._waiting)

    def _drop(self, stream: str, pack: Callable[[], bytes | None]) -> None:
        if self._waiting.get(stream) is pack:
            del self._waiting[stream]

    def close(self) -> None:
        """Store those that wait, for some seconds at most."""
        self._storing.close()


class SnapshotTable(Protocol):
    """The stored snapshots of a database."""

    def read(self, stream: str) -> bytes | None:
        """Return the snapshot of a stream, if there is one."""

    def store(self, stream: str, packed: bytes) -> None:
        """Store the snapshot of a stream; there is none for a stream that is gone."""

    def streams(self) -> list[str]:
        """Return the streams that have one."""


class LogSnapshots:
    """The snapshots of one log; `pulse` is a number that changes while the log is busy."""

    def __init__(
        self, table: SnapshotTable, chain: Chain, where: str, pulse: Callable[[], int], *, read_only: bool
    ) -> None:
        self.table, self._chain, self._read_only = table, chain, read_only
        self.evidence: Evidence | None = None
        self._waiting = WaitingSnapshots(where, self._store, pulse)

    def read(self, stream: str) -> bytes | None:
        """Return the snapshot of a stream; None if there is none, or none with the evidence that this log asks for."""
        waiting = self._waiting.get(stream)
        if waiting is not None:
            return waiting
        stored = self.table.read(stream)
        packed = None if stored is None else self._chain.snapshot_in(stream, stored)
        is_own = packed is not None and (self.evidence is None or self.evidence.is_authentic(stream, packed))
        return packed if is_own else None

    def keep(self, stream: str, pack: Callable[[], bytes | None]) -> None:
        """Store later what `pack` returns."""
        if not self._read_only:
            self._waiting.put(stream, pack)

    def _store(self, stream: str, packed: bytes) -> None:
        if self.evidence is not None:
            self.evidence.note_snapshot(stream, packed)
        self.table.store(stream, self._chain.stored_snapshot(stream, packed))

    def close(self) -> None:
        """Store those that wait, for some seconds at most."""
        self._waiting.close()


class SharedLog(Protocol):
    """A log that other processes write, too."""

    def head(self, stream: str) -> int:
        """Return the version of the last event of a stream."""

    def forget(self) -> None:
        """Drop the events that are kept in memory."""


class ErasureWatch:
    """
    Looks for erasures by other processes in logs that are open: soon after one, this process drops what it remembers.

    One thread of the process does it for all of them, with one short query each. It is ended before the process forks,
    and started again after that.
    """

    def __init__(self) -> None:
        self._logs: WeakKeyDictionary[SharedLog, None] = WeakKeyDictionary()
        self._thread: threading.Thread | None = None
        self._ending: threading.Event
        pause_for_forks(self)

    def add(self, log: SharedLog) -> None:
        """Look at a log from now on."""
        self._logs[log] = None
        self._start()

    def discard(self, log: SharedLog) -> None:
        """Look at a log no longer."""
        self._logs.pop(log, None)

    def look(self) -> None:
        """Look at all logs now."""
        # `keyrefs` is one step for other threads, which open logs meanwhile.
        for held in self._logs.keyrefs():
            log = held()
            if log is None or log not in self._logs:
                continue
            try:
                look(log)
            except StorageClosedError:
                self.discard(log)
            except RefoldError as error:
                # It is tried again, and callers that use the log get the same error.
                LOGGER.debug("erasures in a log could not be looked for: %s", error)

    def _start(self) -> None:
        if LOOK_SECONDS is not None and (self._thread is None or not self._thread.is_alive()):
            self._ending = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._ending,), name="refold-erasures", daemon=True)
            start_if_possible(self._thread)

    def _run(self, ending: threading.Event) -> None:
        while not ending.wait(LOOK_SECONDS):
            self.look()

    def _before_fork(self, seconds: float) -> None:
        if self._thread is not None and self._thread.is_alive():
            self._ending.set()
            self._thread.join(seconds)

    def _fork_is_over(self) -> None:
        self._thread = None
        if self._logs:
            self._start()


ERASURE_WATCH = ErasureWatch()
