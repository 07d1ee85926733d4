"""So many at once, whichever event loops they run in: what `CrossLoopLock` is for one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ...process_forks import renew_in_child

if TYPE_CHECKING:
    import asyncio

from ...locks import locked, synchronized


class Places:
    """Room for `count` tasks at once; others wait, and get in in the order in which they came."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        # Held for a few lines at a time and never while awaiting, so it cannot block a loop.
        self._lock = threading.Lock()
        # Tasks of the parent's loops do not go on in a child.
        self._taken: set[asyncio.Future[None]] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Wait for a place, and hold it for the block."""
        import asyncio

        ticket = asyncio.get_running_loop().create_future()
        locked(self._lock, self._enter, ticket)
        try:
            await ticket
            yield
        finally:
            self._leave(ticket)

    def _enter(self, ticket: asyncio.Future[None]) -> None:
        self._waiting.append(ticket)
        self._let_in()

    @synchronized
    def _leave(self, ticket: asyncio.Future[None]) -> None:
        self._taken.discard(ticket)
        if ticket in self._waiting:
            self._waiting.remove(ticket)
        self._let_in()

    def _let_in(self) -> None:
        # A task of a loop that was closed over its head will never leave.
        self._taken = {ticket for ticket in self._taken if not ticket.get_loop().is_closed()}
        while self._waiting and len(self._taken) < self.count:
            ticket = self._waiting.popleft()
            try:
                ticket.get_loop().call_soon_threadsafe(_wake, ticket)
            except RuntimeError:
                # Its loop was closed while it waited.
                continue
            self._taken.add(ticket)


def _wake(ticket: asyncio.Future[None]) -> None:
    if not ticket.done():
        ticket.set_result(None)
