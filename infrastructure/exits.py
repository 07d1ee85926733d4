"""
The end of a process that left stores open: queued events are flushed, and those that were not recorded are counted.

This works for the ends that Python notices: the end of the program, `sys.exit`, an unhandled exception, the end of a
worker of `multiprocessing`. It happens while threads that write are still alive.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary, finalize

from ..domain.clock import REAL_SYSTEM
from ..domain.concurrency.locks import renew_in_child
from ..domain.context.journal import Journal
from ..domain.errors import RefoldError

EXIT_SECONDS_MAX = 10.0
# After everything else that a worker does at its end.
LAST_PRIORITY = -1_000
Queues = set[Journal[Any]]


class _Exit:
    """The sets of journals with queued events to flush; each is kept as long as a context uses it."""

    def __init__(self) -> None:
        self._queues: WeakValueDictionary[int, Queues] = WeakValueDictionary()
        self._lost = 0
        self._worker = 0
        atexit.register(self.flush)
        renew_in_child(self)

    def add(self, queues: Queues) -> None:
        """Flush the journals of a set at the end of the process."""
        self._queues[id(queues)] = queues
        self._hook_worker()

    def _after_fork(self) -> None:
        # `multiprocessing` has its own list of calls for a child, which it empties before it looks for registered
        # objects.
        util = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(self, _Exit._hook_worker)

    def _hook_worker(self) -> None:
        """Make a worker of `multiprocessing`, which ends without `atexit`, flush too."""
        processes = sys.modules.get("multiprocessing.process")
        if processes is not None and processes.parent_process() is not None and self._worker != os.getpid():
            from multiprocessing.util import Finalize

            self._worker = os.getpid()
            Finalize(None, self.flush, exitpriority=LAST_PRIORITY)

    def flush(self) -> None:
        """Flush all for at most EXIT_SECONDS_MAX, and print to stderr how many events were not recorded."""
        journals = self._journals()
        if not journals:
            return
        self._lost = 0
        try:
            self._flush_in_time(journals)
        finally:
            lost = self._lost + sum(journal.queued for journal in self._journals())
            if lost and sys.stderr is not None:
                print(f"refold: {lost:,} queued events are not recorded: close the store, or flush it", file=sys.stderr)

    def _flush_in_time(self, journals: list[Journal[Any]]) -> None:
        # A disk or a server may not answer, and threads that wait for it cannot be interrupted.
        thread = threading.Thread(target=self._flush, args=(journals,), name="refold-exit", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No thread starts at the end of a program since Python 3.12. The writing thread runs already, and this one
            # waits for it until the deadline.
            self._flush(journals, REAL_SYSTEM.monotonic() + EXIT_SECONDS_MAX)
        else:
            thread.join(EXIT_SECONDS_MAX)

    def _journals(self) -> list[Journal[Any]]:
        # `valuerefs` is one step for other threads, which may still open stores.
        kept = [queues for held in self._queues.valuerefs() if (queues := held()) is not None]
        return [journal for queues in kept for journal in list(queues)]

    def _flush(self, journals: list[Journal[Any]], deadline: float | None = None) -> None:
        for journal in journals:
            queued = journal.queued
            try:
                journal.flush(deadline)
            except TimeoutError:
                # Its events are still queued, and are counted so.
                continue
            except RefoldError as error:
                self._lost += len(getattr(error, "refused", ())) or queued


def warn_of_unclosed(store: object, where: str) -> finalize[..., Any]:
    """
    Emit a ResourceWarning if a store is collected, or the process ends, before the returned finalizer is detached.
    """
    return finalize(store, _warn, where, os.getpid())


def _warn(where: str, process: int) -> None:
    # A forked child has nothing to close.
    if os.getpid() == process:
        warnings.warn(f"the store {where} was not closed: open it in a `with` block", ResourceWarning, stacklevel=3)


flush_at_exit = _Exit().add


def flush_all(queues: Queues) -> None:
    """
    Wait until all queued events of a set of journals are on disk.

    Raises:
        RefoldError: events were refused; it has those of all contexts as `refused`.
    """
    failures: list[RefoldError] = []
    for journal in list(queues):
        try:
            journal.flush()
        except RefoldError as error:
            failures.append(error)
    if failures:
        # One error is raised; it lists all events that were not recorded, of every context.
        failures[0].refused = tuple(event for failure in failures for event in failure.refused)
        raise failures[0]


def flush_behind(queues: Queues) -> Callable[[object, BaseException | None, object], None]:
    """
    Return the end of a block that closes a log: it flushes what other threads queued after the flush in the block.

    An error of the block gets the events that the log refused, too.
    """

    def flush(_kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            flush_all(queues)
        except RefoldError as failure:
            if not isinstance(error, RefoldError):
                raise
            error.refused = (*error.refused, *failure.refused)

    return flush
