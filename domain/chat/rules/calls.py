"""What becomes of a call: its output, which is recorded once."""

from __future__ import annotations

import msgspec

from ...errors import CallSettledError, NotFoundError
from ..events import FunctionCalled, FunctionReturned
from ..state.sequence import Items
from .commands import AnswerCall
from .edits import Partners, require_ids


class FoundCall(msgspec.Struct, frozen=True):
    """A call by its ordinal, and the ordinal of its output if it has one."""

    ordinal: int
    item: FunctionCalled
    output: int | None = None


def find_call(stream: str, name: str, items: Items) -> FoundCall:
    """
    Return the call with a call id, else with an item id; of several the newest one that waits, else the newest one.

    A call waits if it is in the view and has no output. The cost does not depend on the length of the context, unless
    call ids repeat.

    Raises:
        NotFoundError: the context never held such a call.
    """
    known = items.arena.items
    by_item = items.ordinal(name)
    partners = Partners(items, are_gone=True)
    calls = [
        FoundCall(ordinal, item, partners.of(ordinal))
        for ordinal in items.arena.with_call_id(name, items.reach) or ([] if by_item is None else [by_item])
        if isinstance(item := known[ordinal], FunctionCalled)
    ]
    if not calls:
        raise NotFoundError(f"{stream} has no call {name!r}: pending_calls() lists those that wait for an output")
    waiting = [call for call in calls if call.output is None and items.shows(call.ordinal)]
    return (waiting or calls)[-1]


def output_of(name: str, items: Items) -> FunctionReturned:
    """Return the output of a call that has one."""
    found = find_call("", name, items).output
    output = None if found is None else items.arena.items[found]
    assert isinstance(output, FunctionReturned), "a call that needs no output has one"
    return output


def answer_call(command: AnswerCall, items: Items) -> list[FunctionReturned]:
    """
    Return the event that adds an output; none if the call has the same output already.

    Raises:
        NotFoundError: the context never held such a call.
        CallSettledError: the call has another output, or left the view without one.
    """
    stream, output = command.stream, command.output
    call = find_call(stream, command.call, items)
    call_id = call.item.call_id
    if call.output is not None:
        recorded = items.arena.items[call.output]
        assert isinstance(recorded, FunctionReturned), "a call is paired with an output"
        if (recorded.output, recorded.is_error) == (output.output, output.is_error):
            return []
        raise CallSettledError(stream, call_id, f"has another output already, the item {recorded.id!r}")
    if not items.shows(call.ordinal):
        raise CallSettledError(stream, call_id, f"left the view without an output: restore {call.item.id!r} first")
    answered = msgspec.structs.replace(output, name=call.item.name, call_id=call_id)
    require_ids((answered,))
    return [answered]
