"""
Group commit: many callers, one transaction.

Whoever finds the writer free does the work himself, and then that of all who queued up meanwhile; a single
caller so pays neither a queue nor a hand-over to a thread. Callers that do not wait leave the work to a
background thread, which is started when the first of them comes.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, Generic, NamedTuple, TypeVar

from ..domain.errors import StorageClosedError
from ..domain.ports import Pending

__all__ = ["GroupCommitter", "Settled", "Ticket"]

Request = TypeVar("Request")
Result = TypeVar("Result")
GROUP_MAX = 256
SLEEP_SECONDS_MAX = 0.1


class Settled(Generic[Result]):
    """A result that was there before anybody could wait for it: a tenth of the cost of a Future."""

    __slots__ = ("_error", "_result")

    def __init__(self, result: Result | None, error: BaseException | None = None) -> None:
        self._result = result
        self._error = error

    def result(self, timeout: float | None = None) -> Result:
        """
        Return the result, or raise what went wrong.
        """
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # there is one where there is no error

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """
        Return what went wrong, if anything.
        """
        return self._error

    def done(self) -> bool:
        """
        Return True: it always is.
        """
        return True

    def add_done_callback(self, call: Callable[[Any], object], /) -> None:
        """
        Call `call` with this at once.
        """
        call(self)


class Promise(Settled[Result]):
    """What a caller gets who sleeps until it is settled; nobody else looks at it, so it needs no lock of its own."""

    __slots__ = ("_is_done",)

    def __init__(self) -> None:
        super().__init__(None)
        self._is_done = False

    def set_result(self, result: Result) -> None:
        """
        Settle it.
        """
        self._result = result
        self._is_done = True

    def set_exception(self, error: BaseException) -> None:
        """
        Settle it by what went wrong.
        """
        self._error = error
        self._is_done = True

    def done(self) -> bool:
        """
        Return whether it is settled.
        """
        return self._is_done


class Ticket(NamedTuple, Generic[Request, Result]):
    """One caller's request and what he waits for; `sleep` is released to wake him."""

    request: Request
    future: Future[Result] | Promise[Result]
    sleep: threading.Lock

    def wake(self) -> None:
        """
        Let the caller look again: he is served, or it is his turn to serve.
        """
        try:
            self.sleep.release()
        except RuntimeError:
            # He is awake already.
            return


class GroupCommitter(Generic[Request, Result]):
    """
    Gives requests to `commit` in groups, in the order they came, one group at a time.

    `commit_alone` is the quick way for a request that comes when there is nothing else to do.
    """

    def __init__(
        self,
        commit: Callable[[list[Ticket[Request, Result]]], None],
        commit_alone: Callable[[Request], Result] | None = None,
    ) -> None:
        self._commit = commit
        self._commit_alone = commit_alone
        self._writing = threading.Lock()
        self._queue: deque[Ticket[Request, Result]] = deque()
        self._work = threading.Semaphore(0)
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closed = False

    def submit(self, request: Request, *, wait: bool) -> Pending[Result]:
        """
        Hand in a request; with `wait` it has been dealt with when this returns.

        Raises:
            StorageClosedError: after `close()`.
        """
        if wait and self._commit_alone is not None and not self._queue and self._writing.acquire(blocking=False):
            try:
                # The queue is looked at again: what came before must be committed before.
                if not self._queue and not self._closed:
                    return self._alone(self._commit_alone, request)
            finally:
                self._hand_on()
        return self._in_turn(request, wait)

    def _alone(self, commit: Callable[[Request], Result], request: Request) -> Settled[Result]:
        try:
            return Settled(commit(request))
        except Exception as error:
            return Settled(None, error)

    def _in_turn(self, request: Request, wait: bool) -> Future[Result] | Promise[Result]:
        future: Future[Result] | Promise[Result] = Promise() if wait else Future()
        ticket = Ticket(request, future, threading.Lock())
        ticket.sleep.acquire()
        self._queue.append(ticket)
        if self._closed:
            self._refuse_rest()
        elif not wait:
            self._start_thread()
            self._work.release()
        else:
            self._serve_until_served(ticket)
        return ticket.future

    def _serve_until_served(self, ticket: Ticket[Request, Result]) -> None:
        """
        Wait for a result. Only one of those who are not served yet waits for the right to write, and whoever is
        served leaves at once: a queue at the lock itself would make them all wait for the next group as well.
        """
        while not ticket.future.done():
            if not self._writing.acquire(blocking=False):
                # Not for ever: he who was woken to serve may have been interrupted instead.
                ticket.sleep.acquire(timeout=SLEEP_SECONDS_MAX)
                continue
            try:
                if not ticket.future.done():
                    self._commit_next_group()
            finally:
                self._hand_on()

    def _hand_on(self) -> None:
        """Give up the right to write, and wake the first in the queue; who comes later finds it free himself."""
        self._writing.release()
        if self._queue:
            with suppress(IndexError):
                self._queue[0].wake()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        self._writing.acquire()
        try:
            yield
        finally:
            self._hand_on()

    def exclusively(self, work: Callable[[], None]) -> None:
        """
        Run `work` while no group is being committed.
        """
        with self._turn():
            work()

    def close(self) -> None:
        """
        Take no more requests, finish those that came, and end the thread.
        """
        with self._turn():
            while self._queue:
                self._commit_next_group()
            self._closed = True
        self._refuse_rest()
        if self._thread is not None:
            self._work.release()
            self._thread.join()

    def _commit_next_group(self) -> None:
        group = [self._queue.popleft() for _ in range(min(len(self._queue), GROUP_MAX))]
        if self._closed:
            _refuse(group)
            return
        try:
            self._commit(group)
        except BaseException as error:
            for ticket in group:
                if not ticket.future.done():
                    ticket.future.set_exception(error)
        for ticket in group:
            ticket.wake()

    def _refuse_rest(self) -> None:
        """Refuse what was queued by callers who came in the moment of closing."""
        with self._turn():
            _refuse(list(self._queue))
            self._queue.clear()

    def _start_thread(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="refold-writer", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            self._work.acquire()
            with self._turn():
                while self._queue:
                    self._commit_next_group()
            if self._closed:
                return


def _refuse(group: list[Ticket[Request, Result]]) -> None:
    for ticket in group:
        if not ticket.future.done():
            ticket.future.set_exception(StorageClosedError("the store is closed: open it again"))
        ticket.wake()
