"""
The kinds of contexts, one record for each.

A new kind is a folder of the domain, a line here, and a method of `Store` that opens it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .chat import describe as chat
from .chat.events import ChatEvent
from .context.description import Change
from .memory import describe as memory
from .memory.events import MemoryEvent
from .pool import describe as pool
from .pool.events import PoolEvent, QueueEvent
from .trajectory import describe as trajectory
from .trajectory.events import RunEvent
from .window import describe as window
from .window.events import WindowEvent


class Kind(NamedTuple):
    """
    A kind of context.

    `name` begins the ids of its streams, `events` is the union of its events, and `describe` says what one of them did.
    """

    name: str
    events: Any
    describe: Callable[[Any], Change]
    holds_items: bool = True


EVERY_KIND = (
    Kind("chat", ChatEvent, chat.describe),
    Kind("queue", QueueEvent, pool.describe),
    Kind("pool", PoolEvent, pool.describe),
    Kind("window", WindowEvent, window.describe),
    Kind("memory", MemoryEvent, memory.describe),
    Kind("run", RunEvent, trajectory.describe, holds_items=False),
)
KINDS = tuple(kind.name for kind in EVERY_KIND)
ITEM_KINDS = tuple(kind.name for kind in EVERY_KIND if kind.holds_items)
