"""
The lock of a hook or a tool, as an instance of `asyncio.Lock`.

It has a module of its own that is imported only where such a lock is made, so that `import refold` does not import
asyncio.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from ..concurrency.semaphore import CrossLoopLock


class LoopLock(CrossLoopLock, asyncio.Lock):
    """An `asyncio.Lock` for tasks of any event loop."""

    def locked(self) -> bool:
        """Return whether the lock is held."""
        return bool(self._taken)

    async def acquire(self) -> Literal[True]:
        """Wait until the lock is free, and hold it until `release()`."""
        await self._entered()
        return True

    def release(self) -> None:
        """
        Release the lock, whichever task holds it.

        Raises:
            RuntimeError: it is not held.
        """
        holder = next(iter(self._taken), None)
        if holder is None:
            raise RuntimeError("Lock is not acquired.")
        self._leave(holder)

    def __repr__(self) -> str:
        """Show whether it is held."""
        return f"LoopLock({'locked' if self.locked() else 'unlocked'})"
