"""A guard of a database: it is closed only when no thread uses it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eventsourcing.persistence import ProgrammingError

from ...domain.errors import StorageClosedError


class _Presence(threading.local):
    """Whether the present thread is at work, and whether it writes."""

    depth = 0
    writes = False


class ClosingGuard:
    """
    Notes which threads are at work; `close` is what to do at the end, and must itself wait for those of others.

    With `is_single` there is one connection for all.
    """

    def __init__(self, where: str, close: Callable[[], None], *, is_single: bool) -> None:
        self._where = where
        self._close = close
        self._is_single = is_single
        self._presence = _Presence()
        self._closing = False

    @contextmanager
    def at_work(self, *, writes: bool) -> Iterator[None]:
        """
        Note that this thread is at work.

        Raises:
            StorageClosedError: the database was closed.
            ProgrammingError: it would wait for itself.
        """
        me = self._presence
        if self._closing:
            raise StorageClosedError(f"{self._where} is closed: open it again")
        if writes and (me.writes or (me.depth and self._is_single)):
            raise ProgrammingError("this thread is in a transaction already: use that one's cursor")
        me.depth += 1
        me.writes = writes or me.writes
        try:
            yield
        finally:
            me.depth -= 1
            me.writes = me.writes and not writes
            if self._closing and not me.depth:
                self._close()

    def close(self) -> None:
        """
        Take nothing more, and close; may be called twice.

        Called by a thread that is itself at work (a finaliser may run anywhere), it is done at the work's end.
        """
        self._closing = True
        if not self._presence.depth:
            self._close()
