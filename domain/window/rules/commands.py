"""What can be asked of a window."""

from __future__ import annotations

import msgspec

from ..events import WindowOpened
from ..items import Held


class Incoming(msgspec.Struct, frozen=True):
    """An item that is to come in, as an event has it, and its size in quarters of a token."""

    key: str
    value: str
    source: str
    priority: int | float
    quarters: int


class Begin(msgspec.Struct, frozen=True):
    """Open the window."""

    event: WindowOpened


class Add(msgspec.Struct, frozen=True):
    """Let an item in, if there is room or the policy makes some."""

    incoming: Incoming


class Put(msgspec.Struct, frozen=True):
    """Let an item in, in the place of those with its key."""

    incoming: Incoming


class SetItems(msgspec.Struct, frozen=True):
    """Have these items in, and no others, whatever the budget is."""

    items: tuple[Incoming, ...]


class Remove(msgspec.Struct, frozen=True):
    """Have all items with a key leave."""

    key: str
    reason: str | None


class Evict(msgspec.Struct, frozen=True):
    """Have items leave, each named by the version that brought it."""

    versions: tuple[int, ...]
    reason: str | None


class Restore(msgspec.Struct, frozen=True):
    """Take items in that had left `stream`, or were not let in."""

    stream: str
    items: tuple[Held, ...]


class Clear(msgspec.Struct, frozen=True):
    """Have all items leave."""


class ChangeSettings(msgspec.Struct, frozen=True):
    """Set the budget and the policy."""

    max_tokens: int
    policy: str


class NameVersion(msgspec.Struct, frozen=True):
    """Give a version a name."""

    name: str
    version: int


Command = Begin | Add | Put | SetItems | Remove | Evict | Restore | Clear | ChangeSettings | NameVersion
