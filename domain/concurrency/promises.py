"""
Results that exist already, or will: a log returns one for an append.

`concurrent.futures.Future` would work, at ten times the cost. But an interrupt of a thread that waits for one can leave
its inner lock locked; the thread that settles it would then wait for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from ..clock import REAL_SYSTEM

Result = TypeVar("Result")
SLEEP_SECONDS_MAX = 0.1


def _nothing() -> None: ...


class Settled(Generic[Result]):
    """A result that existed before anybody could wait for it."""

    __slots__ = ("_error", "_result")

    def __init__(self, result: Result | None, error: BaseException | None = None) -> None:
        self._result = result
        self._error = error

    def result(self, timeout: float | None = None) -> Result:
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # there is one where there is no error

    def exception(self, timeout: float | None = None) -> BaseException | None:
        return self._error

    def done(self) -> bool:
        return True

    def add_done_callback(self, call: Callable[[Any], object], /) -> None:
        call(self)


class Promise(Settled[Result]):
    """
    A result that another thread may set, without locks that could stay locked.

    A waiting thread calls `look_after` now and then, so that a worker thread that has ended is started again.
    """

    __slots__ = ("_callbacks", "_is_done", "_look_after", "_sleep")

    def __init__(self, look_after: Callable[[], object] = _nothing) -> None:
        super().__init__(None)
        self._look_after = look_after
        self._is_done = False
        self._callbacks: list[Callable[[Any], object]] = []
        self._sleep = threading.Lock()
        self._sleep.acquire()

    def set_result(self, result: Result) -> None:
        self._result = result
        self._settle()

    def set_exception(self, error: BaseException) -> None:
        """Set an error in the place of the result."""
        self._error = error
        self._settle()

    def result(self, timeout: float | None = None) -> Result:
        """
        Wait for the result and return it, or raise the error in its place.

        Raises:
            TimeoutError: it was not settled in `timeout` seconds.
        """
        self._wait(timeout)
        return super().result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """
        Wait for the end and return the error, if there is one.

        Raises:
            TimeoutError: it was not settled in `timeout` seconds.
        """
        self._wait(timeout)
        return self._error

    def done(self) -> bool:
        return self._is_done

    def add_done_callback(self, call: Callable[[Any], object], /) -> None:
        self._callbacks.append(call)
        if self._is_done:
            self._call_back()

    def sleep(self, seconds: float = SLEEP_SECONDS_MAX) -> None:
        """Return when another thread calls `wake`, when the result is set, or after the timeout."""
        self._sleep.acquire(timeout=seconds)

    def wake(self) -> None:
        """Wake a sleeping thread so that it checks again."""
        # It may be awake already.
        with suppress(RuntimeError):
            self._sleep.release()

    def _settle(self) -> None:
        self._is_done = True
        self.wake()
        self._call_back()

    def _call_back(self) -> None:
        # A thread that sets the result and one that adds a callback may both be here; each callback is taken out once.
        while self._callbacks:
            try:
                call = self._callbacks.pop()
            except IndexError:
                return
            call(self)

    def _wait(self, timeout: float | None) -> None:
        deadline = None if timeout is None else REAL_SYSTEM.monotonic() + timeout
        while not self._is_done:
            remaining = SLEEP_SECONDS_MAX if deadline is None else deadline - REAL_SYSTEM.monotonic()
            if remaining <= 0:
                raise TimeoutError("it is not settled yet")
            self.sleep(min(SLEEP_SECONDS_MAX, remaining))
            if not self._is_done:
                self._look_after()
        # Other threads may sleep here too.
        self.wake()
