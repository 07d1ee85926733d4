"""
Locks that neither an interrupt nor a fork of the process leaves locked.

A signal handler may raise an exception between any two lines. Behind `acquire()` that is before `try`, and at the end
of a `with` block over several lines it is before the release: the lock then stays locked for ever. Here a lock is
taken, the work done and the lock released within one line. tests/house looks that no other line takes one.

A child process has one thread and a copy of everything: half-made changes and locks of other threads stay as they were,
and a connection is the parent's. So a fork waits, for a limited time, until no such work is under way, and the child
makes anew what it cannot use.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, TypeVarTuple
from weakref import WeakValueDictionary

from ..clock import REAL_SYSTEM

PAUSE_SECONDS_MAX = 5.0
# Weak, so that nothing lives the longer for it; of the process as `os.register_at_fork` is. By id: a lock and a
# context compare as they like.
_LOCKS: WeakValueDictionary[int, threading.RLock] = WeakValueDictionary()
# How to end what the present fork began; of several threads one forks at a time.
_FORKING = threading.Lock()
_ENDINGS: list[Callable[[], object]] = []
T = TypeVar("T")
P = ParamSpec("P")


class Inherited(Protocol):
    """An object that a child process makes anew, in place."""

    def _after_fork(self) -> None:
        """Make anew, in the child, what only the parent can use; nothing may be waited for."""


class Paused(Protocol):
    """Work that a fork must not interrupt; `_fork_is_over` is called in the parent and, first of all, in the child."""

    def _before_fork(self, seconds: float) -> None:
        """Wait, at most so long, until nothing is under way, and keep it so."""

    def _fork_is_over(self) -> None:
        """Let others go on."""


_PAUSED: WeakValueDictionary[int, Paused] = WeakValueDictionary()
_INHERITED: WeakValueDictionary[int, Inherited] = WeakValueDictionary()


def fork_safe_lock() -> threading.RLock:
    """
    Return a lock that no fork leaves locked: for some lines that take no other lock and wait for nothing.

    A fork waits until they are over, so that the child sees what they change either before or after it.
    """
    lock = threading.RLock()
    _LOCKS[id(lock)] = lock
    return lock


def pause_for_forks(thing: Paused) -> None:
    """Have each fork wait for something, as long as that lives."""
    _PAUSED[id(thing)] = thing


def renew_in_child(thing: Inherited) -> None:
    """Have each child make something anew, as long as that lives."""
    _INHERITED[id(thing)] = thing


def keep_for_ever(thing: object) -> None:
    """
    Never finalise an object of the parent's, not even at the end of the process: that would be noticed over there.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _before() -> None:
    _FORKING.acquire()
    _ENDINGS.append(_FORKING.release)
    deadline = REAL_SYSTEM.monotonic() + PAUSE_SECONDS_MAX
    # `valuerefs` is one step for other threads, which may add to it.
    for paused in [thing for ref in _PAUSED.valuerefs() if (thing := ref()) is not None]:
        _ENDINGS.append(paused._fork_is_over)
        paused._before_fork(max(0.0, deadline - REAL_SYSTEM.monotonic()))
    # They come last, and in any order: whoever holds one waits for nothing.
    for lock in [lock for ref in _LOCKS.valuerefs() if (lock := ref()) is not None]:
        if lock.acquire(timeout=max(0.0, deadline - REAL_SYSTEM.monotonic())):
            _ENDINGS.append(lock.release)


def _in_parent() -> None:
    while _ENDINGS:
        _ENDINGS.pop()()


def _in_child() -> None:
    _in_parent()
    for lock in list(_LOCKS.values()):
        # It is held by a thread that took longer than a fork waits, or began it while the fork waited for others.
        if lock.acquire(blocking=False):
            lock.release()
        else:
            lock._at_fork_reinit()  # type: ignore[attr-defined]  # as `logging` does; not in the stubs
    for thing in list(_INHERITED.values()):
        thing._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


class _Locked(Protocol):
    @property
    def _lock(self) -> AbstractContextManager[Any]: ...


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
