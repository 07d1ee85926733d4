"""
The kinds of contexts, one record for each.

A new kind is a folder of the domain, a line and a function here, and a method of `Store` that opens it. The folders are
imported when their events are first needed, because most programs use one or two kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from .context.description import Change


class Folder(NamedTuple):
    """The union of the events of a kind, and the function that says what one of them did."""

    events: Any
    describe: Callable[[Any], Change]


class Kind(NamedTuple):
    """A kind of context: `name` begins the ids of its streams, `folder` imports what is known of its events."""

    name: str
    folder: Callable[[], Folder]
    holds_items: bool = True


def _chat() -> Folder:
    from .chat.describe import describe
    from .chat.events import ChatEvent

    return Folder(ChatEvent, describe)


def _queue() -> Folder:
    from .pool.describe import describe
    from .pool.events import QueueEvent

    return Folder(QueueEvent, describe)


def _pool() -> Folder:
    from .pool.describe import describe
    from .pool.events import PoolEvent

    return Folder(PoolEvent, describe)


def _window() -> Folder:
    from .window.describe import describe
    from .window.events import WindowEvent

    return Folder(WindowEvent, describe)


def _memory() -> Folder:
    from .memory.describe import describe
    from .memory.events import MemoryEvent

    return Folder(MemoryEvent, describe)


def _run() -> Folder:
    from .trajectory.describe import describe
    from .trajectory.events import RunEvent

    return Folder(RunEvent, describe)


EVERY_KIND = (
    Kind("chat", _chat),
    Kind("queue", _queue),
    Kind("pool", _pool),
    Kind("window", _window),
    Kind("memory", _memory),
    Kind("run", _run, holds_items=False),
)
KINDS = tuple(kind.name for kind in EVERY_KIND)
ITEM_KINDS = tuple(kind.name for kind in EVERY_KIND if kind.holds_items)


def every_event() -> Any:
    """Return the union of the events of all kinds."""
    return reduce(or_, (kind.folder().events for kind in EVERY_KIND))
