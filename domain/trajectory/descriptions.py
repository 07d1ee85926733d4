"""
Tasks that ask a model for descriptions, in threads that do not delay the end of a program.

Python waits for the threads of a pool when its loop, or the interpreter, ends. A model may take minutes to answer, or
never answer. So here each event loop and each blocking call has a thread of its own.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from ..concurrency.locks import keep_for_ever, locked, renew_in_child, synchronized
from ..errors import InvalidInputError
from ..spans import Ref

if TYPE_CHECKING:
    import asyncio

    Started = Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]


T = TypeVar("T")
Work = Callable[[Ref], Coroutine[Any, Any, None]]
logger = logging.getLogger("refold.trajectory")
THREAD_NAME = "refold-portraits"


class OwnLoop:
    """
    An event loop in a thread of its own, for code without an event loop.

    It runs as long as this object is referenced, so that the connections of a model can be used again.
    """

    def __init__(self) -> None:
        started: Started = Future()
        threading.Thread(target=_serve, args=(started,), daemon=True, name=THREAD_NAME).start()
        self.loop, stop = started.result()
        weakref.finalize(self, self.loop.call_soon_threadsafe, stop.set).atexit = False


def _serve(started: Started) -> None:
    # The import of asyncio takes a third of the time of `import refold`, and most runs have no portraits.
    import asyncio

    async def until_stopped() -> None:
        stop = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()

    asyncio.run(until_stopped())


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that runs in this thread, or None."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def in_daemon_thread(call: Callable[..., T], *args: Any) -> T:
    """Run `call` in a thread of its own, with the caller's context variables, and return what it returns."""
    import asyncio

    context, done = copy_context(), Future[T]()
    # A waiter that gives up must not cancel the work.
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            done.set_result(context.run(call, *args))
        except StopIteration as error:
            # A StopIteration cannot be raised out of an `await`: it would end the coroutine that awaits.
            done.set_exception(RuntimeError(f"StopIteration was raised: {error}"))
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=work, daemon=True, name=THREAD_NAME).start()
    return await asyncio.wrap_future(done)


class _Job:
    """The portrait of one node: the loop of its task, and the future that others wait for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        # A reference to the task: an event loop alone does not keep its task alive.
        self.task: asyncio.Task[None] | None = None
        self.over: Future[None] = Future()
        # A waiter that gives up must not cancel the work.
        self.over.set_running_or_notify_cancel()


class PortraitTasks:
    """The tasks of one run; all methods may be called from any thread."""

    def __init__(self) -> None:
        self._own: OwnLoop | None = None
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        # The tasks run in the parent process. If this process released the object, it would stop the parent's loop.
        if self._own is not None:
            keep_for_ever(self._own)
        self._lock = threading.Lock()
        self._jobs: dict[Ref, _Job] = {}
        self._own = None

    def start(self, refs: Iterable[Ref], work: Work) -> int:
        """Start `work` for each vertex that has no task, and return the number of these."""
        here = running_loop()
        jobs = self._noted(refs, here)
        for ref, job in jobs.items():
            if here is None:
                job.loop.call_soon_threadsafe(self._begin, ref, job, work)
            else:
                self._begin(ref, job, work)
        return len(jobs)

    @synchronized
    def _noted(self, refs: Iterable[Ref], here: asyncio.AbstractEventLoop | None) -> dict[Ref, _Job]:
        """Add a job for each vertex that has none."""
        self._drop_dead()
        new = [ref for ref in dict.fromkeys(refs) if ref not in self._jobs]
        jobs = {ref: _Job(here or self._own_loop()) for ref in new}
        self._jobs |= jobs
        return jobs

    async def wait(self, timeout: float | None) -> list[Ref]:
        """Wait for the tasks that run now; return the vertices whose tasks are not done after `timeout` seconds."""
        import asyncio

        jobs = self._under_way()
        ends = [asyncio.wrap_future(job.over) for job in jobs.values()]
        try:
            if ends:
                await asyncio.wait(ends, timeout=timeout)
        finally:
            for end in ends:
                # The wrapped future belongs to this loop, which may end before the task does.
                end.cancel()
        return _unfinished(jobs)

    def wait_here(self, timeout: float | None) -> list[Ref]:
        """
        `wait` for code without an event loop.

        Raises:
            InvalidInputError: a task runs in the loop of this thread, which would wait for itself.
        """
        jobs = self._under_way()
        here = running_loop()
        if any(job.loop is here for job in jobs.values()):
            raise InvalidInputError("portraits are made in this event loop: `await run.wait_portraits()` here")
        concurrent.futures.wait([job.over for job in jobs.values()], timeout)
        return _unfinished(jobs)

    @synchronized
    def _under_way(self) -> dict[Ref, _Job]:
        self._drop_dead()
        return dict(self._jobs)

    def _own_loop(self) -> asyncio.AbstractEventLoop:
        if self._own is None:
            self._own = OwnLoop()
        return self._own.loop

    def _begin(self, ref: Ref, job: _Job, work: Work) -> None:
        job.task = job.loop.create_task(work(ref))
        job.task.add_done_callback(lambda task: self._end(ref, job, task))

    def _end(self, ref: Ref, job: _Job, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            logger.error("a portrait could not be recorded, and can be asked for again", exc_info=error)
        locked(self._lock, self._forget, ref, job)
        job.over.set_result(None)

    def _forget(self, ref: Ref, job: _Job) -> None:
        if self._jobs.get(ref) is job:
            del self._jobs[ref]

    def _drop_dead(self) -> None:
        """Remove tasks whose loop was closed: they will never end."""
        for ref, job in list(self._jobs.items()):
            if job.loop.is_closed():
                del self._jobs[ref]
                job.over.set_result(None)


def _unfinished(jobs: dict[Ref, _Job]) -> list[Ref]:
    return [ref for ref, job in jobs.items() if not job.over.done()]
