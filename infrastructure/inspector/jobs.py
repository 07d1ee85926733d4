"""
Work that takes longer than a request: rebuilds, comparisons, and the check of the whole store.

Each job has a thread, and the name of its projection, or STORE. The page gets its progress with the news. A job keeps
nothing that must not be lost: if the server dies, the rows in use are as they were, and the next rebuild continues.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextvars import copy_context
from secrets import token_urlsafe
from typing import Any, Literal, NamedTuple

import msgspec

from ...domain.concurrency.locks import synchronized
from ...domain.errors import InvalidInputError, NotFoundError, ProjectionError, RefoldError
from ...domain.log.gate import gate_of
from ..projecting.rebuild import RebuildReport
from ..projecting.shadow import Progress, RebuildProgress, Stop
from ..request_guard import INTERNAL, fault_in_words
from ..store import Store
from ..verifying import Report
from ..views.answer_shapes import report_shape
from ..views.shapes import Shape
from .parameters import Parameters

log = logging.getLogger(__name__)
# The name of the job that checks the whole store; no projection can have it.
STORE = "*"
# A damaged store may have a problem for each event.
PROBLEMS_MAX = 200
# How long the end of the server waits for jobs to stop at the end of their page.
END_SECONDS = 1.0

State = Literal["running", "done", "stopped", "failed"]
Result = tuple[bool, Shape | None]
Work = Callable[[Progress, Stop], Result]


class Job:
    """A job: its kind, its state, its progress, and its report or its error when it is over."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind, self.id = name, kind, token_urlsafe(6)
        self.state: State = "running"
        self.progress: RebuildProgress | None = None
        self.report: Shape | None = None
        self.error: Shape | None = None
        self.stop = threading.Event()
        self.thread: threading.Thread | None = None
        # Rises with each change of any job.
        self.number = 0

    def shape(self) -> Shape:
        """Return it as plain data."""
        now = self.progress
        return {
            "id": self.id, "number": self.number, "name": self.name, "kind": self.kind, "state": self.state,
            "is_cancelled": self.stop.is_set(),
            "done": now.done if now else 0, "total": now.total if now else 0, "rate": now.rate if now else 0.0,
            "seconds_left": now.seconds_left if now and now.rate else None,
            "report": self.report, "error": self.error,
        }  # fmt: skip


