"""
Threads that keep nobody from ending: one with an event loop, and one for a single call.

A thread of a pool is waited for when its loop, or the interpreter, ends. A model may take minutes to answer, or never.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

    Started = Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]

T = TypeVar("T")
THREAD_NAME = "refold-portraits"


class OwnLoop:
    """
    An event loop in a thread of its own, for those who have none.

    It is there until nobody holds this object any more, so that the connections of a model can be used again.
    """

    def __init__(self) -> None:
        started: Started = Future()
        threading.Thread(target=_serve, args=(started,), daemon=True, name=THREAD_NAME).start()
        self.loop, stop = started.result()
        weakref.finalize(self, self.loop.call_soon_threadsafe, stop.set).atexit = False


def _serve(started: Started) -> None:
    # asyncio takes a third of the time of `import refold`, and most runs have no portraits.
    import asyncio

    async def until_stopped() -> None:
        stop = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()

    asyncio.run(until_stopped())


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, if one does."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def in_daemon_thread(call: Callable[..., T], *args: Any) -> T:
    """Run `call` in a thread of its own, with the caller's context variables, and return what it returns."""
    import asyncio

    context, done = copy_context(), Future[T]()
    # So that whoever stops waiting does not take back what is under way.
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            done.set_result(context.run(call, *args))
        except StopIteration as error:
            # Which cannot be raised out of an `await`, since it would end the one who awaits.
            done.set_exception(RuntimeError(f"StopIteration was raised: {error}"))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, daemon=True, name=THREAD_NAME).start()
    return await asyncio.wrap_future(done)
