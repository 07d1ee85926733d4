"""Calls: their outputs, each recorded once, and the approvals for which they wait."""

from __future__ import annotations

import msgspec

from ...canonical import require_unicode
from ...errors import ApprovalPendingError, CallSettledError, NotFoundError
from .. import events as chat
from ..pairing import Approval, pair_calls, start_of_answer
from ..state.item_table import totals_of
from ..state.sequence import Items
from .commands import AnswerCall, DecideCall
from .edits import Partners, require_ids


class FoundCall(msgspec.Struct, frozen=True):
    """A call by its ordinal, and the ordinal of its output if it has one."""

    ordinal: int
    item: chat.FunctionCalled
    output: int | None = None


def find_call(stream: str, name: str, items: Items) -> FoundCall:
    """
    Return the call with a call id, else with an item id.

    If several calls have the id, it is the one that an output with this call id would answer: the first waiting call of
    the newest answer; if none waits, the newest call. A call waits if it is in the view and has no output. The cost
    does not depend on the length of the context, unless call ids repeat.

    Raises:
        NotFoundError: the context never held such a call.
    """
    known = items.item_table.items
    by_item = items.ordinal(require_unicode(name, "the call"))
    # A call in the view is paired there: a call that left may have the same id and be in front of it.
    shown, held = Partners(items, are_gone=False), Partners(items, are_gone=True)
    calls = [
        FoundCall(ordinal, item, (shown if items.shows(ordinal) else held).of(ordinal))
        for ordinal in items.item_table.with_call_id(name, items.reach) or ([] if by_item is None else [by_item])
        if isinstance(item := known[ordinal], chat.FunctionCalled)
    ]
    if not calls:
        raise NotFoundError(f"{stream} has no call {name!r}: pending_calls() lists those that wait for an output")
    waiting = {call.ordinal: call for call in calls if call.output is None and items.shows(call.ordinal)}
    if len(waiting) < 2:
        return next(iter(waiting.values()), calls[-1])
    return waiting[_answered_by_place(items, name)]


def _answered_by_place(items: Items, call_id: str) -> int:
    """Return the ordinal of the waiting call that the next output with a call id answers if it names no call's item."""
    output = chat.FunctionReturned(id="", created_at=0.0, name="", output="", call_id=call_id)
    return items.order()[pair_calls([*items, output]).call_of[len(items)]]


def _output_of(call: FoundCall, output: chat.FunctionReturned, items: Items) -> chat.FunctionReturned:
    """Return the output of a waiting call; it names the call's item if, by its place, it would answer another call."""
    item = call.item
    is_repeated = len(items.item_table.with_call_id(item.call_id, items.reach)) > 1
    is_other = is_repeated and _answered_by_place(items, item.call_id) != call.ordinal
    return msgspec.structs.replace(
        output, name=item.name, call_id=item.call_id, call_item_id=item.id if is_other else None
    )


def version_before(stream: str, name: str, items: Items) -> int:
    """
    Return the version before the answer in which the model made a call; parallel calls belong to one answer.

    Raises:
        NotFoundError: there is no such call, or it was made in the context of which this one is a fork.
    """
    ordinal = items.named(require_unicode(name, "the call"))
    if ordinal is None or not isinstance(items.item_table.items[ordinal], chat.FunctionCalled):
        raise NotFoundError(f"{stream} has no call with the id or call id {name!r}")
    ref = items.ref(start_of_answer(items.item_table.items, ordinal))
    if ref.stream:
        raise NotFoundError(f"{stream} did not make the call {name!r}: it came from {ref.stream}, ask there")
    return ref.version - 1


