"""
Locks that an interrupt cannot leave locked.

A signal handler may raise an exception between any two lines. Behind `acquire()` that is before `try`, and at the end
of a `with` block over several lines it is before the release: the lock then stays locked for ever. Here a lock is
taken, the work done and the lock released within one line. tests/house looks that no other line takes one.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, TypeVarTuple


class _Locked(Protocol):
    @property
    def _lock(self) -> AbstractContextManager[Any]: ...


T = TypeVar("T")
P = ParamSpec("P")
Args = TypeVarTuple("Args")
Owner = TypeVar("Owner", bound=_Locked)
Method = Callable[Concatenate[Owner, P], T]


# fmt: off
def locked(lock: AbstractContextManager[Any], work: Callable[[*Args], T], /, *args: *Args) -> T:
    """Return what `work` returns, having held `lock` meanwhile."""
    with lock: return work(*args)  # noqa: E701


def synchronized(method: Method[Owner, P, T]) -> Method[Owner, P, T]:
    """Let a method hold its object's `_lock` while it runs."""

    @wraps(method)
    def call(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock: return method(self, *args, **kwargs)  # noqa: E701

    return call
# fmt: on


class News:
    """A counter of what happened in this process, for which threads can wait; it needs no lock."""

    __slots__ = ("_sleepers", "count")

    def __init__(self) -> None:
        self.count = 0
        self._sleepers: deque[Any] = deque()

    def announce(self) -> None:
        """Count one more, and wake all who wait."""
        self.count += 1
        while self._sleepers:
            with suppress(IndexError):
                self._sleepers.pop().release()

    def wait_past(self, seen: int, *, timeout_seconds: float) -> None:
        """Return once the counter is not at `seen` any more, or the time is up."""
        sleeper = threading.Lock()
        sleeper.acquire()
        self._sleepers.append(sleeper)
        # Looked at behind the entry above, so that no announcement is missed.
        if self.count == seen:
            sleeper.acquire(timeout=max(0.0, timeout_seconds))
        with suppress(ValueError):
            self._sleepers.remove(sleeper)
