"""
Places for the tasks of several event loops.

A lock or a semaphore of asyncio belongs to the event loop that first waited for it, so one that is kept after
`asyncio.run` fails in the next loop. Pools, hooks and runs live longer than a loop, and may be shared by the loops of
several threads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from .locks import renew_in_child, synchronized
from .threads import running_loop, wait_while_checking, wake

if TYPE_CHECKING:
    import asyncio


class Semaphore:
    """Places for `count` tasks at once; other tasks wait, and get a place in the order in which they came."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        # Held for a few lines at a time and never during an `await`, so it cannot block a loop.
        self._lock = threading.Lock()
        # In a forked child, tasks of the parent's loops do not go on.
        self._taken: set[asyncio.Future[None]] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Wait for a place, and hold it during the block."""
        ticket = await self._entered()
        try:
            yield
        finally:
            self._leave(ticket)

    async def _entered(self) -> asyncio.Future[None]:
        """Wait for a place, and return the ticket of the task that has it."""
        ticket = running_loop().create_future()
        if not self._enter(ticket):
            try:
                await wait_while_checking(ticket, self._look)
            except BaseException:
                # It may have got the place in the moment when it stopped waiting.
                self._leave(ticket)
                raise
        return ticket

    @synchronized
    def _enter(self, ticket: asyncio.Future[None]) -> bool:
        """Return whether there is a place at once; else the ticket waits behind the others."""
        self._admit_waiting()
        if len(self._taken) < self.count:
            self._taken.add(ticket)
            return True
        self._waiting.append(ticket)
        return False

    @synchronized
    def _leave(self, ticket: asyncio.Future[None]) -> None:
        self._taken.discard(ticket)
        if ticket in self._waiting:
            self._waiting.remove(ticket)
        self._admit_waiting()

    @synchronized
    def _look(self) -> None:
        self._admit_waiting()

    def _admit_waiting(self) -> None:
        # A task whose loop was closed will never free its place.
        self._taken = {ticket for ticket in self._taken if not ticket.get_loop().is_closed()}
        while self._waiting and len(self._taken) < self.count:
            ticket = self._waiting.popleft()
            if wake(ticket):
                self._taken.add(ticket)


class CrossLoopLock(Semaphore):
    """A fair lock for tasks of any event loop in any thread: a semaphore with one place."""

    def __init__(self) -> None:
        super().__init__(1)
