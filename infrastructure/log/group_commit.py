"""
Group commit: many callers, one transaction.

A caller that finds the writer free commits its own request, and then all requests that were queued meanwhile. So a
single caller pays neither for a queue nor for a hand-over to a thread. A background thread commits the requests whose
callers do not wait. It starts with the first of these requests. No signal handler ever runs in it.

An interrupt may end a caller's turn at any line. The next caller that gets the turn sees the requests that were left
and settles them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from operator import attrgetter
from queue import SimpleQueue
from typing import Generic, NamedTuple, Protocol, TypeVar

from ...domain.concurrency.locks import locked, pause_for_forks, renew_in_child
from ...domain.concurrency.promises import Promise, Settled
from ...domain.concurrency.threads import start_if_possible
from ...domain.errors import DamagedError, RefoldError, StorageClosedError, StorageError
from ...domain.log.ports import Pending
from .row_faults import KeyClosedError

T = TypeVar("T")
Request = TypeVar("Request")
Result = TypeVar("Result")
GROUP_MAX = 256
CLOSED = "the store is closed: open it again"
# Nothing of a group that fails so was written, and the reason may be one of its requests.
BY_ONE = (DamagedError, KeyClosedError)
INTERRUPTED = "the thread that committed this was interrupted: look whether it is recorded before you repeat it"


class Leavable(Protocol):
    """A database that a process must release while it forks."""

    def leave(self, seconds: float) -> None:
        """Release the database if it is free within this time; nobody commits meanwhile."""

    def come_back(self) -> None:
        """End what `leave` began."""


class Ticket(NamedTuple, Generic[Request, Result]):
    """One caller's request, its future result, and whether the caller waits for it."""

    request: Request
    future: Promise[Result]
    is_waiting: bool


