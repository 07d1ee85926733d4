"""
What one request says beyond the context: text that was looked up, say, in front of the user's question.

The seed changed the message for the time of the call and changed it back (SPEC V15.3), which a failing call or a
second reader gets in between. An overlay makes other items for the request; nothing is recorded, nothing to undo.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ..events import ChatItemEvent, Image, MessageAdded, Origin


def with_prefix(items: Iterable[ChatItemEvent], prefix: str) -> list[ChatItemEvent]:
    """
    Return the items with `prefix` in front of the last user message, as "{prefix}\\n\\nUser: {text}" (SPEC V15.3).

    Its text parts become one, joined by spaces, and its images stay behind it. Without a user message, or with an
    empty prefix, nothing changes. The result goes to any of the conversions in place of the items.
    """
    overlaid = list(items)
    for index in range(len(overlaid) - 1, -1, -1) if prefix else ():
        item = overlaid[index]
        if isinstance(item, MessageAdded) and item.role == "user":
            overlaid[index] = _prefixed(item, prefix)
            break
    return overlaid


def _prefixed(message: MessageAdded, prefix: str) -> MessageAdded:
    parts = (message.content,) if isinstance(message.content, str) else message.content
    text = " ".join(part for part in parts if isinstance(part, str))
    images = [part for part in parts if isinstance(part, Image)]
    content = f"{prefix}\n\nUser: {text}"
    # What lay beside an imported message was about its text as it was.
    origin = None if message.origin is None else Origin(starts=message.origin.starts)
    return msgspec.structs.replace(message, content=(content, *images) if images else content, origin=origin)
