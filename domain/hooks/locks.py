"""
A lock for the tasks of several event loops.

An `asyncio.Lock` belongs to the event loop that first waited for it, so a lock that is kept after `asyncio.run` fails
in the next loop. Queues, pools, hooks and tools live longer than a loop, and may be shared by the loops of several
threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..concurrency.locks import locked, renew_in_child, synchronized
from ..concurrency.threads import wake, woken

if TYPE_CHECKING:
    import asyncio


class CrossLoopLock:
    """A fair lock for tasks of any event loop in any thread."""

    def __init__(self) -> None:
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        # Held for a few lines at a time and never during an `await`, so it cannot block a loop.
        self._lock = threading.Lock()
        # In a forked child, tasks of the parent's loops do not go on.
        self._holder: asyncio.Future[None] | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Wait until the lock is free, and hold it during the block."""
        ticket = await self._entered()
        try:
            yield
        finally:
            self._hand_on(ticket)

    async def _entered(self) -> asyncio.Future[None]:
        """Wait for the lock, and return the ticket of its holder."""
        import asyncio

        ticket = asyncio.get_running_loop().create_future()
        if not self._take(ticket):
            try:
                await woken(ticket, self._look_after_holder)
            except BaseException:
                self._give_up(ticket)
                raise
        return ticket

    @synchronized
    def _take(self, ticket: asyncio.Future[None]) -> bool:
        # If the holder's loop was closed, its task will never pass the lock on.
        if self._holder is None or self._holder.get_loop().is_closed():
            self._holder = ticket
            return True
        self._waiting.append(ticket)
        return False

    def _give_up(self, ticket: asyncio.Future[None]) -> None:
        locked(self._lock, self._leave_queue, ticket)
        # The lock may have been passed to this task in the moment when it stopped waiting.
        self._hand_on(ticket)

    def _leave_queue(self, ticket: asyncio.Future[None]) -> None:
        if ticket in self._waiting:
            self._waiting.remove(ticket)

    @synchronized
    def _look_after_holder(self) -> None:
        if self._holder is not None and self._holder.get_loop().is_closed():
            # Its task will never pass the lock on, and nobody else may come.
            self._pass_on()

    @synchronized
    def _hand_on(self, ticket: asyncio.Future[None]) -> None:
        if self._holder is ticket:
            self._pass_on()

    def _pass_on(self) -> None:
        self._holder = None
        while self._waiting and self._holder is None:
            heir = self._waiting.popleft()
            if wake(heir):
                self._holder = heir