class GroupCommitter(Generic[Request, Result]):
    """
    Passes requests to `commit` in groups, in the order they came, one group at a time.

    `commit` gives the answer to each request in turn: its result, or the error by which it is refused. `paused` is a
    database whose connections must not be carried over a fork: no group is committed while the process forks.
    """

    def __init__(
        self, commit: Callable[[Sequence[Request]], Iterable[Result | Exception]], paused: Leavable | None = None
    ) -> None:
        self._commit = commit
        self._paused = paused
        self._has_turn = False
        self._closed = False
        self._after_fork()
        renew_in_child(self)
        if paused is not None:
            pause_for_forks(self)

    def _before_fork(self, seconds: float) -> None:
        self._has_turn = self._turn.acquire(timeout=seconds)
        if self._has_turn and self._paused is not None:
            self._paused.leave(seconds)

    def _fork_is_over(self) -> None:
        if self._paused is not None:
            self._paused.come_back()
        if self._has_turn:
            self._has_turn = False
            self._turn.release()
            self._hand_on()

    def _after_fork(self) -> None:
        # Requests that are queued or being committed at a fork belong to the parent. The holder of this lock has the
        # turn to write.
        self._turn = threading.Lock()
        self._queue: deque[Ticket[Request, Result]] = deque()
        # The group that is being committed, or was being committed when an interrupt came.
        self._group: list[Ticket[Request, Result]] = []
        self._work: SimpleQueue[None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def submit(self, request: Request, *, wait: bool) -> Pending[Result]:
        """
        Submit a request; with `wait`, its result is set when this returns.

        Raises:
            StorageClosedError: after `close()`.
        """
        if wait and not self._queue and not self._turn.locked():
            settled = locked(self._turn, self._alone, request)
            self._hand_on()
            if settled is not None:
                return settled
        return self._in_turn(request, wait)

    def _alone(self, request: Request) -> Settled[Result] | None:
        """Commit one request; None if the queue is not empty, a group is left, or the committer is closed."""
        # The queue is checked again, so that requests that came earlier are committed earlier.
        if self._queue or self._group or self._closed:
            return None
        try:
            (answer,) = self._commit((request,))
        except Exception as error:
            return Settled(None, error)
        return Settled(None, answer) if isinstance(answer, Exception) else Settled(answer)

    def _in_turn(self, request: Request, wait: bool) -> Promise[Result]:
        ticket = Ticket(request, Promise[Result](self._wake_thread), wait)
        self._queue.append(ticket)
        if self._closed:
            # No group is committed any more.
            _fail([ticket], StorageClosedError(CLOSED))
        elif wait:
            self._serve_until_served(ticket)
        else:
            self._wake_thread()
        return ticket.future

    def _serve_until_served(self, ticket: Ticket[Request, Result]) -> None:
        """
        Wait for a result. Only one of the callers without a result waits for the turn, and a caller that has its result
        leaves at once. If all queued at the lock itself, each would wait for the next group as well.
        """
        while not ticket.future.done():
            if self._turn.locked() or self._is_for_thread():
                # The sleep is limited: the caller that was woken to serve may have been interrupted instead.
                ticket.future.sleep()
                continue
            locked(self._turn, self._serve_group_of, ticket)
            self._hand_on()

    def _serve_group_of(self, ticket: Ticket[Request, Result]) -> None:
        if not ticket.future.done():
            # A request whose caller does not wait must not be in a group that an interrupt may end.
            self._commit_next_group(only_waiting=True)

    def _is_for_thread(self) -> bool:
        """Return whether the first in the queue is to be committed by the thread; if so, wake the thread."""
        with suppress(IndexError):
            if not self._queue[0].is_waiting:
                self._wake_thread()
                return True
        return False

    def _hand_on(self) -> None:
        """
        Wake the first caller in the queue, since the turn is free; a caller that comes later finds it free itself.
        """
        # This check comes first because an exception at each append would cost a microsecond.
        if self._queue:
            with suppress(IndexError):
                self._queue[0].future.wake()

    def exclusively(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which runs while no group is being committed."""
        try:
            return locked(self._turn, work)
        finally:
            self._hand_on()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Let no group be committed during a block that uses the writing connection itself."""
        try:
            with self._turn:
                yield
        finally:
            self._hand_on()

    def close(self) -> None:
        """Refuse new requests, commit the queued ones, and end the thread; may be called twice."""
        locked(self._turn, self._finish)
        if self._thread is not None and self._thread.is_alive():
            self._work.put(None)
            self._thread.join()

    def _finish(self) -> None:
        self._serve_all()
        self._closed = True
        self._refuse_rest()

    def _serve_all(self) -> None:
        self._settle_interrupted()
        while self._queue:
            self._commit_next_group(only_waiting=False)

    def _next_group(self, *, only_waiting: bool) -> list[Ticket[Request, Result]]:
        # By index: other threads append to the queue meanwhile, which would break an iterator.
        group = [self._queue[place] for place in range(min(len(self._queue), GROUP_MAX))]
        return list(takewhile(attrgetter("is_waiting"), group)) if only_waiting else group

    def _commit_next_group(self, *, only_waiting: bool) -> None:
        self._settle_interrupted()
        if self._closed:
            self._refuse_rest()
            return
        group = self._group = self._next_group(only_waiting=only_waiting)
        for _ in group:
            self._queue.popleft()
        self._commit_or_fail(group, only_waiting=only_waiting)
        for ticket in group:
            ticket.future.wake()
        self._group = []

    def _commit_or_fail(self, group: list[Ticket[Request, Result]], *, only_waiting: bool) -> None:
        try:
            answers = self._commit([ticket.request for ticket in group])
            for ticket, answer in zip(group, answers, strict=True):
                if isinstance(answer, Exception):
                    ticket.future.set_exception(answer)
                else:
                    ticket.future.set_result(answer)
        except Exception as error:
            if only_waiting and not isinstance(error, RefoldError):
                # A signal handler in the caller's thread may have raised it. Such an interrupt must not reach other
                # callers.
                raise
            left = [ticket for ticket in group if not ticket.future.done()]
            if len(left) < 2 or not isinstance(error, BY_ONE):
                _fail(left, error)
                return
            for ticket in left:
                self._commit_or_fail([ticket], only_waiting=only_waiting)

    def _settle_interrupted(self) -> None:
        """Fail the group whose committer was interrupted: nobody knows whether it was written."""
        if not self._group:
            return
        _fail(self._group, StorageError(INTERRUPTED))
        while self._queue and self._queue[0].future.done():
            self._queue.popleft()
        self._group = []

    def _refuse_rest(self) -> None:
        """Refuse the requests that came while the committer was closing."""
        self._settle_interrupted()
        while self._queue:
            _fail([self._queue[0]], StorageClosedError(CLOSED))
            self._queue.popleft()

    def _wake_thread(self) -> None:
        self._work.put(None)
        if not self._is_running():
            locked(self._starting, self._start_thread)
            # Not while the turn is taken, perhaps by this thread itself. Callers that wait for a result look again.
            if not self._is_running() and not self._turn.locked():
                locked(self._turn, self._serve_all)
                self._hand_on()

    def _is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _start_thread(self) -> None:
        if not self._is_running():
            self._thread = threading.Thread(target=self._run, name="refold-writer", daemon=True)
            # At the end of a program its callers commit.
            start_if_possible(self._thread)

    def _run(self) -> None:
        # If something ends this thread, it is started again: a caller that waits for its request checks whether it
        # runs.
        while not self._closed:
            self._work.get()
            locked(self._turn, self._serve_all)
            self._hand_on()
        # An interrupted start may have led to a second thread, which this wakes so that it ends too.
        self._work.put(None)


def _fail(tickets: Iterable[Ticket[Request, Result]], error: Exception) -> None:
    for ticket in tickets:
        if not ticket.future.done():
            ticket.future.set_exception(error)
