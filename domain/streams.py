"""
Stream ids and slices.

A stream is the unit of order and conflict; its id is `kind:id`. A slice is one of 1,024 lanes of the log:
streams that belong together (a session, a fork and its parent) share one, and with it a transaction.
"""

from __future__ import annotations

import hashlib

from .errors import InvalidInputError

ID_BYTES_MAX = 255
SLICES = 1024


def stream_id(kind: str, context_id: str) -> str:
    """
    Return the id of the stream that holds `context_id` of this kind.

    Raises:
        InvalidInputError: the id is empty, too long, or holds a control character, `@` or `..`.
    """
    fault = _fault_of(context_id)
    if fault:
        raise InvalidInputError(f"{context_id!r} cannot be the id of a {kind} context: {fault}")
    return f"{kind}:{context_id}"


def split_stream_id(stream: str) -> tuple[str, str]:
    """Return `(kind, id)` of a stream id; the id itself may hold colons."""
    kind, _, context_id = stream.partition(":")
    return kind, context_id


def derived_id(root_id: str, ending: str) -> str:
    """Return an id that is made of a root's and an ending, cut where both together would be too long."""
    room = ID_BYTES_MAX - len(ending.encode())
    return root_id.encode()[:room].decode(errors="ignore") + ending


def slice_of(root: str) -> int:
    """Return the slice, 0 to 1,023, of everything that belongs to `root` (a session's or a context's id)."""
    digest = hashlib.blake2b(root.encode()).digest()
    return int.from_bytes(digest[:8], "big") % SLICES


def _fault_of(context_id: str) -> str | None:
    try:
        size = len(context_id.encode())
    except UnicodeEncodeError:
        return "it holds a lone surrogate, which is not UTF-8"
    if not 1 <= size <= ID_BYTES_MAX:
        return f"it has {size} bytes of UTF-8, and 1 to {ID_BYTES_MAX} are allowed"
    if "@" in context_id or ".." in context_id:
        return "`@` and `..` are kept for versions and ranges"
    if not context_id.isprintable() and any(ord(char) < 32 or 127 <= ord(char) < 160 for char in context_id):
        return "it holds a control character"
    return None
