"""A gate that is open or closed, for whoever comes by in any event loop."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


class Gate:
    """
    Holds up one task while it is closed.

    An `asyncio.Event` would belong to the first loop that waited for it, and could be set in its thread only.
    """

    def __init__(self) -> None:
        self.is_closed = False
        self._waiting: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None

    def close(self) -> None:
        """Hold up who comes by; closing a closed gate is fine."""
        self.is_closed = True

    def open(self) -> None:
        """Let through who waits; opening an open gate is fine."""
        self.is_closed = False
        # Read once: whoever waits may go on in another thread at this moment.
        waiting = self._waiting
        if waiting is not None:
            loop, opened = waiting
            # Nobody waits any more in a loop that was closed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(opened.set)

    async def passed(self) -> None:
        """Wait until the gate is open."""
        import asyncio

        try:
            while self.is_closed:
                opened = asyncio.Event()
                self._waiting = asyncio.get_running_loop(), opened
                # It may have been opened between the question and the event.
                if self.is_closed:
                    await opened.wait()
        finally:
            self._waiting = None
