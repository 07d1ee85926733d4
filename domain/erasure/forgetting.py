"""
The contexts of this process whose state may hold texts that are erased, by log; and functions that remember texts.

After an erasure, also one of another process, they drop what they remember, and read it again from the log when it is
next used. Objects that a program got from a context belong to the program: they stay as they are.
"""

from __future__ import annotations

from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary


class CachesEvents(Protocol):
    """An object that remembers events of a log."""

    def _forget_erased(self) -> None:
        """Drop what is remembered of events and can be read again."""


class CachedFunction(Protocol):
    """A function with an `lru_cache`."""

    def cache_clear(self) -> None:
        """Drop what is remembered."""


Function = TypeVar("Function", bound=CachedFunction)
# They do not know from which log a text is: an erasure in any log clears them.
_FUNCTIONS: list[CachedFunction] = []
# By log, and by the id of each object: some of them define their own comparison. Each is held weakly.
_WATCHED: WeakKeyDictionary[object, WeakValueDictionary[int, CachesEvents]] = WeakKeyDictionary()


def watch(log: object, remembering: CachesEvents) -> None:
    """Call `_forget_erased` of an object at each erasure in a log, as long as both live."""
    below = log_below(log)
    watched = _WATCHED.get(below)
    if watched is None:
        # Two threads may both do this: they get the same mapping.
        watched = _WATCHED.setdefault(below, WeakValueDictionary())
    watched[id(remembering)] = remembering


def clears_with_erasures(function: Function) -> Function:
    """Have a function with an `lru_cache` drop what it remembers with each erasure; a decorator."""
    _FUNCTIONS.append(function)
    return function


def forget(log: object) -> None:
    """Have all objects that remember events of a log drop them, and all functions what they remember."""
    for function in _FUNCTIONS:
        function.cache_clear()
    watched = _WATCHED.get(log_below(log))
    # `valuerefs` is one step for other threads, which open contexts meanwhile.
    for held in () if watched is None else watched.valuerefs():
        if (remembering := held()) is not None:
            remembering._forget_erased()


def log_below(log: object) -> object:
    """Return the log that has the events: others stand before it, as a gate or an encrypted one does."""
    while (behind := getattr(log, "below", None)) is not None:
        log = behind
    return log
