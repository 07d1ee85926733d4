"""
Messages that were written piece by piece, put together; and the token counts of erased items.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..canonical import canonical_json, parse_json
from ..log.admission import TOTAL_MAX
from .events import (
    ARCHIVED_TEXT,
    ERASED,
    ERASED_TEXT,
    ChatItemEvent,
    FunctionCalled,
    FunctionReturned,
    MessageAdded,
    MessageFinished,
    Piece,
)

# The bytes in the extra of a message whose texts were erased.
MARK = b'"erased"'


def is_erased(item: ChatItemEvent) -> bool:
    """Return whether an item has the mark of an erasure. An erased message has it also if it never had a text."""
    if isinstance(item, FunctionCalled | FunctionReturned):
        return item.erased is not None
    return isinstance(item, MessageAdded) and MARK in item.extra


def erased_tokens(item: ChatItemEvent) -> int | None:
    """
    Return the tokens that an item counted before its texts were erased or archived; None if they were not.

    The count stays in force, since later events have totals that include it. A message has it in `extra["erased"]`: a
    new field would change the encoded form of every message.
    """
    if isinstance(item, FunctionCalled | FunctionReturned):
        return item.erased
    if not isinstance(item, MessageAdded) or MARK not in item.extra:
        return None
    tokens = parse_json(item.extra).get(ERASED)
    text = item.content[0] if isinstance(item.content, tuple) and len(item.content) == 1 else item.content
    is_total = type(tokens) is int and abs(tokens) <= TOTAL_MAX
    return tokens if is_total and text in (ERASED_TEXT, ARCHIVED_TEXT) else None


def written(message: MessageAdded, pieces: Sequence[tuple[int, Piece]]) -> MessageAdded:
    """Return a message with these pieces added; each is given with its version."""
    parts, text = message.parts, "".join([piece.text for _, piece in pieces])
    if text:
        parts = (*parts[:-1], parts[-1] + text) if parts and isinstance(parts[-1], str) else (*parts, text)
    until, last = pieces[-1]
    changed: dict[str, Any] = {"content": parts, "until": until}
    if isinstance(last, MessageFinished):
        changed |= {"incomplete": last.incomplete, "interrupted": last.incomplete is not None}
        changed |= {"metrics": last.metrics} if last.metrics else {}
    erased = erased_tokens(message)
    if erased is not None:
        grown = erased + sum(piece.change.tokens for _, piece in pieces)
        tokens = last.tokens if isinstance(last, MessageFinished) else grown
        changed["extra"] = canonical_json({**parse_json(message.extra), ERASED: tokens}, what="an erased message")
    return msgspec.structs.replace(message, **changed)
