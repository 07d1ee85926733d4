"""
Which output answers which call, and which calls wait for one.

Calls and outputs pair by occurrence, because ids repeat in real runs. An output answers the first waiting call with its
id, in the newest batch that has such a call, unless it names the item of another one. A batch is a sequence of calls
that only handoffs and config updates may interrupt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeGuard, get_args

import msgspec

from ..errors import InvalidInputError, PendingCallsError
from .events import (
    ABOUT_CONVERSATION,
    ApprovalRequested,
    CallApproved,
    CallChanged,
    CallRejected,
    ChatItemEvent,
    FunctionCalled,
    FunctionReturned,
    MessageAdded,
    is_apart,
)

# The way to send calls without an output: with a stub in its place, not at all, or to refuse the conversion.
PendingRule = Literal["stub", "omit", "refuse"]
# The items of a batch of calls; all others end it.
IN_BATCH = (FunctionCalled, *ABOUT_CONVERSATION)


def is_spoken(item: ChatItemEvent | None) -> TypeGuard[MessageAdded]:
    """Return whether an item is a message of the model, which may begin an answer with calls."""
    return isinstance(item, MessageAdded) and item.role == "assistant"


def is_of_model(item: ChatItemEvent | None) -> bool:
    """Return whether an item belongs to an answer of the model: its message, or one of its calls."""
    return isinstance(item, FunctionCalled) or is_spoken(item)


class Pairs(msgspec.Struct, frozen=True):
    """Indexes in a list of items: the output of each answered call, and the call of each such output."""

    output_of: dict[int, int]
    call_of: dict[int, int]

    def partner(self, index: int) -> int | None:
        """Return the index of the call or output that belongs to the item at `index`, or None."""
        output = self.output_of.get(index)
        return self.call_of.get(index) if output is None else output


def pair_calls(items: Iterable[ChatItemEvent]) -> Pairs:
    """Return which outputs answer which calls, in one pass; an output before its call answers no call."""
    pairs = Pairs({}, {})
    waiting: dict[str, list[tuple[int, int, str]]] = {}
    batch, in_batch = 0, False
    for index, item in enumerate(items):
        kind = type(item)
        if kind is FunctionCalled:
            batch += not in_batch
            in_batch = True
            waiting.setdefault(item.call_id, []).append((batch, index, item.id))  # type: ignore[union-attr]  # a call
            continue
        if kind in ABOUT_CONVERSATION:
            continue
        in_batch = False
        calls = waiting.get(item.call_id) if kind is FunctionReturned else None  # type: ignore[union-attr]
        place = answered_place(calls, item.call_item_id) if calls else None  # type: ignore[union-attr]  # it is an output
        if calls and place is not None:
            call = calls.pop(place)[1]
            pairs.output_of[call] = index
            pairs.call_of[index] = call
    return pairs


def answered_place(calls: Sequence[tuple[int, object, str]], named: str | None) -> int | None:
    """
    Return the place of the call that an output answers: the named one, else the first of the newest batch.

    `calls` are those of its call id that wait, one or more, each with its batch and the id of its item.
    """
    if named is None:
        return bisect_left(calls, calls[-1][0], key=lambda call: call[0])
    return next((place for place, call in enumerate(calls) if call[2] == named), None)


# The state that each of these events gives a call.
APPROVAL_STATES: Mapping[type, Literal["requested", "approved", "changed", "rejected"]] = {
    ApprovalRequested: "requested",
    CallApproved: "approved",
    CallChanged: "changed",
    CallRejected: "rejected",
}


class Approval(msgspec.Struct, frozen=True):
    """
    The state of a call that waits, or waited, for a person's approval.

    `state` is requested, approved, changed (approved with other arguments) or rejected; `by` and `because` are of the
    request as long as there is no decision. `version` is that of the event, in the context that recorded it.
    """

    state: Literal["requested", "approved", "changed", "rejected"]
    by: str | None
    because: str | None
    version: int


def approval_by(event: ApprovalRequested | CallApproved | CallChanged | CallRejected, version: int) -> Approval:
    """Return the state that an event with this version gives a call."""
    return Approval(APPROVAL_STATES[type(event)], event.by, event.reason, version)


class PendingCall(msgspec.Struct, frozen=True):
    """
    A call without an output. `item_id` is unique, so it can be the idempotency key of the tool's own work.

    `arguments` is text, as the model or, in a changed call, a person wrote it. `approval` is None if nobody asked for
    one.
    """

    item_id: str
    call_id: str
    name: str
    arguments: str
    agent_id: str | None = None
    approval: Approval | None = None


class PendingAnswer(msgspec.Struct, frozen=True):
    """
    The calls of one answer of the model that have no output.

    `item_id` is that of the answer's message, or of its first call if it has no message.
    """

    item_id: str
    calls: tuple[PendingCall, ...]


def pending_answers(
    items: Sequence[ChatItemEvent], pending: Callable[[int, FunctionCalled], PendingCall]
) -> list[PendingAnswer]:
    """Return the calls without an output; `pending` makes a call's record, given its index and the call."""
    output_of = pair_calls(items).output_of
    answers: list[tuple[str, list[PendingCall]]] = []
    last: ChatItemEvent | None = None
    for index, item in enumerate(items):
        kind = type(item)
        if kind in ABOUT_CONVERSATION:
            continue
        if kind is FunctionCalled:
            if type(last) is not FunctionCalled:
                answers.append((last.id if is_spoken(last) else item.id, []))
            if index not in output_of:
                answers[-1][1].append(pending(index, item))  # type: ignore[arg-type]  # a call
        last = item
    return [PendingAnswer(item_id, tuple(calls)) for item_id, calls in answers if calls]


def start_of_answer(items: Sequence[ChatItemEvent], index: int) -> int:
    """Return the index of the first item of the answer that made the call at `index`: its message or its first call."""
    first = index
    for at in range(index - 1, -1, -1):
        item, origin = items[at], items[first].origin
        if origin is not None and origin.starts:
            break
        if isinstance(item, ABOUT_CONVERSATION):
            continue
        if not is_of_model(item):
            break
        first = at
        if is_spoken(item):
            break
    return first


def items_to_send(items: Sequence[ChatItemEvent], rule: PendingRule, *, apart: bool = False) -> Sequence[ChatItemEvent]:
    """
    Return the items of a request under a rule for calls without an output, with `apart` also those that are apart.

    Raises:
        PendingCallsError: there are such calls, and the rule is `refuse`.
        InvalidInputError: there is no such rule.
    """
    if not apart and any(map(is_apart, items)):
        items = [item for item in items if not is_apart(item)]
    if rule == "stub":
        return items
    if rule not in get_args(PendingRule):
        raise InvalidInputError(f"pending is {rule!r}: take 'stub', 'omit' or 'refuse'")
    output_of = pair_calls(items).output_of
    waiting = {index for index, item in enumerate(items) if type(item) is FunctionCalled and index not in output_of}
    if waiting and rule == "refuse":
        answers = pending_answers(items, lambda _, call: pending_call(call))
        raise PendingCallsError([call for answer in answers for call in answer.calls])
    return [item for index, item in enumerate(items) if index not in waiting]


def pending_call(call: FunctionCalled, approval: Approval | None = None) -> PendingCall:
    """Return the record of a call without an output."""
    return PendingCall(call.id, call.call_id, call.name, call.arguments, call.agent_id, approval)
