"""Approvals: calls that wait for a person, and the decisions on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ..arguments import require_optional
from ..canonical import canonical_json, require_unicode
from ..context.context import Context
from ..errors import InvalidInputError
from ..log.envelope import Event, Trace
from .events import ApprovalRequested, CallApproved, CallChanged, CallRejected, FunctionCalled, FunctionReturned
from .item_events import make_event
from .pairing import Approval, PendingAnswer, PendingCall
from .rules.calls import call_to_decide, find_call
from .rules.commands import DecideCall
from .state.fold import ChatState


class Approvals:
    """
    The approvals of a chat, `chat.approvals`. A call of a tool may wait for one, or get one without a request.

    A call is given by its call id, or by the id of its item; if a call id repeats, `answer_call` says which is meant.
    A decision is final: the same one again changes nothing, any other raises CallSettledError, also if two people
    decide at the same time. `by` is who decides, and the actor of the event where `acting` sets no other.

    Each method raises NotFoundError for a call that never was, and CallSettledError for one that has an output, left
    the view, or has another request or decision. A view of the past shows the approvals of its time.
    """

    def __init__(self, context: Context[ChatState], pending_calls: Callable[[], list[PendingAnswer]]) -> None:
        self._context, self._pending_calls = context, pending_calls

    def __repr__(self) -> str:
        return f"Approvals({self._context!r})"

    def of(self, call: str) -> Approval | None:
        """
        Return the state of a call's approval; None if nobody asked for one or gave one.

        Raises:
            NotFoundError: the context never held such a call.
        """
        items = self._context._state.items
        return items.approval(find_call(self._context.stream_id, call, items).ordinal)

    def request(
        self, call: str, *, by: str | None = None, because: str | None = None, idempotency_key: str | None = None
    ) -> Approval:
        """
        Let a call wait for a decision.

        A request that is repeated under its idempotency key changes nothing: it returns the approval as it is now,
        which a decision since then may have ended.
        """
        return self._decide(DecideCall(self._context.stream_id, call, "requested", by, because), idempotency_key)

    def approve(
        self, call: str, *, by: str, because: str | None = None, idempotency_key: str | None = None
    ) -> Approval:
        """Allow a call to run as the model made it."""
        return self._decide(DecideCall(self._context.stream_id, call, "approved", by, because), idempotency_key)

    def reject(self, call: str, *, by: str, because: str | None = None, idempotency_key: str | None = None) -> Approval:
        """Forbid a call to run; it gets an output, marked as an error, that says by whom and why."""
        text = f"This call was rejected by {by} and did not run." + (f" Reason: {because}" if because else "")
        output = make_event(FunctionReturned, **self._new("output_"), name="", call_id=call, output=text, is_error=True)
        assert isinstance(output, FunctionReturned), "an output is recorded as one"
        command = DecideCall(self._context.stream_id, call, "rejected", by, because, output=output)
        return self._decide(command, idempotency_key)

    def change(
        self,
        call: str,
        arguments: str | Mapping[str, Any],
        *,
        by: str,
        because: str | None = None,
        idempotency_key: str | None = None,
    ) -> Approval:
        """
        Allow a call to run with other arguments, a JSON object or its text.

        A new item with the same call id takes the place of the model's call, and providers are sent the new arguments.
        The model's own call stays in the past.

        Raises:
            InvalidInputError: the arguments are no JSON object.
        """
        given = dict(arguments) if isinstance(arguments, Mapping) else arguments
        what = "the arguments"
        text = require_unicode(given, what) if isinstance(given, str) else canonical_json(given, what=what).decode()
        _require_object(text)
        changed = make_event(FunctionCalled, **self._new("call_"), name="", arguments=text, call_id=call)
        assert isinstance(changed, FunctionCalled), "a call is recorded as one"
        command = DecideCall(self._context.stream_id, call, "changed", by, because, changed=changed)
        return self._decide(command, idempotency_key)

    def pending(self) -> list[PendingCall]:
        """Return the calls in the view that wait for a decision, in order."""
        waiting = (call for answer in self._pending_calls() for call in answer.calls)
        return [call for call in waiting if call.approval is not None and call.approval.state == "requested"]

    def _new(self, prefix: str) -> dict[str, Any]:
        system = self._context._attachment.system
        return {"id": system.new_id(prefix), "created_at": system.now()}

    def _decide(self, command: DecideCall, key: str | None) -> Approval:
        by = command.by
        if by is not None or command.state != "requested":
            by = _require_name(by)
        command = msgspec.structs.replace(command, by=by, reason=require_optional(command.reason, "the reason"))
        arguments = None if command.changed is None else command.changed.arguments
        call = ("decide_call", command.call, command.state, command.by, command.reason, arguments)
        with Trace(command.by).recording():
            outcome = self._context._record(command, call=call, idempotency_key=key, catch_up=True)
        approval = self._decided(command, outcome.events)
        assert approval is not None, "it was recorded, now or before"
        return approval

    def _decided(self, command: DecideCall, events: Sequence[Event]) -> Approval | None:
        """Return the approval of the call that was decided: another one may wait under the same call id now."""
        items = self._context._state.items
        match events:
            case [CallChanged(item=item), *_]:
                ordinal = items.ordinal(item.id)
            case [ApprovalRequested(call=ref) | CallApproved(call=ref) | CallRejected(call=ref), *_]:
                ordinal = items.of_ref(ref)
            case _:
                ordinal = call_to_decide(command.stream, command.call, items).ordinal
        return None if ordinal is None else items.approval(ordinal)


def _require_name(by: object) -> str:
    if not isinstance(by, str) or not by.strip():
        raise InvalidInputError(f"by is {by!r}: give the name of the person or program that decides")
    return require_unicode(by, "by")


def _require_object(text: str) -> None:
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"the arguments are no JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidInputError(f"the arguments are {text!r}: give a JSON object")
