"""
The look for erasures by other processes: soon after one, this process drops what it remembers of the log.

One thread of the process does it for all open logs, with one short query each. It is not there while the process forks.
"""

from __future__ import annotations

import logging
import threading
from typing import Protocol
from weakref import WeakKeyDictionary

from ...domain.concurrency.locks import pause_for_forks
from ...domain.concurrency.threads import start_if_possible
from ...domain.erasure.looking import look
from ...domain.errors import RefoldError, StorageClosedError

# Texts that another process erases leave this one after so long at most, and the look itself. None: no look is taken.
LOOK_SECONDS: float | None = 5.0
LOGGER = logging.getLogger("refold")


class Watched(Protocol):
    """A log that other processes write, too."""

    def head(self, stream: str) -> int:
        """Return the version of the last event of a stream."""

    def forget(self) -> None:
        """Drop the events that are kept in memory."""


class ErasureWatch:
    """Looks at logs from time to time, as long as they are open."""

    def __init__(self) -> None:
        self._logs: WeakKeyDictionary[Watched, None] = WeakKeyDictionary()
        self._thread: threading.Thread | None = None
        self._ending: threading.Event
        pause_for_forks(self)

    def add(self, log: Watched) -> None:
        """Look at a log from now on."""
        self._logs[log] = None
        self._start()

    def discard(self, log: Watched) -> None:
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
                # It is tried again, and whoever uses the log meets the same error.
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
