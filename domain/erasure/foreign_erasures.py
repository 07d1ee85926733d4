"""
Looking for erasures of others: what this process remembers of a log is dropped behind one, and nothing that is made of
texts meanwhile, as a summary, is recorded.
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
    """Return the version of the erasures of a log; drop what is remembered if it was another one at the last look."""
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
    """Take this version of the erasures of a log for looked at: this process has erased itself."""
    _LOOKED_AT[log_below(log)] = version


def erased_since(log: object, erasures: int) -> set[str]:
    """Return the streams of which something was erased in a log since, also by another process."""
    below: Any = log_below(log)
    events = map(decoded, below.read_events(STREAM, after=erasures))
    return {one.stream for event in events if isinstance(event, StoreErased) for one in event.erased}


def require_unerased(log: object, erasures: int) -> None:
    """
    Require that nothing was erased since.

    Raises:
        DecisionRefusedError: something was.
    """
    if erased_since(log, erasures):
        raise DecisionRefusedError("texts were erased meanwhile, and what was made of them may have them: do it again")


def unerased_since(log: object, erasures: int) -> tuple[NewEvents, ...]:
    """
    Return what goes along with an append of what was made of texts: the append fails if more is erased before it.

    Raises:
        DecisionRefusedError: something was erased since already.
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
    """Return what `make` makes of texts, given the version of the erasures at which it reads them; again behind one."""
    while True:
        erasures = look(log)
        try:
            return make(erasures)
        except DecisionRefusedError:
            if not erased_since(log, erasures):
                raise
