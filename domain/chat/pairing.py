"""
Which output answers which call.

Calls and outputs pair by occurrence, because ids repeat in real runs. An output answers the first waiting call with its
id, in the newest batch that has such a call. A batch is a sequence of calls that only handoffs and config updates may
interrupt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import msgspec

from .events import ChatItemEvent, ConfigUpdated, FunctionCalled, FunctionReturned, HandedOff


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
    waiting: dict[str, list[tuple[int, int]]] = {}
    batch, in_batch = 0, False
    for index, item in enumerate(items):
        kind = type(item)
        if kind is FunctionCalled:
            batch += not in_batch
            in_batch = True
            waiting.setdefault(item.call_id, []).append((batch, index))  # type: ignore[union-attr]  # it is a call
            continue
        if kind is HandedOff or kind is ConfigUpdated:
            continue
        in_batch = False
        calls = waiting.get(item.call_id) if kind is FunctionReturned else None  # type: ignore[union-attr]
        if calls:
            # The first call of the newest batch that still waits.
            newest = bisect_left(calls, calls[-1][0], key=lambda call: call[0])
            call = calls.pop(newest)[1]
            pairs.output_of[call] = index
            pairs.call_of[index] = call
    return pairs
