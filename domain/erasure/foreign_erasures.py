"""
Erasures by other processes: after one, this process drops what it remembers of the log, and records nothing that it
made of texts meanwhile, such as a summary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar, runtime_checkable
from weakref import WeakKeyDictionary

from ..errors import DecisionRefusedError
from ..log.ports import NewEvents
from .events import STREAM, StoreErased, decoded, events_of_store
from .forgetting import forget, log_below

T = TypeVar("T")
# By log: the version of its stream of erasures at the last look.
_LOOKED_AT: WeakKeyDictionary[object, int] = WeakKeyDictionary()


@runtime_checkable
class KeepsEvents(Protocol):
    """A log that keeps events in memory."""

    def forget(self) -> None:
        """Drop them."""


def look(log: object) -> int:
    """Return the version of the erasures of a log; if it changed since the last look, drop what is remembered."""
    below: Any = log_below(log)
    version = int(below.head(STREAM))
    if _LOOKED_AT.get(below, 0) != version:
        if isinstance(below, KeepsEvents):
            # The log of a what-if keeps no events in memory.
            below.forget()
        forget(below)
        _LOOKED_AT[below] = version
    return version


def note_own(log: object, version: int) -> None:
    """Note that this version of the erasures of a log is known, because this process erased itself."""
    _LOOKED_AT[log_below(log)] = version


def erased_since(log: object, erasures: int) -> set[str]:
    """Return the streams of which something was erased after a version of the erasures, also by another process."""
    below: Any = log_below(log)
    events = map(decoded, below.read_events(STREAM, after=erasures))
    return {one.stream for event in events if isinstance(event, StoreErased) for one in event.erased}


def require_unerased(log: object, erasures: int) -> None:
    """
    Require that nothing was erased after a version of the erasures.

    Raises:
        DecisionRefusedError: something was.
    """
    if erased_since(log, erasures):
        raise DecisionRefusedError("texts were erased meanwhile, and what was made of them may have them: do it again")


def unerased_since(log: object, erasures: int) -> tuple[NewEvents, ...]:
    """
    Return an empty append that is made together with events made of texts: both fail if more is erased before them.

    Raises:
        DecisionRefusedError: something was erased after this version already.
    """
    below: Any = log_below(log)
    if not isinstance(log_below(log), KeepsEvents):
        # A what-if looks when its branches are kept.
        return ()
    version = int(below.head(STREAM))
    if version != erasures:
        require_unerased(below, erasures)
    return (events_of_store((), version),)


def made_unerased(log: object, make: Callable[[int], T]) -> T:
    """Return the result of `make`, which reads texts at a version of the erasures; call it again after an erasure."""
    while True:
        erasures = look(log)
        try:
            return make(erasures)
        except DecisionRefusedError:
            if not erased_since(log, erasures):
                raise
