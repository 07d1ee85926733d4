"""
Threads: calls of sync code from async code, and threads that work in the background.

Work that waits for a disk runs in a thread with the caller's context variables, so the event loop goes on meanwhile and
`acting` applies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


def start_if_possible(thread: threading.Thread) -> None:
    """Start a thread. At the end of a program nothing is started: since Python 3.12 no thread starts there."""
    with suppress(RuntimeError):
        thread.start()


async def in_thread(call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """
    Run `call` in a thread and return what it returns.

    A caller that is cancelled, however often, still waits for the end: the thread cannot be stopped, and must not work
    on behind it.
    """
    # The import of asyncio takes a third of the time of `import refold`, and sync users never need it.
    import asyncio

    # As `asyncio.to_thread` does it, but without a task around the future: that costs 20 us and a round of the loop.
    within = partial(copy_context().run, call, *args, **kwargs)
    work = asyncio.get_running_loop().run_in_executor(None, within)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        if not work.cancelled():
            # No other code will read the result.
            work.exception()
        raise
