"""What is made of texts that somebody erases meanwhile, as a summary: it may have them, so it is not recorded."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from ..errors import DecisionRefusedError
from .events import STREAM, StoreErased, decoded
from .forgetting import forget, log_below


@runtime_checkable
class KeepsEvents(Protocol):
    """A log that keeps events in memory."""

    def forget(self) -> None:
        """Drop them."""


# By log: the version of its erasures when what is remembered of it was dropped last.
_FORGOTTEN: WeakKeyDictionary[object, int] = WeakKeyDictionary()


def erasures_in(log: object) -> int:
    """
    Return the version of the erasures of a log, to be asked before the texts are read.

    Another process may have erased a moment ago. What this one remembers is dropped, so that no erased text is read.
    """
    below: Any = log_below(log)
    version = int(below.head(STREAM))
    if _FORGOTTEN.get(below, 0) != version:
        if isinstance(below, KeepsEvents):
            # That of a what-if keeps nothing.
            below.forget()
        forget(below)
        _FORGOTTEN[below] = version
    return version


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
        raise DecisionRefusedError("texts were erased while the model wrote, and its answer may have them: ask again")