def answer_call(command: AnswerCall, items: Items) -> list[chat.FunctionReturned]:
    """
    Return the event that adds an output; none if the call has the same output already.

    Raises:
        NotFoundError: the context never held such a call.
        ApprovalPendingError: the call waits for a person's decision, so it may not have run.
        CallSettledError: the call has another output, or left the view without one.
    """
    stream, output = command.stream, command.output
    call = find_call(stream, command.call, items)
    call_id = call.item.call_id
    if call.output is not None:
        recorded = items.item_table.items[call.output]
        assert isinstance(recorded, chat.FunctionReturned), "a call is paired with an output"
        if (recorded.output, recorded.is_error) == (output.output, output.is_error):
            return []
        raise CallSettledError(stream, call_id, f"has another output already, the item {recorded.id!r}")
    known = items.approval(call.ordinal)
    if not items.shows(call.ordinal):
        if known is not None and known.state == "changed":
            raise CallSettledError(stream, call_id, f"was changed by {known.by}: run it with the new arguments")
        raise CallSettledError(stream, call_id, f"left the view without an output: restore {call.item.id!r} first")
    if known is not None and known.state == "requested":
        raise ApprovalPendingError(stream, call_id, known.version)
    answered = _output_of(call, output, items)
    require_ids((answered,))
    return [answered]


def call_to_decide(stream: str, name: str, items: Items) -> FoundCall:
    """
    Return the call that a request or a decision is about.

    Raises:
        NotFoundError: the context never held such a call.
    """
    call = find_call(stream, name, items)
    # The call may have been changed: then the one with the new arguments is meant.
    return call if items.shows(call.ordinal) else find_call(stream, call.item.call_id, items)


def decide_call(command: DecideCall, items: Items) -> list[chat.ChatEvent]:
    """
    Return the events that ask for the approval of a call, or decide on it; none if the same was done before.

    A rejected call gets an output, so that it waits no longer. A changed call takes the place of the model's.

    Raises:
        NotFoundError: the context never held such a call.
        CallSettledError: the call has an output, left the view, or another request or decision was made on it.
    """
    stream, reason = command.stream, command.reason
    call = call_to_decide(stream, command.call, items)
    call_id = call.item.call_id
    known = items.approval(call.ordinal)
    if known is not None and _is_repeated(command, known, call.item):
        return []
    if known is not None and (known.state != "requested" or command.state == "requested"):
        by = f" by {known.by}" if known.by else ""
        raise CallSettledError(
            stream, call_id, f"has an approval that was {known.state}{by} at version {known.version}"
        )
    if call.output is not None:
        raise CallSettledError(stream, call_id, "has an output already, so no approval can change what ran")
    if not items.shows(call.ordinal):
        raise CallSettledError(stream, call_id, f"left the view: restore {call.item.id!r} first")
    ref, by = items.ref(call.ordinal), command.by or ""
    match command.state:
        case "requested":
            return [chat.ApprovalRequested(call=ref, by=command.by, reason=reason)]
        case "approved":
            return [chat.CallApproved(call=ref, by=by, reason=reason)]
        case "rejected":
            assert command.output is not None, "a rejected call gets an output"
            return [chat.CallRejected(call=ref, by=by, reason=reason), _output_of(call, command.output, items)]
        case "changed":
            assert command.changed is not None, "a changed call has new arguments"
            return [_changed(call, command.changed, items, by, reason)]


def _is_repeated(command: DecideCall, known: Approval, item: chat.FunctionCalled) -> bool:
    is_same = (known.state, known.by, known.because) == (command.state, command.by, command.reason)
    return is_same and (command.changed is None or command.changed.arguments == item.arguments)


def _changed(
    call: FoundCall, changed: chat.FunctionCalled, items: Items, by: str, reason: str | None
) -> chat.CallChanged:
    known = call.item
    # Without an origin, since no imported message has these arguments.
    item = msgspec.structs.replace(known, id=changed.id, arguments=changed.arguments, origin=None)
    return chat.CallChanged(
        item=item,
        before=items.ref(call.ordinal),
        replaced=items.spans([call.ordinal]),
        change=totals_of(item) - items.total_of([call.ordinal]),
        by=by,
        reason=reason,
    )
