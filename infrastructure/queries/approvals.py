"""The calls of all chats that wait for a person's decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ...domain.chat.context import ChatContext
from ...domain.chat.pairing import PendingCall
from ...domain.ids import split_stream_id
from ...projections.approvals import ApprovalRow


class PendingApproval(msgspec.Struct, frozen=True):
    """
    A call that waits for a decision, and its chat. `requested_at` is in microseconds since 1970, UTC.

    `call.approval` says who asked for the approval, and why.
    """

    context: str
    call: PendingCall
    requested_at: int


def pending_approvals(rows: Iterable[ApprovalRow], opened: Callable[[str], ChatContext]) -> list[PendingApproval]:
    """
    Return the calls that wait, the longest waiting first.

    The rows, which have no decision, say which chats to ask. The chats know whether the call is still in the view and
    has no output.
    """
    waiting: dict[str, dict[str, ApprovalRow]] = {}
    for row in rows:
        waiting.setdefault(row.context, {})[row.birth] = row
    found = []
    for stream, asked in waiting.items():
        chat = opened(split_stream_id(stream)[1])
        items = chat.recorded_items()
        for call in chat.approvals.pending():
            ordinal = items.ordinal(call.item_id)
            assert ordinal is not None, "a pending call is in the view"
            known = asked.get(str(items.ref(ordinal).within(stream)))
            if known is not None:
                found.append(PendingApproval(chat.id, call, known.requested_at))
    return sorted(found, key=lambda one: one.requested_at)
