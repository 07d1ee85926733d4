"""
The lock of a hook or a tool, which is an `asyncio.Lock` to whoever looks at it.

It is a module of its own, imported by those who make such a lock, so that `import refold` goes without asyncio.
"""

from __future__ import annotations

import asyncio
from typing import Literal

from .locks import CrossLoopLock


class LoopLock(CrossLoopLock, asyncio.Lock):
    """An `asyncio.Lock` for tasks of any event loop."""

    def locked(self) -> bool:
        """Return whether somebody holds the lock."""
        return self._holder is not None

    async def acquire(self) -> Literal[True]:
        """Wait until nobody else holds the lock, and hold it until `release()`."""
        await self._entered()
        return True

    def release(self) -> None:
        """
        Let go of the lock, whoever holds it.

        Raises:
            RuntimeError: nobody does.
        """
        if self._holder is None:
            raise RuntimeError("Lock is not acquired.")
        self._hand_on(self._holder)

    def __repr__(self) -> str:
        """Show whether it is held."""
        return f"LoopLock({'locked' if self.locked() else 'unlocked'})"