class Jobs:
    """
    The jobs of a served store: for each name the one that was started last.

    `folding` is the progress of a question that must fold events first: how many of how many; None if there was none. A
    listener that the store had before is still called.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.folding: tuple[int, int] | None = None
        self._other_listener = store._runner.on_page
        store.on_folding(self._fold)
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._number = 0

    def _fold(self, done: int, total: int) -> None:
        self.folding = done, total
        if self._other_listener is not None:
            self._other_listener(done, total)

    def start(self, name: str, kind: str, work: Work, *, wait: bool = False) -> Shape:
        """
        Begin a job in a thread of its own, and `wait` for the end of one that is short.

        Raises:
            InvalidInputError: one of this name is running.
        """
        job = Job(name, kind)
        # In the context of the request, which says who acts. The thread ends with the process: nothing is lost then.
        run = copy_context().run
        job.thread = threading.Thread(target=run, args=(self._run, job, work), name=f"refold {kind}", daemon=True)
        self._begin(job, job.thread)
        if wait:
            job.thread.join()
        return job.shape()

    def _run(self, job: Job, work: Work) -> None:
        def tell(progress: RebuildProgress) -> None:
            self._change(job, progress=progress)

        try:
            is_done, report = work(tell, job.stop.is_set)
        except Exception as error:
            event = error.event if isinstance(error, ProjectionError) else None
            fault = {"error": type(error).__name__, "message": str(error), "event": event}
            is_own = not isinstance(error, RefoldError)
            if is_own:
                fault |= {"error": INTERNAL, "message": fault_in_words(job.kind, error)}
            log.log(logging.ERROR if is_own else logging.INFO, "a %s of %s failed", job.kind, job.name, exc_info=True)
            self._change(job, state="failed", error=fault)
        else:
            self._change(job, state="done" if is_done else "stopped", report=report)

    @synchronized
    def _begin(self, job: Job, thread: threading.Thread) -> None:
        """Start a job, and keep it in the place of the earlier job of its name, which must have ended."""
        before = self._jobs.get(job.name)
        if before is not None and before.state == "running":
            raise InvalidInputError(f"a {before.kind} of {job.name} is running: wait for its end, or cancel it")
        # This may fail, so it comes first. The thread cannot change the job before the lock is free.
        thread.start()
        self._jobs[job.name] = job
        self._count(job)

    @synchronized
    def _change(self, /, job: Job, **values: Any) -> None:
        for name, value in values.items():
            setattr(job, name, value)
        self._count(job)

    def _count(self, job: Job) -> None:
        self._number += 1
        job.number = self._number

    def require_admin(self) -> None:
        """
        Require that the present actor may see jobs, whose reports have rows of all contexts, and stop them.

        Raises:
            NotAllowedError: the actor may not.
        """
        if (gate := gate_of(self.store.log)) is not None:
            gate.require("admin", None)

    def cancel(self, name: str) -> Shape:
        """
        Have a job stop at the end of its page.

        Raises:
            NotAllowedError: the present actor may not.
            NotFoundError: there is none of this name.
        """
        self.require_admin()
        return self._cancelled(name)

    @synchronized
    def _cancelled(self, name: str) -> Shape:
        job = self._jobs.get(name)
        if job is None:
            raise NotFoundError(f"there is no job for {name!r}")
        job.stop.set()
        self._count(job)
        return job.shape()

    @synchronized
    def since(self, number: int) -> tuple[int, list[Shape]]:
        """Return the number of the newest change, and the jobs that changed after an older one."""
        changed = sorted((job for job in self._jobs.values() if job.number > number), key=lambda job: job.number)
        return self._number, [job.shape() for job in changed]

    def end(self) -> None:
        """Have all jobs stop, and wait a moment for them."""
        for thread in self._stopped():
            thread.join(END_SECONDS)

    @synchronized
    def _stopped(self) -> list[threading.Thread]:
        """Have all jobs stop, and return their threads."""
        for job in self._jobs.values():
            job.stop.set()
        return [job.thread for job in self._jobs.values() if job.thread is not None]


class Action(NamedTuple):
    """
    An action that the page asks for: its function, a line about it, and its fields, each with a line about it.

    The function gets the jobs of the store, which have the store. An action that changes the store `needs_token`.
    """

    make: Callable[[Jobs, Parameters], Shape]
    about: str
    fields: Mapping[str, str]
    needs_token: bool = True


def _projection(jobs: Jobs, given: Parameters) -> str:
    return jobs.store._runner.named(given.required("name")).name


def _rebuild(jobs: Jobs, given: Parameters) -> Shape:
    name, restart = _projection(jobs, given), given.text("restart") is not None

    def work(progress: Progress, stop: Stop) -> Result:
        return _outcome(jobs.store.rebuild(name, restart=restart, progress=progress, stop=stop, swap=False))

    return jobs.start(name, "rebuild", work)


def _swap(jobs: Jobs, given: Parameters) -> Shape:
    name = _projection(jobs, given)
    if not any(one.rebuilt for one in jobs.store.projections() if one.name == name):
        raise InvalidInputError(f"there are no new rows of {name}: rebuild it first")
    return jobs.start(
        name, "swap", lambda progress, stop: _outcome(jobs.store.rebuild(name, progress=progress, stop=stop))
    )


def _check(jobs: Jobs, given: Parameters) -> Shape:
    name = _projection(jobs, given)
    return jobs.start(
        name, "check", lambda progress, stop: _outcome(jobs.store.check(name, progress=progress, stop=stop))
    )


def _discard(jobs: Jobs, given: Parameters) -> Shape:
    name = _projection(jobs, given)

    def work(progress: Progress, stop: Stop) -> Result:
        jobs.store.discard_rebuild(name)
        return True, None

    return jobs.start(name, "discard", work, wait=True)


def _outcome(report: RebuildReport) -> Result:
    return report.is_done, report_shape(report)


def _verify(jobs: Jobs, given: Parameters) -> Shape:
    def work(progress: Progress, stop: Stop) -> Result:
        # The other cores of the machine are left to writers.
        report = jobs.store.verify(progress=progress, stop=stop, processes=1)
        return report.is_done, _verified(report)

    return jobs.start(STORE, "verify", work)


def _verified(report: Report) -> Shape:
    problems = report.problems[:PROBLEMS_MAX]
    return {
        **msgspec.structs.asdict(report), "problems": [msgspec.structs.asdict(one) for one in problems],
        "problem_count": len(report.problems), "is_whole": report.is_whole,
    }  # fmt: skip


NAME = {"name": "the projection"}
TASKS: dict[str, Action] = {
    "rebuild": Action(
        _rebuild, "Begin to make the rows of a projection anew, beside those in use, and to compare both.",
        {**NAME, "restart": "1: begin at the first event, where an earlier rebuild left rows"},
    ),
    "swap": Action(_swap, "Put the new rows of a projection in the place of those in use.", NAME),
    "discard": Action(_discard, "Drop the new rows of a projection.", NAME),
    "check": Action(
        _check, "Begin to compare the rows of a projection with those that the events give; nothing is changed.", NAME,
        needs_token=False,
    ),
    "verify": Action(_verify, "Begin to check the whole store; nothing is changed.", {}, needs_token=False),
    "cancel": Action(
        lambda jobs, given: jobs.cancel(given.required("name")), "Have a job stop at the end of its page of events.",
        {"name": f"the projection; `{STORE}` for the check of the whole store"}, needs_token=False,
    ),
}  # fmt: skip
