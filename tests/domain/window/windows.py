"""Short ways to make items, and to say what is in a window and what is not."""

from typing import Any

from refold.domain.window.items import ContextItem
from refold.domain.window.window import ContextWindow

# With a source of one character, the characters that an item counts beside its key and value.
AROUND = 21


def item(key: str, *, size: int = AROUND + 3, priority: int = 0) -> ContextItem:
    """Return an item that counts so many characters."""
    return ContextItem(key, "v" * (size - AROUND - len(key)), "s", priority)


def keys(window: ContextWindow) -> str:
    """Return the keys of a window's items, one after the other."""
    return "".join(one.key for one in window.items)


def kinds(window: Any) -> list[str]:
    """Return the kinds of a window's events behind the opening."""
    tags = [str(one.event.__struct_config__.tag) for one in window.recorded_events(after=1)]
    return [tag.split(".")[1] for tag in tags]


def left(window: ContextWindow) -> list[tuple[str, str, str | None]]:
    """Return what left a window, how and why."""
    return [(one.item.key, one.how, one.reason) for one in window.evicted()]


def refused(window: ContextWindow) -> str:
    """Return the keys of the items that were not let in."""
    return "".join(one.item.key for one in window.dropped())
