"""Which calls wait for a person, and who decided on which? One row for each call with a request or a decision."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..domain.chat.events import CallChanged
from ..domain.chat.pairing import APPROVAL_STATES
from ..domain.log.envelope import Event, RecordedEvent
from ..domain.spans import refs_of
from .intervals import birth_in, item_key

REQUESTED = "requested"


class ApprovalRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    The approval of a call: `birth` is the origin of the call, `context` the stream in which it was asked or decided.

    `state` is requested, approved, rejected or changed. Times are in microseconds since 1970, UTC; 0 and an empty text
    are "not given", as a decision may come without a request.
    """

    key: str
    context: str
    birth: str
    state: str = REQUESTED
    requested_by: str = ""
    requested_because: str = ""
    requested_at: int = 0
    decided_by: str = ""
    decided_because: str = ""
    decided_at: int = 0


class CallApprovals:
    """The fold behind `store.pending_approvals()`."""

    name = "approvals"
    version = 1
    row = ApprovalRow
    stays_in_slice = True
    events: frozenset[type[Event]] = frozenset(APPROVAL_STATES)

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the key of the call that the event is about."""
        recorded = event.event
        refs = refs_of(recorded.replaced) if isinstance(recorded, CallChanged) else (recorded.call,)
        return tuple(dict.fromkeys(item_key(event.stream, ref) for ref in refs))

    def evolve(self, key: str, row: ApprovalRow | None, event: RecordedEvent) -> ApprovalRow:
        recorded = event.event
        row = row or ApprovalRow(key=key, context=event.stream, birth=birth_in(key, event.stream))
        state, by, because = APPROVAL_STATES[type(recorded)], recorded.by or "", recorded.reason or ""
        if state == REQUESTED:
            return msgspec.structs.replace(
                row, state=state, requested_by=by, requested_because=because, requested_at=event.recorded_at
            )
        return msgspec.structs.replace(
            row, state=state, decided_by=by, decided_because=because, decided_at=event.recorded_at
        )


APPROVALS = CallApprovals()
