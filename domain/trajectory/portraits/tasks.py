"""
The portraits of one run that are under way: one task for each node, in the loop of whoever asked for it.

Where no loop runs, the tasks get one in a thread of its own. Nobody has to wait for them: a loop or interpreter that
ends takes its tasks along, and what was not described then can be asked for again.
"""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ...errors import InvalidInputError
from ...locks import locked, synchronized
from ...process_forks import keep_for_ever, renew_in_child
from ...spans import Ref
from .daemons import OwnLoop, running_loop

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger("refold.trajectory")
Work = Callable[[Ref], Coroutine[Any, Any, None]]


class _Job:
    """The portrait of one node: the loop that its task runs in, and by what others learn that it is over."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        # A loop alone would not keep its task from being thrown away.
        self.task: asyncio.Task[None] | None = None
        self.over: Future[None] = Future()
        # So that whoever stops waiting does not take back what is under way.
        self.over.set_running_or_notify_cancel()


class PortraitTasks:
    """The tasks of one run; all methods may be called from any thread."""

    def __init__(self) -> None:
        self._own: OwnLoop | None = None
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        # What is under way is so in the parent, whose loop would be woken if it was let go of here.
        if self._own is not None:
            keep_for_ever(self._own)
        self._lock = threading.Lock()
        self._jobs: dict[Ref, _Job] = {}
        self._own = None

    def start(self, refs: Iterable[Ref], work: Work) -> int:
        """Start `work` for each vertex that none is under way for, and return for how many."""
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
        """Note a job for each vertex that has none."""
        self._drop_dead()
        new = [ref for ref in dict.fromkeys(refs) if ref not in self._jobs]
        jobs = {ref: _Job(here or self._own_loop()) for ref in new}
        self._jobs |= jobs
        return jobs

    async def wait(self, timeout: float | None) -> list[Ref]:
        """Wait for the tasks that are under way by now, and return those that still are when the time is over."""
        import asyncio

        jobs = self._under_way()
        ends = [asyncio.wrap_future(job.over) for job in jobs.values()]
        try:
            if ends:
                await asyncio.wait(ends, timeout=timeout)
        finally:
            for end in ends:
                # It belongs to this loop, which may be gone before the task is.
                end.cancel()
        return _unfinished(jobs)

    def wait_here(self, timeout: float | None) -> list[Ref]:
        """
        As `wait`, for those who cannot await.

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
        locked(self._lock, self._let_go, ref, job)
        job.over.set_result(None)

    def _let_go(self, ref: Ref, job: _Job) -> None:
        if self._jobs.get(ref) is job:
            del self._jobs[ref]

    def _drop_dead(self) -> None:
        """Let go of tasks whose loop was closed over their heads: they will never end."""
        for ref, job in list(self._jobs.items()):
            if job.loop.is_closed():
                del self._jobs[ref]
                job.over.set_result(None)


def _unfinished(jobs: dict[Ref, _Job]) -> list[Ref]:
    return [ref for ref, job in jobs.items() if not job.over.done()]
