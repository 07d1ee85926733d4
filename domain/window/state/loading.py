"""What the events of a window refer to, looked up so that they can be folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...named_events import read_named
from ...ports import Log
from ..events import ITEM_EVENTS, WindowEvent, WindowRestored
from ..items import Held
from .fold import Resolved

NOWHERE = (0, 0)


def complete(log: Log, events: Sequence[Any]) -> Sequence[WindowEvent | Resolved]:
    """
    Return the events of a window as `fold` wants them: restorations with the items that they name.

    Raises:
        DamagedError: the stream does not hold what an event says of it.
    """
    return [_resolved(log, event) if isinstance(event, WindowRestored) else event for event in events]


def _resolved(log: Log, event: WindowRestored) -> Resolved:
    named = read_named(log, event.items, ITEM_EVENTS)
    return Resolved(event, tuple(Held(ref.version, found, NOWHERE) for ref, found in named))
