"""
Locks that neither an interrupt nor a fork of the process leaves locked.

A signal handler may raise an exception between any two lines. After `acquire()`, that is before `try`; at the end of a
`with` block over several lines, it is before the release. The lock then stays locked for ever. Here, one line takes the
lock, does the work and releases the lock. A test in tests/house checks that no other line takes one.

A child process has one thread and a copy of everything. Half-made changes, half-loaded modules and locks of other
threads stay as they were, and connections belong to the parent. So a fork waits, for a limited time, until no such work
is in progress, and the child makes the objects anew that it cannot use.
"""

from __future__ import annotations

import _imp
import functools
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import wraps
from importlib import _bootstrap
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, TypeVarTuple
from weakref import WeakValueDictionary

from ..clock import REAL_SYSTEM

PAUSE_SECONDS_MAX = 5.0
LOOK_SECONDS = 0.001
# The locks of Python's for modules, by their names, while threads load them.
_LOADING: dict[str, Any] = getattr(_bootstrap, "_module_locks", {})
_OURS = __name__.partition(".")[0]
# Weak references, so that objects do not live longer because of it. Global, as `os.register_at_fork` is. By id, since a
# lock and a context may define their own comparison.
_LOCKS: WeakValueDictionary[int, threading.RLock] = WeakValueDictionary()
# Functions that end what the present fork began. Only one thread forks at a time.
_FORKING = threading.Lock()
_ENDINGS: list[Callable[[], object]] = []
T = TypeVar("T")
P = ParamSpec("P")


class Inherited(Protocol):
    """An object that a child process makes anew, in place."""

    def _after_fork(self) -> None:
        """Make anew, in the child, the parts that only the parent can use; it must not wait."""


class Paused(Protocol):
    """Work that a fork must not interrupt; `_fork_is_over` is called in the parent and, first of all, in the child."""

    def _before_fork(self, seconds: float) -> None:
        """Wait, at most so many seconds, until no work is in progress, and prevent new work."""

    def _fork_is_over(self) -> None:
        """Allow work again."""


_PAUSED: WeakValueDictionary[int, Paused] = WeakValueDictionary()
_INHERITED: WeakValueDictionary[int, Inherited] = WeakValueDictionary()


def fork_safe_lock() -> threading.RLock:
    """
    Return a lock that no fork leaves locked, for a few lines that take no other lock and do not wait.

    A fork waits until they are done, so that the child sees their changes completely or not at all.
    """
    lock = threading.RLock()
    _LOCKS[id(lock)] = lock
    return lock


def pause_for_forks(thing: Paused) -> None:
    """Make each fork wait for `thing`, as long as it lives."""
    _PAUSED[id(thing)] = thing


def renew_in_child(thing: Inherited) -> None:
    """Make each child process renew `thing`, as long as it lives."""
    _INHERITED[id(thing)] = thing


def keep_for_ever(thing: object) -> None:
    """Never finalise an object of the parent, not even at the end of this process: it would disturb the parent."""
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
    _hold_imports(deadline)
    # These come last, in any order: a thread that holds one of them does not wait for anything.
    for lock in [lock for ref in _LOCKS.valuerefs() if (lock := ref()) is not None]:
        if lock.acquire(timeout=max(0.0, deadline - REAL_SYSTEM.monotonic())):
            _ENDINGS.append(lock.release)


def _hold_imports(deadline: float) -> None:
    """
    Wait until no other thread loads a module of Refold's, and let no thread begin to import.

    A child process would wait for ever for a thread of the parent that loads a module.
    """
    while True:
        _imp.acquire_lock()
        if {None, threading.get_ident()}.issuperset(_loading().values()) or REAL_SYSTEM.monotonic() >= deadline:
            _ENDINGS.append(_imp.release_lock)
            return
        # Released in between: a thread that loads a module imports others.
        _imp.release_lock()
        threading.Event().wait(LOOK_SECONDS)


def _loading() -> dict[str, int | None]:
    """Return the modules of Refold's that are being loaded, each with the id of its thread, if it has begun."""
    locks = {name: lock() for name, lock in list(_LOADING.items()) if name.partition(".")[0] == _OURS}
    return {name: lock.owner for name, lock in locks.items() if lock is not None}


def _in_parent() -> None:
    while _ENDINGS:
        _ENDINGS.pop()()


def _in_child() -> None:
    _in_parent()
    for lock in list(_LOCKS.values()):
        # A lock is still held if its thread took longer than a fork waits, or took it while the fork waited for others.
        if lock.acquire(blocking=False):
            lock.release()
        else:
            lock._at_fork_reinit()  # type: ignore[attr-defined]  # as `logging` does; not in the stubs
    for name in [name for name, owner in _loading().items() if owner != threading.get_ident()]:
        # An import of a module that is not whole then raises an error, and does not wait.
        _LOADING.pop(name, None)
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
    """Hold `lock` while `work` runs, and return its result."""
    with lock: return work(*args)  # noqa: E701


class cached_property(functools.cached_property[T]):
    """
    The property of Python 3.12 and later, which has no lock: two threads may both compute the value.

    In Python 3.11 one lock is held for the property of all objects, which a fork or an interrupt may leave locked.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        super().__init__(compute)
        self.lock = nullcontext()


def synchronized(method: Method[Owner, P, T]) -> Method[Owner, P, T]:
    """Make a method hold its object's `_lock` while it runs."""

    @wraps(method)
    def call(self: Owner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock: return method(self, *args, **kwargs)  # noqa: E701

    return call
# fmt: on


class News:
    """A counter of events in this process, for which threads can wait; it needs no lock."""

    __slots__ = ("_sleepers", "count")

    def __init__(self) -> None:
        self.count = 0
        self._sleepers: deque[Any] = deque()

    def announce(self) -> None:
        """Increase the counter, and wake all waiting threads."""
        self.count += 1
        while self._sleepers:
            with suppress(IndexError):
                self._sleepers.pop().release()

    def wait_past(self, seen: int, *, timeout_seconds: float) -> None:
        """Return once the counter is not at `seen` any more, or after the timeout."""
        sleeper = threading.Lock()
        sleeper.acquire()
        self._sleepers.append(sleeper)
        # Checked after the entry above, so that no announcement is missed.
        if self.count == seen:
            sleeper.acquire(timeout=max(0.0, timeout_seconds))
        with suppress(ValueError):
            self._sleepers.remove(sleeper)
